"""What a model has written and the parser hasn't read yet, each special token one character of its own."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Generator, Iterator
from typing import Final, TypeAlias, TypeVar

from chatwrap.chat.slotted import Slot, SyntaxText, as_slotted
from chatwrap.chat.text import LlamaText, LlamaTextInput, SpecialToken, SpecialTokensText

T = TypeVar("T")
Reading: TypeAlias = Generator[None, None, T]
"""A step of reading: it yields whenever it needs more of the output, and returns what it found."""

STRANGE: Final = "\udffe"
_LONE: Final = "\udfff"
_FIRST_CODE: Final = 0xD800
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SPACE: Final = re.compile(r"\s*")


class Alphabet:
    """The special tokens that a format's marks are made of, each as one character.

    The characters are surrogates, which no text holds. All other special tokens are `STRANGE`. Without
    `special_tokens` marks are nothing but text.
    """

    def __init__(self, special_tokens: Collection[str], marks: Collection[str]) -> None:
        self.is_plain = not special_tokens
        written = "\n".join(marks)
        used = [token for token in special_tokens if _is_marker(token) and token in written]
        self.codes = {token: chr(_FIRST_CODE + index) for index, token in enumerate(sorted(used))}
        self.texts = {code: token for token, code in self.codes.items()}
        longest_first = sorted(used, key=len, reverse=True)
        self._token = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    def of_mark(self, text: SyntaxText) -> tuple[str | Slot, ...]:
        """The parts of a format's text, special tokens as characters. Roles have no text, so they go."""
        parts: list[str | Slot] = []
        for part in as_slotted(text).parts:
            match part:
                case Slot():
                    parts.append(part)
                case SpecialTokensText(value):
                    parts.append(self._token.sub(lambda found: self.codes[found[0]], value))
                case str():
                    parts.append(part)
                case SpecialToken():
                    pass
        return tuple(_joined(parts))

    def spell(self, text: str) -> str:
        """`text` as the format writes it, its characters for special tokens spelled out."""
        return _SURROGATE.sub(lambda found: self.texts.get(found[0], ""), text)

    def is_strange(self, word: str) -> bool:
        """Whether `word` is a special token that is in none of the marks."""
        return word == STRANGE

    def cut(self, text: str) -> Iterator[str]:
        """The special tokens that `text`, a run of them, is made of."""
        at = 0
        for found in self._token.finditer(text):
            if text[at : found.start()]:
                yield text[at : found.start()]
            yield found[0]
            at = found.end()
        if text[at:]:
            yield text[at:]


def _is_marker(token: str) -> bool:
    """Not ordinary text, such as the runs of white space and the letters that some vocabularies list."""
    return len(token) > 1 and not token.isspace()


def _joined(parts: list[str | Slot]) -> Iterator[str | Slot]:
    run = ""
    for part in parts:
        if isinstance(part, Slot):
            if run:
                yield run
            run = ""
            yield part
        else:
            run += part
    if run:
        yield run


class Source:
    """The output as it arrives. Reading is by generators, so that chunks can end anywhere.

    What is looked at stays; `take` reads it. `raw` is all that was taken since it was asked for last, in
    the model's own spelling. Cost: linear in what is fed, as long as no more than a mark stays untaken.
    """

    def __init__(self, alphabet: Alphabet) -> None:
        self.alphabet = alphabet
        self.ahead = ""
        self.at = 0
        self.ended = False
        self.stopped_by = ""
        self._n_unwritten = 0
        self._spellings: deque[str] = deque()
        self._taken: list[str] = []

    def feed(self, chunk: LlamaTextInput) -> None:
        new = "".join(self._encoded(value) for value in LlamaText(chunk).values)
        self.ahead = self.ahead[self.at :] + new
        self.at = 0

    def end(self, stopped_by: str) -> None:
        """No more follows; the answer ended at the text `stopped_by`, which isn't part of it."""
        self.ended, self.stopped_by = True, stopped_by

    def insert(self, mark: str) -> None:
        """Puts the beginning of a mark before what is ahead: the prompt has it, so it isn't output."""
        self.ahead = mark + self.ahead[self.at :]
        self.at, self._n_unwritten = 0, len(mark)

    def take(self, n: int) -> str:
        """The next `n` characters, which are read by that, in the model's spelling."""
        n_inserted = min(n, self._n_unwritten)
        text = self.ahead[self.at + n_inserted : self.at + n]
        self._n_unwritten -= n_inserted
        self.at += n
        if not text.isascii():
            text = _SURROGATE.sub(self._spelling, text)
        self._taken.append(text)
        return text

    def give_back(self, raw: str) -> None:
        """Counts `raw`, which was taken and asked for, as taken since."""
        self._taken.append(raw)

    def raw(self) -> str:
        """What was taken since this was asked for last."""
        raw = "".join(self._taken)
        self._taken.clear()
        return raw

    def peek(self) -> Reading[str]:
        """The next character, "" at the end of the output."""
        while self.at >= len(self.ahead) and not self.ended:
            yield
        return self.ahead[self.at : self.at + 1]

    def space(self) -> Reading[str]:
        """Takes the white space that stands here."""
        taken = ""
        while True:
            found = _SPACE.match(self.ahead, self.at)
            assert found
            taken += self.take(found.end() - self.at)
            if self.ended or self.at < len(self.ahead):
                return taken
            yield

    def window(self, n: int) -> Reading[str]:
        """The next `n` characters, fewer only at the end of the output."""
        while len(self.ahead) - self.at < n and not self.ended:
            yield
        return self.ahead[self.at : self.at + n]

    def past_space(self) -> Reading[str]:
        """The next character behind white space, which is taken."""
        yield from self.space()
        return self.ahead[self.at : self.at + 1]

    def starts(self, mark: str) -> Reading[bool]:
        """Whether `mark` stands here."""
        while True:
            here = self.ahead[self.at : self.at + len(mark)]
            if here == mark or self.ended or not mark.startswith(here):
                return here == mark
            yield

    def which(self, marks: Collection[str]) -> Reading[str]:
        """The longest of `marks` that stands here, "" if there is none."""
        size = max(map(len, marks), default=0)
        while True:
            here = self.ahead[self.at : self.at + size]
            undecided = any(len(mark) > len(here) and mark.startswith(here) for mark in marks)
            if self.ended or not undecided:
                return max((mark for mark in marks if here.startswith(mark)), key=len, default="")
            yield

    def _encoded(self, value: str | SpecialTokensText | SpecialToken) -> str:
        if isinstance(value, SpecialToken):
            self._spellings.append(str(value))
            return STRANGE
        text = str(value)
        if isinstance(value, SpecialTokensText) and not self.alphabet.is_plain and not text.isspace():
            return "".join(map(self._token, self.alphabet.cut(text)))
        lone = _SURROGATE.findall(text)
        self._spellings += lone
        return _SURROGATE.sub(_LONE, text) if lone else text

    def _token(self, token: str) -> str:
        code = self.alphabet.codes.get(token)
        if code is None:
            self._spellings.append(token)
        return code or STRANGE

    def _spelling(self, found: re.Match[str]) -> str:
        return self.alphabet.texts.get(found[0]) or self._spellings.popleft()
