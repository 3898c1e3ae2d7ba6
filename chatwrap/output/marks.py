"""A format's marks, cut into words, and where one stands in a text that is still arriving."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Self

from chatwrap.output.source import Source

TOKEN: Final = "[\ud800-\udffe]"
_TAG: Final = r"<[|｜/]?[^\W\d_][^<>\s]*>"
_WORD: Final = re.compile(rf"{TOKEN}|(?<![\[(]){_TAG}|(?:(?!{TOKEN}|(?<![\[(]){_TAG})\S)+")


@dataclass(frozen=True, slots=True)
class Mark:
    """A text of the format as words: what a model writes between two of them may be any white space.

    `before` and `after` are the white space that the format itself writes at its ends.

    >>> Mark.of("<tool_call>\\n<function=")
    Mark(before='', words=('<tool_call>', '<function='), after='')
    >>> Mark.of("\\n</think>\\n\\n")
    Mark(before='\\n', words=('</think>',), after='\\n\\n')
    """

    before: str
    words: tuple[str, ...]
    after: str

    @classmethod
    def of(cls, text: str) -> Self:
        """The mark that `text` is, special tokens in it written as characters of their own."""
        body = text.strip()
        start = text.find(body) if body else len(text)
        return cls(text[:start], tuple(_WORD.findall(body)), text[start + len(body) :])

    def __bool__(self) -> bool:
        return bool(self.words)


def is_distinct(word: str) -> bool:
    """Whether a word tells a mark by itself: a special token, or a tag and not mere punctuation."""
    return re.match(TOKEN, word) is not None or (
        len(word) > 2 and re.search(r"[<\[|]\W*\w|\w\W*>", word) is not None
    )


class Finder:
    """Finds the first of some words, or any special token, in what is ahead.

    Law: where the text is cut into chunks doesn't change what is found. Cost: linear.
    """

    def __init__(self, words: Iterable[str]) -> None:
        known = sorted(set(words), key=len, reverse=True)
        self._pattern = re.compile("|".join([*map(re.escape, known), TOKEN]))
        self._beginnings = {word[:n] for word in known for n in range(1, len(word))}
        self._reach = max(map(len, self._beginnings), default=0)

    def scan(self, source: Source) -> tuple[int, str]:
        """How many characters certainly stand before any word, and the word behind them, "" if none is
        certain yet.
        """
        found = self._pattern.search(source.ahead, source.at)
        held = len(source.ahead) if source.ended else self._held_from(source)
        if found is None or found.start() >= held:
            return held - source.at, ""
        return found.start() - source.at, found[0]

    def _held_from(self, source: Source) -> int:
        """Where a word may have begun that isn't whole yet."""
        size = len(source.ahead)
        for n in range(min(self._reach, size - source.at), 0, -1):
            if source.ahead[size - n :] in self._beginnings:
                return size - n
        return size


def common_start(first: str, second: str) -> str:
    """The longest text that both begin with."""
    n = next((i for i, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), None)
    return first[: min(len(first), len(second)) if n is None else n]


def distinct(words: Collection[str]) -> list[str]:
    """Those words that tell a mark by themselves."""
    return [word for word in words if is_distinct(word)]
