"""Writes a model item as text: its answers, its segments, its function calls with their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from chatwrap.chat.history import ChatModelFunctionCall, ChatModelSegment, ResponsePart, SegmentType
from chatwrap.chat.slotted import as_slotted
from chatwrap.chat.syntax import SegmentsSyntax
from chatwrap.chat.text import LlamaText, LlamaTextInput

CallsWriter = Callable[[Sequence[ChatModelFunctionCall], int], LlamaText]


@dataclass(slots=True)
class ResponseWriter:
    """Goes through a model item part by part, keeping the stack of segments that are still open.

    Calls are collected and written together, so that a format with parallel calls can frame them, unless
    they go `one_by_one`. `text_before_calls` stands between a text and the calls behind it. If results are
    turns of their own, `reopening` is what opens the model's turn again, written once something follows
    them; else it is None. A turn that doesn't begin with a thought begins with `empty_thought`, but not
    one before or with calls if it `spares_calls`. `n_calls` counts the calls of the conversation, those
    of earlier items included, and is given on to `write_calls`.

    After `write`, `ended_turn` tells whether the item ends in results that are turns, and `open_end` is
    what has to stand behind the item for the model to go on with a further part.
    """

    segments: SegmentsSyntax
    write_calls: CallsWriter
    use_raw: bool
    text_before_calls: LlamaText = field(default_factory=LlamaText)
    reopening: LlamaText | None = None
    empty_thought: LlamaText = field(default_factory=LlamaText)
    spares_calls: bool = False
    one_by_one: bool = False
    ended_turn: bool = False
    n_calls: int = 0
    open_end: LlamaText = field(default_factory=LlamaText)
    _n_calls_left: int = 0
    _last: str | None = None
    _written: list[LlamaTextInput] = field(default_factory=list)
    _pending_calls: list[ChatModelFunctionCall] = field(default_factory=list)
    _open: list[SegmentType] = field(default_factory=list)
    _ended_without_suffix: bool = False
    _called: bool = False

    def write(self, parts: Iterable[ResponsePart]) -> LlamaText:
        """The text of a model item made of `parts`."""
        parts = tuple(parts)
        self._n_calls_left = sum(isinstance(part, ChatModelFunctionCall) for part in parts)
        for part in parts:
            match part:
                case str():
                    self._flush_calls()
                    self._write_text(part)
                case ChatModelSegment():
                    self._flush_calls()
                    self._begin(part.segment_type)
                    self._write_segment(part)
                case ChatModelFunctionCall():
                    if part.starts_new_chunk or self.one_by_one:
                        self._flush_calls()
                    self._pending_calls.append(part)
        self._flush_calls()
        self._remind()
        if self._last in ("thought", "comment") and not self._open:
            self.open_end = as_slotted(self.segments.between_parts).fill({})
        return LlamaText(self._written)

    def _write_text(self, text: str) -> None:
        if not text:
            self._remind()
            return
        goes_on = self._last == "text"
        if not goes_on:
            self._begin("text")
        self._remind()
        mark = self.segments.text
        if mark is not None and not goes_on:
            self._written.append(as_slotted(mark.prefix).fill({}))
        self._written.append(text)

    def _flush_calls(self) -> None:
        if not self._pending_calls:
            return
        follows_text = self._last == "text"
        self._begin("calls")
        if follows_text:
            self._written.append(self.text_before_calls)
        self._written.append(self.write_calls(tuple(self._pending_calls), self.n_calls))
        self.n_calls += len(self._pending_calls)
        self._n_calls_left -= len(self._pending_calls)
        self._pending_calls.clear()
        self._called = True
        self.ended_turn = self.reopening is not None

    def _begin(self, kind: str) -> None:
        """What stands before a part: the turn's opening again, or what parts it from the last part."""
        if self.ended_turn and self.reopening is not None:
            self._written.append(self.reopening)
        is_first = self._last is None or self.ended_turn
        if is_first and kind != "thought" and not (self.spares_calls and self._n_calls_left):
            self._written.append(self.empty_thought)
        elif not is_first and not (self._open and self._open[-1] == kind):
            self._written.append(as_slotted(self.segments.between_parts).fill({}))
        self.ended_turn, self._last = False, kind

    def _remind(self) -> None:
        """Before text: end what no suffix ended, or write the open segments' marks again."""
        close_all = self.segments.close_all_segments
        if self._ended_without_suffix and not self._open and close_all is not None:
            self._ended_without_suffix = False
            self._written.append(as_slotted(close_all).fill({}))
        elif self._called and self._open and self.segments.reiterate_stack_after_function_calls:
            self._written += [self._mark(kind) for kind in self._open]

    def _mark(self, kind: SegmentType) -> LlamaText:
        syntax = self.segments.of(kind)
        return as_slotted(syntax.prefix if syntax else "").fill({})

    def _write_segment(self, segment: ChatModelSegment) -> None:
        kind = segment.segment_type
        continues = bool(self._open) and self._open[-1] == kind
        syntax = self.segments.of(kind)
        suffix = syntax.suffix if syntax else None
        if segment.raw is not None and self.use_raw:
            self._written.append(segment.raw)
        else:
            end = as_slotted(suffix or "").fill({}) if segment.ended else ""
            self._written += ["" if continues else self._mark(kind), segment.text, end]
        self._ended_without_suffix = segment.ended and suffix is None
        if segment.ended and continues:
            self._open.pop()
            close_all = self.segments.close_all_segments
            if not self._open and suffix is None and close_all is not None:
                self._written.append(as_slotted(close_all).fill({}))
        elif not segment.ended and not continues:
            self._open.append(kind)
