"""Sampled ids put back as they were, so that the context keeps what it has evaluated.

A text has many tokenizations, and the one a model samples is often not the one its tokenizer gives.
Law: a prompt that starts with an earlier prompt and its answer starts with their very ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from chatwrap.chat.text import LlamaText, SpecialToken, SpecialTokensText
from chatwrap.chat.tokenizer import SpecialTokenEntry, Tokenizer
from chatwrap.engine.generate import GenerationResult
from chatwrap.tokens.special import special_tokens_of

Encode: TypeAlias = Callable[[LlamaText], list[int]]
_Fragment: TypeAlias = str | SpecialTokenEntry | SpecialToken
_ANCHORS: Final = (".", "x", "\n")
_WORD: Final = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Replay:
    """A prompt with its answer, as the ids that the context holds of them and as what these say.

    Fragments are special tokens, and the texts between them: control text and content alike, which are
    encoded together as well. `prompt` is as it was rendered, `answer` as the model wrote it.
    """

    prompt: tuple[_Fragment, ...]
    answer: tuple[_Fragment, ...]
    token_ids: tuple[int, ...]

    @classmethod
    def of(
        cls,
        prompt_text: LlamaText,
        prompt_ids: tuple[int, ...],
        result: GenerationResult,
        tokenizer: Tokenizer,
    ) -> Replay:
        """The ids of a prompt and of its answer, of that as many as say nothing but what was kept."""
        n_said, said = _said(result.token_ids, result.output, tokenizer)
        prompt, answer = (tuple(_fragments(text, tokenizer)) for text in (prompt_text, said))
        return cls(prompt, answer, (*prompt_ids, *result.token_ids[:n_said]))

    def encode(self, text: LlamaText, tokenizer: Tokenizer, encode: Encode) -> list[int] | None:
        """The ids of `text`, of which only what is new is encoded; None if it doesn't go on from here.

        Where the format writes the answer with other white space than the model did (trimmed, say), the
        model's own counts.
        """
        behind_prompt = _without(list(_fragments(text, tokenizer)), self.prompt)
        rest = None if behind_prompt is None else _behind(behind_prompt, self.answer)
        if not rest:
            return None
        return [*self.token_ids, *continuation_ids(LlamaText(*map(_as_text, rest)), encode)]


def continuation_ids(text: LlamaText, encode: Encode) -> list[int]:
    """The ids of a text that follows another: no BOS, no space that stands for the beginning.

    Tokens don't merge across the border.
    """
    for anchor in _ANCHORS:
        before, ids = encode(LlamaText(anchor)), encode(LlamaText(anchor, text))
        if ids[: len(before)] == before:
            return ids[len(before) :]
    return encode(text)


def _said(token_ids: Sequence[int], output: LlamaText, tokenizer: Tokenizer) -> tuple[int, LlamaText]:
    """How many of the ids spell the beginning of `output` in whole characters, and what they spell."""
    spelling = _Spelling(output)
    for token_id in token_ids:
        entry = tokenizer.special_tokens.get(token_id)
        piece = tokenizer.piece(token_id) if entry is None else entry.text.encode()
        if not spelling.goes_on(piece, may_be_special=entry is not None, must_be=_is_control(entry)):
            break
    return spelling.n_whole, spelling.said()


def _is_control(entry: SpecialTokenEntry | None) -> bool:
    return entry is not None and not entry.user_defined


class _Spelling:
    """How far some tokens spell a text: its values as bytes, and a place in one of them."""

    def __init__(self, text: LlamaText) -> None:
        self._values = [(value, str(value).encode("utf-8", "surrogatepass")) for value in text.values]
        self._index = self._offset = self._n_tokens = 0
        self.n_whole = 0
        self._whole = (0, 0)

    def goes_on(self, piece: bytes, *, may_be_special: bool, must_be: bool) -> bool:
        """Whether a token's bytes come next, as text or as the special token that it is."""
        if self._index == len(self._values):
            return False
        value, data = self._values[self._index]
        is_special = not isinstance(value, str)
        if (is_special and not may_be_special) or (must_be and not is_special):
            return False
        if not data.startswith(piece, self._offset):
            return False
        self._offset, self._n_tokens = self._offset + len(piece), self._n_tokens + 1
        if self._offset == len(data):
            self._index, self._offset = self._index + 1, 0
        if self._offset == 0 or data[self._offset] & 0xC0 != 0x80:
            self.n_whole, self._whole = self._n_tokens, (self._index, self._offset)
        return True

    def said(self) -> LlamaText:
        """The part of the text that the tokens spell, up to their last whole character."""
        index, offset = self._whole
        whole = [value for value, _ in self._values[:index]]
        if not offset:
            return LlamaText(*whole)
        value, data = self._values[index]
        text = data[:offset].decode()
        return LlamaText(*whole, text if isinstance(value, str) else SpecialTokensText(text))


