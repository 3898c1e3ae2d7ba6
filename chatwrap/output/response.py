"""A model item made of the events of its answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from chatwrap.chat.events import (
    ArgumentsText,
    CallEnd,
    CallStart,
    Diagnostic,
    ResponseEnd,
    ResponseEvent,
    SegmentEnd,
    SegmentStart,
    SegmentText,
    TextEvent,
)
from chatwrap.chat.history import (
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatModelSegment,
    ResponsePart,
    SegmentType,
)


def response_of(events: Iterable[ResponseEvent]) -> ChatModelResponse:
    """The texts, segments and calls that `events` tell of, in order.

    Calls that were cut off aren't in it, nor what only diagnostics have.
    """
    collector = _Collector()
    for event in events:
        collector.add(event)
    return collector.response()


@dataclass(slots=True)
class _Collector:
    """Parts that are complete, and the pieces of the text or segment that isn't."""

    parts: list[ResponsePart] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    open: list[SegmentType] = field(default_factory=list)
    is_segment: bool = False

    def add(self, event: ResponseEvent) -> None:
        match event:
            case TextEvent():
                self._add_text(event.text, is_segment=False)
            case SegmentText():
                self._add_text(event.text, is_segment=True)
            case SegmentStart():
                self._finish()
                self.open.append(event.segment_type)
                self.is_segment = True
            case SegmentEnd():
                self._end_segment(event.segment_type)
            case CallEnd():
                self._finish()
                self.parts.append(event.call)
            case CallStart() | ArgumentsText() | Diagnostic() | ResponseEnd():
                pass
            case _:
                assert_never(event)

    def response(self) -> ChatModelResponse:
        self._finish()
        return ChatModelResponse(response=tuple(self.parts))

    def _add_text(self, text: str, *, is_segment: bool) -> None:
        if is_segment != self.is_segment:
            self._finish()
            self.is_segment = is_segment
        self.pieces.append(text)

    def _finish(self) -> None:
        """Puts the text or the open segment so far among the parts."""
        text = "".join(self.pieces)
        self.pieces.clear()
        if self.is_segment and self.open:
            self.parts.append(ChatModelSegment(segment_type=self.open[-1], text=text, ended=False))
        elif text:
            self.parts.append(text)
        self.is_segment = False

    def _end_segment(self, segment_type: SegmentType) -> None:
        self.open.pop()
        if not self.pieces and not self.is_segment and self._end_earlier(segment_type):
            return
        text = "".join(self.pieces)
        self.pieces.clear()
        self.is_segment = False
        self.parts.append(ChatModelSegment(segment_type=segment_type, text=text))

    def _end_earlier(self, segment_type: SegmentType) -> bool:
        """Ends the last open segment of a type, behind which only calls came. False if there is none."""
        index = len(self.parts) - 1
        while index >= 0 and isinstance(self.parts[index], ChatModelFunctionCall):
            index -= 1
        part = self.parts[index] if index >= 0 else None
        if not isinstance(part, ChatModelSegment) or part.segment_type != segment_type or part.ended:
            return False
        self.parts[index] = part.model_copy(update={"ended": True})
        return True
