"""Conversations of nothing but texts as the messages of a chat template, kept for their next turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, Final

from chatwrap.chat.history import ChatHistory, ChatHistoryItem, ChatModelResponse
from chatwrap.wrapper.jinja_messages import MessageShape

_MOST: Final = 8
_TEXT: Final = frozenset({str})


@dataclass(frozen=True, slots=True)
class Spoken:
    """A history of texts: its messages, their texts without white space around them, and whether one of
    them could be taken for control text.
    """

    items: ChatHistory = ()
    messages: tuple[dict[str, Any], ...] = ()
    texts: tuple[str, ...] = ()
    looks_alike: bool = False

    def stands_in(self, prompt: str) -> bool:
        """Whether the prompt holds the texts in their order."""
        position = 0
        find = prompt.find
        for text in self.texts:
            at = find(text, position)
            if at < 0:
                return False
            position = at + len(text)
        return True


@dataclass(slots=True)
class SpokenHistories:
    """Reads histories of texts, each from where an earlier one of the last eight begins it.

    `looks_alike` tells whether messages could be taken for control text. Safe to share between threads.
    """

    shape: MessageShape
    looks_alike: Callable[[Sequence[dict[str, Any]]], bool]
    _kept: tuple[Spoken, ...] = ()

    def of(self, history: ChatHistory) -> Spoken | None:
        """The history as messages, None if anything but texts is in it."""
        begun = self._longest(history)
        rest = history[len(begun.items) :]
        if not rest:
            return begun
        messages = [self._message(item) for item in rest]
        if None in messages:
            return None
        new = [message for message in messages if message is not None]
        spoken = Spoken(
            history,
            (*begun.messages, *new),
            (*begun.texts, *(message["content"].strip() for message in new)),
            begun.looks_alike or self.looks_alike(new),
        )
        self._kept = (spoken, *(kept for kept in self._kept if kept is not begun))[:_MOST]
        return spoken

    def _longest(self, history: ChatHistory) -> Spoken:
        """What was kept of the longest beginning of `history`: the same objects, which never change."""
        fitting = [
            kept
            for kept in self._kept
            if len(kept.items) <= len(history) and all(map(is_, kept.items, history))
        ]
        return max(fitting, key=lambda kept: len(kept.items), default=_NOTHING)

    def _message(self, item: ChatHistoryItem) -> dict[str, Any] | None:
        if not isinstance(item, ChatModelResponse):
            role = self.shape.system if item.type == "system" else self.shape.user
            return {"role": role, "content": str(item.text)}
        if not _TEXT.issuperset(map(type, item.response)):
            return None
        return {"role": self.shape.model, "content": "".join(map(str, item.response))}


_NOTHING: Final = Spoken()
