"""Tells whether a content could be taken for a format's control text, alone or joined with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

_TAG_LIKE: Final = re.compile(
    r"[<\[][^<>\[\]\s]{1,60}[>\]]|[<\[][|｜/]|[|｜/][>\]]|^[^\w\s]?[\w/|｜]{1,40}[>\]]|[<\[][\w/|｜]{0,40}$"
)
_LONGEST_NAME: Final = 64


class LookAlikes:
    """Finds texts that hold a special token, or a piece that could become one beside other text.

    With the vocabulary's special token texts the answer follows from them; without, anything that
    looks like a tag counts. It errs on the side of yes: a yes only costs time. Linear in the text.

    >>> look_alikes = LookAlikes(["<|im_end|>", "</s>"])
    >>> [look_alikes.in_value(value) for value in ("a<|im_end|>", {"s": 1}, "a < b", ["|>", 3])]
    [True, True, False, True]
    """

    def __init__(self, special_texts: Iterable[str] | None) -> None:
        texts = None if special_texts is None else sorted({text for text in special_texts if text.strip()})
        self._joined = None if texts is None else "\0".join(texts)
        edges = None if texts is None else {text[:2] for text in texts} | {text[-2:] for text in texts}
        self._pattern = _TAG_LIKE if edges is None else _any_of(edges)
        self._hints = "<[|｜>]" if edges is None else _hints(edges)

    def in_value(self, value: Any) -> bool:
        """Whether a string anywhere in `value` (JSON), keys included, could become control text."""
        match value:
            case str():
                return self._in_text(value)
            case Mapping():
                return any(map(self.in_value, value)) or any(map(self.in_value, value.values()))
            case list() | tuple():
                return any(map(self.in_value, value))
        return False

    def _in_text(self, text: str) -> bool:
        hinted = self._hints is None or any(hint in text for hint in self._hints)
        if hinted and self._pattern.search(text) is not None:
            return True
        name = text.strip() if len(text) <= _LONGEST_NAME else ""
        return bool(name) and self._joined is not None and name in self._joined


def _any_of(edges: set[str]) -> re.Pattern[str]:
    """Matches any of the first two and last two characters of special tokens."""
    return re.compile("|".join(map(re.escape, sorted(edges))) or r"(?!)")


def _hints(edges: set[str]) -> str | None:
    """Characters one of which is in every edge, rare in prose; None if an edge is a part of a word.

    Looking for a few characters is many times faster than the pattern.
    """
    marks = {next((letter for letter in edge if not letter.isalnum()), "") for edge in edges}
    return None if "" in marks else "".join(sorted(marks))
