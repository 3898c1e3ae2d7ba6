"""A model's answer as OpenAI's message: piece by piece as stream deltas, or whole. Spells their keys."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, assert_never

from chatwrap.chat.events import (
    ArgumentsText,
    CallEnd,
    CallStart,
    Diagnostic,
    FinishReason,
    ParserEvent,
    SegmentEnd,
    SegmentStart,
    SegmentText,
    TextEvent,
)


@dataclass(slots=True)
class DeltaWriter:
    """Writes events as the deltas of a streamed message.

    A call's first delta has its index, id, type and name, those behind it have pieces of the arguments
    alone. Thoughts and comments are ``reasoning_content``. What was taken for a call and can't be read
    as one is content, so that nothing is lost. `legacy` writes the one call there may be as
    ``function_call``.
    """

    legacy: bool = False
    n_calls: int = 0
    _n_argument_characters: int = 0

    def deltas(self, events: Iterable[ParserEvent]) -> Iterator[dict[str, Any]]:
        for event in events:
            delta = self._delta(event)
            if delta is not None:
                yield delta

    def finish_reason(self, reason: FinishReason) -> str:
        """OpenAI's word for why the answer ended. ``abort`` is not one of theirs."""
        if reason == "stop" and self.n_calls:
            return "function_call" if self.legacy else "tool_calls"
        return reason

    def _delta(self, event: ParserEvent) -> dict[str, Any] | None:
        match event:
            case TextEvent(text=text):
                return {"content": text} if text else None
            case SegmentText(text=text):
                return {"reasoning_content": text} if text else None
            case CallStart():
                return self._call_start(event)
            case ArgumentsText(index=index, text=text):
                self._n_argument_characters += len(text)
                return self._arguments(index, text)
            case CallEnd(index=index):
                return None if self._n_argument_characters else self._arguments(index, "{}")
            case Diagnostic(kind="unreadable_call", raw=raw):
                return {"content": raw} if raw else None
            case SegmentStart() | SegmentEnd() | Diagnostic():
                return None
            case _:
                assert_never(event)

    def _call_start(self, event: CallStart) -> dict[str, Any]:
        self.n_calls += 1
        self._n_argument_characters = 0
        function = {"name": event.name, "arguments": ""}
        if self.legacy:
            return {"function_call": function}
        call_id = event.call_id or f"call_{secrets.token_hex(12)}"
        entry = {"index": event.index, "id": call_id, "type": "function", "function": function}
        return {"tool_calls": [entry]}

    def _arguments(self, index: int, text: str) -> dict[str, Any]:
        if self.legacy:
            return {"function_call": {"arguments": text}}
        return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}


@dataclass(slots=True)
class MessageWriter:
    """Puts deltas together to the message that they stream."""

    _texts: dict[str, list[str]] = field(default_factory=dict)
    _calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    _legacy: dict[str, Any] | None = None

    def add(self, delta: dict[str, Any]) -> None:
        for key, value in delta.items():
            match key, value:
                case "tool_calls", [entry]:
                    self._add_call(entry)
                case "function_call", {"name": _}:
                    self._legacy = dict(value)
                case "function_call", {"arguments": text} if self._legacy is not None:
                    self._legacy["arguments"] += text
                case _, str():
                    self._texts.setdefault(key, []).append(value)

    def message(self) -> dict[str, Any]:
        """The whole message; its content is null where there are calls and no text."""
        texts = {key: "".join(pieces) for key, pieces in self._texts.items()}
        calls = [self._calls[index] for index in sorted(self._calls)]
        content = texts.pop("content", None if calls or self._legacy else "")
        message: dict[str, Any] = {"role": "assistant", "content": content, **texts}
        if calls:
            message["tool_calls"] = calls
        if self._legacy:
            message["function_call"] = self._legacy
        return message

    def _add_call(self, entry: dict[str, Any]) -> None:
        if "id" in entry:
            kept = {key: value for key, value in entry.items() if key != "index"}
            self._calls[entry["index"]] = {**kept, "function": dict(entry["function"])}
        else:
            self._calls[entry["index"]]["function"]["arguments"] += entry["function"]["arguments"]
