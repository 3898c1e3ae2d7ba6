"""What an answer says so far: its parts, and the exact text of each as the model wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import assert_never

from chatwrap.chat.events import (
    ArgumentsText,
    CallEnd,
    CallStart,
    Diagnostic,
    ParserEvent,
    SegmentEnd,
    SegmentStart,
    SegmentText,
    TextEvent,
)
from chatwrap.chat.history import ChatModelResponse, ChatModelSegment, ResponsePart, SegmentType
from chatwrap.chat.text import LlamaText
from chatwrap.engine.reading import RawText
from chatwrap.output.pieces import Piece


@dataclass(slots=True)
class _OpenSegment:
    kind: SegmentType
    raw: list[LlamaText]
    text: list[str] = field(default_factory=list)

    def segment(self, *, ended: bool) -> ChatModelSegment:
        return ChatModelSegment(
            segment_type=self.kind, text="".join(self.text), ended=ended, raw=LlamaText(*self.raw)
        )


class AnswerRecord:
    """Collects events, once they are allowed for: after a call, an answer has nothing but calls.

    A model that goes on by itself after its calls makes up their results. Text, segments and failed
    readings behind a call end the answer therefore (`is_over`), and so does the last of `max_calls`
    calls; what stands there is left out. White space between calls is kept out of the text.

    `opening` is the mark by which the prompt opened a segment, so that `raw` is whole. Law: the parts'
    raw texts, and the texts themselves, are what was read, in order.
    """

    def __init__(self, *, opening: LlamaText | None = None, max_calls: int | None = None) -> None:
        self.n_calls = 0
        self.is_over = False
        self.n_characters = 0
        self._n_blank = 0
        self.diagnostics: list[Diagnostic] = []
        self._max_calls = max_calls
        self._opening = opening or LlamaText()
        self._raw = RawText()
        self._parts: list[ResponsePart] = []
        self._text: list[str] = []
        self._segment: _OpenSegment | None = None
        self._call_raw: list[LlamaText] | None = None

    @property
    def open_segment(self) -> SegmentType | None:
        """The kind of segment that is open now, if one is."""
        return None if self._segment is None else self._segment.kind

    @property
    def text(self) -> str:
        """The answer's text so far."""
        return "".join([*(part for part in self._parts if isinstance(part, str)), *self._text])

    def write(self, pieces: Iterable[Piece]) -> None:
        """Notes what was read before its events come."""
        self._raw.write(pieces)

    def admit(self, events: Iterable[ParserEvent]) -> Iterator[ParserEvent]:
        """Those of the events that belong to the answer, each collected; a call with its `raw_call`."""
        for event in events:
            if self.is_over or self._is_beyond(event):
                self.is_over = True
                return
            if self.n_calls and isinstance(event, TextEvent):
                self._raw.take(len(event.raw))
                self._n_blank += len(event.raw)
            else:
                yield self._collected(event)
            if self._max_calls is not None and self.n_calls >= self._max_calls:
                self.is_over = True

    def response(self) -> ChatModelResponse:
        """The parts so far; a segment that is still open hasn't ended."""
        open_part = [self._segment.segment(ended=False)] if self._segment else []
        text = ["".join(self._text)] if self._text else []
        return ChatModelResponse(response=(*self._parts, *text, *open_part))

    def _is_beyond(self, event: ParserEvent) -> bool:
        if not self.n_calls or self._call_raw is not None:
            return False
        match event:
            case TextEvent(text=text):
                return bool(text.strip())
            case SegmentStart():
                return True
            case Diagnostic(kind=kind):
                return kind in ("unreadable_call", "stray_token")
        return False

    def _collected(self, event: ParserEvent) -> ParserEvent:
        raw = self._raw.take(len(event.raw))
        self.n_characters += self._n_blank + len(event.raw)
        self._n_blank = 0
        match event:
            case TextEvent(text=text):
                self._text += [text] if text else []
            case SegmentStart(segment_type=kind):
                self._end_text()
                self._segment = _OpenSegment(kind, [raw or self._opening])
            case SegmentText(text=text):
                if self._segment:
                    self._segment.text.append(text)
                    self._segment.raw.append(raw)
            case SegmentEnd():
                self._end_segment(raw)
            case CallStart():
                self._end_text()
                self._call_raw = [raw]
            case ArgumentsText():
                self._note_call(raw)
            case CallEnd():
                return self._end_call(event, raw)
            case Diagnostic():
                self.diagnostics.append(event)
                self._note_call(raw)
            case _:
                assert_never(event)
        return event

    def _end_text(self) -> None:
        if self._text:
            self._parts.append("".join(self._text))
            self._text.clear()

    def _end_segment(self, raw: LlamaText) -> None:
        if self._segment:
            self._segment.raw.append(raw)
            self._parts.append(self._segment.segment(ended=True))
            self._segment = None

    def _note_call(self, raw: LlamaText) -> None:
        if self._call_raw is not None:
            self._call_raw.append(raw)

    def _end_call(self, event: CallEnd, raw: LlamaText) -> CallEnd:
        self._note_call(raw)
        raw_call = LlamaText(*(self._call_raw or ()))
        call = event.call.model_copy(update={"raw_call": raw_call} if raw_call else {})
        self._parts.append(call)
        self._call_raw = None
        self.n_calls += 1
        return replace(event, call=call)
