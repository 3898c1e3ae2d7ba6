"""The beginnings of conversations that were rendered lately, so that the next turn costs what is new."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import is_
from typing import Any, Final

from chatwrap.chat.history import ChatHistory
from chatwrap.chat.text import LlamaText
from chatwrap.wrapper.exchanges import Opened

_MOST: Final = 8


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a conversation's first items were rendered as, before the exchange with its last user message.

    `circumstances` is what the text depends on besides: functions, options, the date. `n_calls` are the
    calls in it; `changes` what was told of it.
    """

    circumstances: tuple[Any, ...] = ()
    items: ChatHistory = ()
    text: LlamaText = field(default_factory=LlamaText)
    opened: Opened | None = None
    n_calls: int = 0
    changes: tuple[str, ...] = ()

    def begins(self, history: ChatHistory, circumstances: tuple[Any, ...]) -> bool:
        """Whether `history` begins with the very same items (frozen values, so identity is enough)."""
        return (
            len(self.items) < len(history)
            and all(map(is_, self.items, history))
            and self.circumstances == circumstances
        )


@dataclass(slots=True)
class Prefixes:
    """The prefixes of the conversations rendered last, at most eight; safe to share between threads."""

    _kept: tuple[Prefix, ...] = ()

    def find(self, history: ChatHistory, circumstances: tuple[Any, ...]) -> Prefix | None:
        """The longest prefix that `history` begins with."""
        fitting = [prefix for prefix in self._kept if prefix.begins(history, circumstances)]
        return max(fitting, key=lambda prefix: len(prefix.items), default=None)

    def keep(self, prefix: Prefix) -> None:
        """Adds a prefix; those that it goes on from, and the oldest, go."""
        others = [
            kept
            for kept in self._kept
            if not all(map(is_, kept.items, prefix.items)) or len(kept.items) > len(prefix.items)
        ]
        self._kept = (prefix, *others[: _MOST - 1])
