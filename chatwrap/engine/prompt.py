"""The prompt for an answer: rendered, encoded, and short enough for the context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from chatwrap.chat.history import ChatHistory
from chatwrap.chat.text import LlamaText
from chatwrap.engine.context import ContextStrategy, Shortening, fitted, refuse
from chatwrap.errors import ContextOverflowError
from chatwrap.wrapper.base import ContextState

_CHEAP_CHARACTERS_PER_TOKEN: Final = 16


@dataclass(frozen=True, slots=True)
class Prompt:
    """A history as the model sees it. `history` may be shorter than it was; `shortening` says so."""

    history: ChatHistory
    state: ContextState
    token_ids: tuple[int, ...]
    shortening: Shortening | None = None


@dataclass(frozen=True, slots=True)
class PromptMaker:
    """Makes prompts of histories for one model: how to render, how to encode, how long they may be.

    `longest_piece` is the length of the vocabulary's longest token: a text whose length over it exceeds
    the context can't fit, however it is encoded, and isn't encoded at all.
    """

    render: Callable[[ChatHistory], ContextState]
    encode: Callable[[LlamaText], list[int]]
    n_ctx: int
    longest_piece: Callable[[], int]

    def make(self, history: ChatHistory, strategy: ContextStrategy, max_tokens: int | None) -> Prompt:
        """The prompt for a history; where it is too long, for what the strategy makes of it.

        Raises `ContextOverflowError`, and `HistoryError` for what the format can't express.
        """
        made: Prompt | None = None

        def count(items: ChatHistory) -> int:
            nonlocal made
            state = self.render(items)
            n_least = self.n_least_tokens(state.context_text)
            if n_least < self.n_ctx:
                made = Prompt(items, state, tuple(self.encode(state.context_text)))
                return len(made.token_ids)
            if strategy is refuse:
                raise ContextOverflowError(n_least, self.n_ctx, at_least=True)
            return n_least

        shorter, shortening = fitted(
            history, count, n_ctx=self.n_ctx, max_tokens=max_tokens, strategy=strategy
        )
        assert made is not None and made.history is shorter, "what was counted last is what was kept"
        return replace(made, shortening=shortening)

    def n_least_tokens(self, text: LlamaText) -> int:
        """A number of tokens that a text can't have fewer than; 0 for one that isn't worth a look."""
        n_characters = sum(len(str(value)) for value in text.values)
        if n_characters <= self.n_ctx * _CHEAP_CHARACTERS_PER_TOKEN:
            return 0
        return -(-n_characters // self.longest_piece())
