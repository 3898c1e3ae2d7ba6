"""A template's output as messages: text split where the template, and nobody else, said so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from chatwrap.dotprompt.handlebars.source import WHITE
from chatwrap.dotprompt.handlebars.values import Mark
from chatwrap.dotprompt.helpers import HistoryMark, MediaMark, RoleMark, SectionMark
from chatwrap.dotprompt.request import MediaPart, Message, Part, PendingPart, TextPart

_HISTORY = "history"


def to_messages(pieces: Iterable[str | Mark], history: Sequence[Message]) -> tuple[Message, ...]:
    """The messages that output makes, with the conversation so far where it belongs.

    The first message is the user's until a role says otherwise. Text that is blank between two marks is
    dropped, and so is a message without content. Without a history slot, `history` goes before a user's
    last message, or else to the end.
    """
    writer = _Writer(history)
    for piece in pieces:
        if isinstance(piece, str):
            writer.text.append(piece)
        else:
            writer.take(piece)
    messages = writer.finish()
    is_placed = any((message.metadata or {}).get("purpose") == _HISTORY for message in messages)
    if not history or is_placed:
        return messages
    at = -1 if messages and messages[-1].role == "user" else len(messages)
    return (*messages[:at], *history, *messages[at:])


@dataclass(slots=True)
class _Writer:
    history: Sequence[Message]
    text: list[str] = field(default_factory=list)
    _role: Any = "user"
    _parts: list[Part] = field(default_factory=list)
    _messages: list[Message] = field(default_factory=list)

    def take(self, mark: Mark) -> None:
        match mark:
            case RoleMark():
                self.begin(mark.role)
            case HistoryMark():
                self.insert_history()
            case SectionMark():
                self.add(PendingPart(metadata={"purpose": mark.name, "pending": True}))
            case MediaMark():
                self.add(MediaPart(media=mark.media))

    def add(self, part: Part) -> None:
        self._end_text()
        self._parts.append(part)

    def begin(self, role: str) -> None:
        self._end_message()
        self._role = role

    def insert_history(self) -> None:
        self._end_message()
        for message in self.history:
            metadata = {**(message.metadata or {}), "purpose": _HISTORY}
            self._messages.append(message.model_copy(update={"metadata": metadata}))
        self._role = "model"

    def finish(self) -> tuple[Message, ...]:
        self._end_message()
        return tuple(self._messages)

    def _end_text(self) -> None:
        text = "".join(self.text)
        self.text.clear()
        if text.strip(WHITE):
            self._parts.append(TextPart(text=text))

    def _end_message(self) -> None:
        self._end_text()
        if self._parts:
            self._messages.append(Message(role=self._role, content=tuple(self._parts)))
            self._parts = []
