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
        self._pattern = _TAG_LIKE if texts is None else _edges(texts)

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
        if self._pattern.search(text) is not None:
            return True
        name = text.strip()
        return self._joined is not None and 0 < len(name) <= _LONGEST_NAME and name in self._joined


def _edges(texts: list[str]) -> re.Pattern[str]:
    """Matches the first two characters of any special token, or the last two."""
    edges = {text[:2] for text in texts} | {text[-2:] for text in texts}
    return re.compile("|".join(map(re.escape, sorted(edges))) or r"(?!)")
