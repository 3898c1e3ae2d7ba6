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

    Calls are collected and written together, so that a format with parallel calls can frame them.
    `text_before_calls` stands between a text and the calls behind it. If results are turns of their own,
    `reopening` is what opens the model's turn again, written once something follows them; else it is
    None. After `write`, `ended_turn` tells whether the item ends in such results. `n_calls` counts the
    calls of the conversation, those of earlier items included, and is given on to `write_calls`.
    """

    segments: SegmentsSyntax
    write_calls: CallsWriter
    use_raw: bool
    text_before_calls: LlamaText = field(default_factory=LlamaText)
    reopening: LlamaText | None = None
    ended_turn: bool = False
    n_calls: int = 0
    _follows_text: bool = False
    _written: list[LlamaTextInput] = field(default_factory=list)
    _pending_calls: list[ChatModelFunctionCall] = field(default_factory=list)
    _open: list[SegmentType] = field(default_factory=list)
    _ended_without_suffix: bool = False
    _called: bool = False

    def write(self, parts: Iterable[ResponsePart]) -> LlamaText:
        """The text of a model item made of `parts`."""
        for part in parts:
            match part:
                case str():
                    self._flush_calls()
                    self._reopen()
                    self._remind()
                    self._written.append(part)
                    self._follows_text = self._follows_text or bool(part)
                case ChatModelSegment():
                    self._flush_calls()
                    self._reopen()
                    self._write_segment(part)
                case ChatModelFunctionCall():
                    if part.starts_new_chunk:
                        self._flush_calls()
                    self._pending_calls.append(part)
        self._flush_calls()
        self._remind()
        return LlamaText(self._written)

    def _flush_calls(self) -> None:
        if not self._pending_calls:
            return
        self._reopen()
        if self._follows_text:
            self._written.append(self.text_before_calls)
        self._written.append(self.write_calls(tuple(self._pending_calls), self.n_calls))
        self.n_calls += len(self._pending_calls)
        self._pending_calls.clear()
        self._called, self._follows_text = True, False
        self.ended_turn = self.reopening is not None

    def _reopen(self) -> None:
        if self.ended_turn and self.reopening is not None:
            self._written.append(self.reopening)
        self.ended_turn = False

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
