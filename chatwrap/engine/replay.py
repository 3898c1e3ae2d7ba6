"""Sampled ids put back as they were, so that the context keeps what it has evaluated.

A text has many tokenizations, and the one a model samples is often not the one its tokenizer gives.
Law: a prompt that starts with an earlier prompt and its answer starts with their very ids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chatwrap.chat.text import LlamaText, LlamaTextValue, SpecialToken, SpecialTokensText
from chatwrap.chat.tokenizer import SpecialTokenEntry, Tokenizer
from chatwrap.engine.generate import GenerationResult
from chatwrap.tokens.special import special_tokens_of


@dataclass(frozen=True, slots=True)
class Replay:
    """A prompt with its answer, as text and as the ids that the context holds of them."""

    text: LlamaText
    token_ids: tuple[int, ...]

    @classmethod
    def of(
        cls,
        prompt_text: LlamaText,
        prompt_ids: tuple[int, ...],
        result: GenerationResult,
        tokenizer: Tokenizer,
    ) -> Replay | None:
        """None where the sampled ids aren't just the answer's text: cut by a stop, or with control tokens."""
        stopped_by_id = result.stop is not None and result.stop.token_id is not None
        sampled = result.token_ids[:-1] if stopped_by_id else result.token_ids
        if b"".join(map(tokenizer.piece, sampled)) != result.text.encode():
            return None
        return cls(LlamaText(prompt_text, result.text), (*prompt_ids, *sampled))

    def encode(
        self, text: LlamaText, tokenizer: Tokenizer, encode: Callable[[LlamaText], list[int]]
    ) -> list[int] | None:
        """The ids of `text`, of which only what is new is encoded; None if it doesn't go on from here.

        It has to go on with a special token, where tokens can't merge across the border.
        """
        rest = _without_prefix(text, self.text)
        if rest is None or not _starts_special(rest, tokenizer):
            return None
        ids = encode(rest)
        added_bos = tokenizer.adds_bos and ids[:1] == [tokenizer.role_id("BOS")]
        return [*self.token_ids, *ids[added_bos:]]


def _without_prefix(text: LlamaText, prefix: LlamaText) -> LlamaText | None:
    """What `text` has after `prefix`; None if it starts otherwise, or has nothing after it."""
    n_whole = len(prefix.values) - 1
    if n_whole < 0 or len(text.values) <= n_whole or text.values[:n_whole] != prefix.values[:n_whole]:
        return None
    rest = _cut(text.values[n_whole], prefix.values[n_whole])
    return None if rest is None else LlamaText(rest, *text.values[n_whole + 1 :])


def _cut(value: LlamaTextValue, prefix: LlamaTextValue) -> LlamaTextValue | None:
    match value, prefix:
        case SpecialToken(), _:
            return "" if value == prefix else None
        case str(), str() if value.startswith(prefix):
            return value[len(prefix) :]
        case SpecialTokensText(), SpecialTokensText() if value.value.startswith(prefix.value):
            return SpecialTokensText(value.value[len(prefix.value) :])
    return None


def _starts_special(text: LlamaText, tokenizer: Tokenizer) -> bool:
    """Whether a text starts with a special token other than BOS, which encoding would take for its own."""
    match text.values[:1]:
        case (SpecialTokensText(value),):
            first = special_tokens_of(tokenizer).cut(value)[0]
            return isinstance(first, SpecialTokenEntry) and first.token_id != tokenizer.role_id("BOS")
        case (SpecialToken(name),):
            return name != "BOS" and tokenizer.role_id(name) is not None
    return False
