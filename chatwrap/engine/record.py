"""What an answer says so far: its parts, and the exact text of each as the model wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Self, assert_never

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
from chatwrap.chat.slotted import Slot, SyntaxText, as_slotted
from chatwrap.chat.syntax import FunctionsSyntax
from chatwrap.chat.text import LlamaText
from chatwrap.engine.reading import RawText
from chatwrap.output.pieces import Piece

_NEVER: Final = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True)
class CallEdges:
    """Where the text of a call itself begins and ends in what was read for it.

    The marks of a section of calls and what stands between two of them are the format's to write again,
    and so is the white space before a call, but not in a format that hasn't sections of calls.
    """

    beginning: re.Pattern[str] = _NEVER
    end: re.Pattern[str] = _NEVER
    has_sections: bool = False

    @classmethod
    def of(cls, syntax: FunctionsSyntax) -> Self:
        """The edges that a call syntax has."""
        call = syntax.call
        beginnings = (_pattern(text) for text in (call.prefix, *call.prefix_alternate_matches))
        beginning = re.compile("|".join(filter(None, beginnings)) or "(?!)")
        end = re.compile(_pattern(call.suffix))
        return cls(beginning, end, has_sections=syntax.parallelism is not None)

    def call_text(self, raw: LlamaText, n_before: int, n_behind: int) -> LlamaText | None:
        """The part of `raw` that is the call itself; None where it lacks one of its marks.

        Its beginning is sought among the first `n_before` characters, its end in the last `n_behind`.
        """
        text = str(raw)
        found = self.beginning.search(text, 0, n_before)
        ends = list(self.end.finditer(text, max(len(text) - n_behind, found.end() if found else 0)))
        if found is None or not ends:
            return None
        start = found.start()
        if not self.has_sections and not text[:start].strip():
            start = 0
        return RawText.of(raw).cut(start, ends[0].end())


def _pattern(text: SyntaxText) -> str:
    """A pattern of a mark up to its first slot, whatever white space stands between its words."""
    fixed = ""
    for part in as_slotted(text).parts:
        if isinstance(part, Slot):
            break
        fixed += str(part)
    words = map(re.escape, fixed.split())
    trailing = re.escape(fixed[len(fixed.rstrip()) :])
    return r"\s*".join(words) + (f"(?:{trailing})?" if trailing else "")


@dataclass(slots=True)
class _Written:
    """A segment or call being read: its raw text in pieces, and what a segment says."""

    raw: list[LlamaText]
    text: list[str] = field(default_factory=list)
    n_before: int = 0


class AnswerRecord:
    """Collects events, once they are allowed for: after a call, an answer has nothing but calls.

    A model that goes on by itself after its calls makes up their results. Text, segments and failed
    readings behind a call end the answer therefore (`is_over`), and so does the last of `max_calls`
    calls; what stands there is left out. White space between calls is kept out of the text.

    `opening` is the mark by which the prompt opened a segment, so that `raw` is whole. Law: the parts'
    raw texts, and the texts themselves, are what was read, in order.
    """

    def __init__(
        self, edges: CallEdges, *, opening: LlamaText | None = None, max_calls: int | None = None
    ) -> None:
        self.n_calls = 0
        self.is_over = False
        self.diagnostics: list[Diagnostic] = []
        self._edges = edges
        self._n_read = self._n_blank = self._n_whole = 0
        self._max_calls = max_calls
        self._opening = opening or LlamaText()
        self._raw = RawText()
        self._parts: list[ResponsePart] = []
        self._text: list[str] = []
        self._open: list[SegmentType] = []
        self._segment: _Written | None = None
        self._call: _Written | None = None

    @property
    def open_segment(self) -> SegmentType | None:
        """The kind of segment that is open now, if one is."""
        return self._open[-1] if self._open else None

    @property
    def n_kept(self) -> int:
        """How many characters of what was read say what the answer says: none of a call that was cut off."""
        return self._n_read if self._call is None else self._n_whole

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
        text = ["".join(self._text)] if self._text else []
        segment = [self._part(self._segment, ended=False)] if self._segment else []
        return ChatModelResponse(response=(*self._parts, *text, *segment))

    def _is_beyond(self, event: ParserEvent) -> bool:
        if not self.n_calls or self._call is not None:
            return False
        match event:
            case TextEvent(text=text):
                return bool(text.strip())
            case SegmentStart():
                return True
            case Diagnostic(kind=kind):
                return kind in ("unreadable_call", "stray_token", "stray_mark")
        return False

    def _collected(self, event: ParserEvent) -> ParserEvent:
        raw = self._raw.take(len(event.raw))
        self._n_whole = self._n_read if self._call is None else self._n_whole
        self._n_read += self._n_blank + len(event.raw)
        self._n_blank = 0
        match event:
            case TextEvent(text=text):
                self._add_text(text, raw)
            case SegmentStart(segment_type=kind):
                self._end_part()
                self._open.append(kind)
                self._segment = _Written([raw or self._opening])
            case SegmentText(text=text):
                self._segment = self._segment or _Written([])
                self._segment.text.append(text)
                self._segment.raw.append(raw)
            case SegmentEnd():
                self._end_segment(raw)
            case CallStart():
                self._end_part()
                self._call = _Written([raw], n_before=len(event.raw))
            case ArgumentsText():
                self._note(raw)
            case CallEnd():
                return self._end_call(event, raw)
            case Diagnostic():
                self.diagnostics.append(event)
                self._note(raw)
            case _:
                assert_never(event)
        return event

    def _add_text(self, text: str, raw: LlamaText) -> None:
        """White space that a segment's closing mark ends with is read with the text behind it."""
        last = self._parts[-1] if self._parts else None
        n_layout = len(str(raw)) - len(text)
        if n_layout and not self._text and isinstance(last, ChatModelSegment) and last.raw is not None:
            layout = LlamaText(str(raw)[:n_layout])
            self._parts[-1] = last.model_copy(update={"raw": LlamaText(last.raw, layout)})
        if text:
            self._text.append(text)

    def _end_part(self) -> None:
        """Puts the text, or the segment so far, among the parts."""
        if self._text:
            self._parts.append("".join(self._text))
            self._text.clear()
        if self._segment:
            self._parts.append(self._part(self._segment, ended=False))
            self._segment = None

    def _part(self, written: _Written, *, ended: bool) -> ChatModelSegment:
        return ChatModelSegment(
            segment_type=self._open[-1],
            text="".join(written.text),
            ended=ended,
            raw=LlamaText(*written.raw),
        )

    def _end_segment(self, raw: LlamaText) -> None:
        segment = self._segment or _Written([])
        segment.raw.append(raw)
        self._parts.append(self._part(segment, ended=True))
        self._segment = None
        self._open.pop()

    def _note(self, raw: LlamaText) -> None:
        written = self._call or self._segment
        if written is not None:
            written.raw.append(raw)

    def _end_call(self, event: CallEnd, raw: LlamaText) -> CallEnd:
        written, self._call = self._call, None
        assert written is not None, "a parser starts a call before it ends it"
        whole = LlamaText(*written.raw, raw)
        raw_call = self._edges.call_text(whole, written.n_before, len(event.raw))
        call = event.call if raw_call is None else event.call.model_copy(update={"raw_call": raw_call})
        self._parts.append(call)
        self.n_calls += 1
        return replace(event, call=call)