def _fragments(text: LlamaText, tokenizer: Tokenizer) -> Iterator[_Fragment]:
    """Special tokens of control text, and the runs between them; roles that nobody has are none."""
    special, run = special_tokens_of(tokenizer), ""
    for value in text.values:
        match value:
            case str():
                run += value
                continue
            case SpecialToken() if tokenizer.role_id(value.value) is None:
                continue
            case SpecialToken():
                pieces: Iterable[_Fragment] = (value,)
            case SpecialTokensText():
                pieces = special.cut(value.value)
        for piece in pieces:
            if isinstance(piece, str):
                run += piece
                continue
            if run:
                yield run
            run = ""
            yield piece
    if run:
        yield run


def _without(fragments: Sequence[_Fragment], beginning: Sequence[_Fragment]) -> list[_Fragment] | None:
    """What stands behind the beginning; None if it starts otherwise."""
    n_whole = len(beginning) - 1
    if n_whole < 0 or len(fragments) <= n_whole or tuple(fragments[:n_whole]) != tuple(beginning[:-1]):
        return None
    first, last = fragments[n_whole], beginning[-1]
    if isinstance(first, str) and isinstance(last, str) and first.startswith(last):
        return [first[len(last) :], *fragments[n_whole + 1 :]]
    return [*fragments[n_whole + 1 :]] if first == last else None


def _behind(fragments: Sequence[_Fragment], answer: Sequence[_Fragment]) -> list[_Fragment] | None:
    """What stands behind the answer, whatever white space is in that; None if another text begins there."""
    given, wanted = _Words(fragments), _Words(answer)
    while (word := wanted.next()) is not None:
        if isinstance(word, str):
            while word:
                found = given.next(len(word))
                if not isinstance(found, str) or not word.startswith(found):
                    return None
                word = word[len(found) :]
        elif given.next() != word:
            return None
    return given.rest(wanted.trailing_space)


class _Words:
    """Goes through fragments by special tokens and words, and past the white space between."""

    def __init__(self, fragments: Sequence[_Fragment]) -> None:
        self._fragments = fragments
        self._index = self._offset = 0
        self.trailing_space = ""

    def next(self, n_most: int | None = None) -> _Fragment | None:
        """The next special token, or at most `n_most` characters of the next word; None at the end."""
        while self._index < len(self._fragments):
            fragment = self._fragments[self._index]
            if not isinstance(fragment, str):
                self._index, self._offset, self.trailing_space = self._index + 1, 0, ""
                return fragment
            found = _WORD.search(fragment, self._offset)
            if found:
                end = found.end() if n_most is None else min(found.end(), found.start() + n_most)
                self._offset, self.trailing_space = end, ""
                return fragment[found.start() : end]
            self.trailing_space = fragment[self._offset :]
            self._index, self._offset = self._index + 1, 0
        return None

    def rest(self, space: str) -> list[_Fragment]:
        """What is left, without as much of `space` as it begins with."""
        if self._index == len(self._fragments):
            return []
        fragment = self._fragments[self._index]
        if not isinstance(fragment, str):
            return [*self._fragments[self._index :]]
        text = fragment[self._offset :]
        n_shared = next(
            (n for n, pair in enumerate(zip(text, space, strict=False)) if len({*pair}) > 1), None
        )
        n_shared = min(len(text), len(space)) if n_shared is None else n_shared
        return [text[n_shared:], *self._fragments[self._index + 1 :]]


def _as_text(fragment: _Fragment) -> str | SpecialToken | SpecialTokensText:
    return SpecialTokensText(fragment.text) if isinstance(fragment, SpecialTokenEntry) else fragment
