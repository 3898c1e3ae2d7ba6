"""Collects the events of one reading step: pieces of one text joined, nothing of the output lost."""

from __future__ import annotations

from chatwrap.chat.events import (
    ArgumentsText,
    CallEnd,
    CallStart,
    Diagnostic,
    DiagnosticKind,
    ParserEvent,
    SegmentEnd,
    SegmentStart,
    SegmentText,
    TextEvent,
)
from chatwrap.chat.history import ChatModelFunctionCall, SegmentType
from chatwrap.errors import OutputError
from chatwrap.output.source import Source


class EventWriter:
    """Makes events of what the source gave; each has as `raw` what was taken since the event before.

    If it is `strict`, the first diagnostic is raised as an `OutputError`.
    """

    def __init__(self, source: Source, *, strict: bool) -> None:
        self.source = source
        self._strict = strict
        self._events: list[ParserEvent] = []
        self._kind: SegmentType | int | None = None
        self._pieces: list[str] = []
        self._raws: list[str] = []

    def text(self, text: str, segment: SegmentType | None = None, *, raw: str | None = None) -> None:
        """A piece of the answer, or of the open segment; `raw` if it isn't what the source gave last."""
        self._piece(segment, text, raw)

    def arguments(self, index: int, text: str) -> None:
        self._piece(index, text)

    def start_segment(self, segment: SegmentType) -> None:
        self._add(SegmentStart(segment, self.source.raw()))

    def end_segment(self, segment: SegmentType) -> None:
        self._add(SegmentEnd(segment, self.source.raw()))

    def start_call(self, index: int, name: str, call_id: str | None) -> None:
        self._add(CallStart(index, name, call_id, self.source.raw()))

    def end_call(self, index: int, call: ChatModelFunctionCall) -> None:
        self._add(CallEnd(index, call, self.source.raw()))

    def diagnose(self, kind: DiagnosticKind, message: str, *, takes_raw: bool = False, raw: str = "") -> None:
        """Tells that something isn't as it should be; with `takes_raw` no other event has the text, or
        the text is `raw`.
        """
        raw = self.source.raw() if takes_raw else raw
        if self._strict:
            raise OutputError(kind, message, raw)
        self._add(Diagnostic(kind, message, raw))

    def events(self) -> list[ParserEvent]:
        """The events since this was asked for last."""
        self._join()
        events, self._events = self._events, []
        return events

    def _piece(self, kind: SegmentType | int | None, text: str, raw: str | None = None) -> None:
        if self._raws and kind != self._kind:
            self._join()
        self._kind = kind
        self._pieces.append(text)
        self._raws.append(self.source.raw() if raw is None else raw)

    def _add(self, event: ParserEvent) -> None:
        self._join()
        self._events.append(event)

    def _join(self) -> None:
        text, raw = "".join(self._pieces), "".join(self._raws)
        self._pieces, self._raws = [], []
        if not text and not raw:
            return
        match self._kind:
            case None:
                self._events.append(TextEvent(text, raw))
            case int():
                self._events.append(ArgumentsText(self._kind, text, raw))
            case _:
                self._events.append(SegmentText(self._kind, text, raw))
