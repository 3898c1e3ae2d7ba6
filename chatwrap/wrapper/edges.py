"""Where texts part, moved to the edge of a tag or word."""

from __future__ import annotations

import re
from typing import Final

from chatwrap.wrapper.likeness import first_difference

UNIT: Final = re.compile(r"<[^<>\s]*>|\[[A-Z_/]+\]|\w+")


def snapped_prefix(first: str, second: str) -> int:
    """The length of the common prefix, moved back to the edge of a tag or word."""
    length = first_difference(first, second)
    return min(_edge(text, length, backwards=True) for text in (first, second))


def snapped_suffix(first: str, second: str) -> int:
    """The length of the common suffix, moved on to the edge of a tag or word."""
    length = first_difference(first[::-1], second[::-1])
    starts = (_edge(text, len(text) - length, backwards=False) for text in (first, second))
    return min(len(text) - start for text, start in zip((first, second), starts, strict=True))


def _edge(text: str, index: int, *, backwards: bool) -> int:
    for unit in UNIT.finditer(text):
        if unit.start() < index < unit.end():
            return unit.start() if backwards else unit.end()
    return index
