"""Sets of Unicode code points as sorted, disjoint, inclusive ranges.

Surrogates (U+D800 to U+DFFF) aren't characters of any UTF-8 text and are in no set made here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

Ranges = tuple[tuple[int, int], ...]

MAX_CODE_POINT = 0x10FFFF
EVERY: Ranges = ((0, 0xD7FF), (0xE000, MAX_CODE_POINT))
NOTHING: Ranges = ()


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The normal form of any ranges: sorted, merged where they touch. Cost O(n log n).

    >>> union([(98, 99), (97, 97), (120, 119)])
    ((97, 99),)
    """
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if low > high:
            continue
        if merged and low <= merged[-1][1] + 1:
            if high > merged[-1][1]:
                merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def intersection(first: Ranges, second: Ranges) -> Ranges:
    """The code points in both sets. Cost O(n + m)."""
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < len(first) and j < len(second):
        low, high = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if low <= high:
            found.append((low, high))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


@lru_cache(maxsize=4096)
def complement(ranges: Ranges) -> Ranges:
    """Every character that isn't in `ranges`.

    >>> complement(((0, 9), (11, 0x10FFFF)))
    ((10, 10),)
    """
    gaps: list[tuple[int, int]] = []
    start = 0
    for low, high in ranges:
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= MAX_CODE_POINT:
        gaps.append((start, MAX_CODE_POINT))
    return intersection(tuple(gaps), EVERY)


def single(character: str) -> Ranges:
    """The set of one character."""
    return ((ord(character), ord(character)),)


def contains(ranges: Ranges, code_point: int) -> bool:
    """Whether the set holds the code point. Cost O(n)."""
    return any(low <= code_point <= high for low, high in ranges)
