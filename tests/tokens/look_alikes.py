"""Texts that look like special tokens, made from those of a vocabulary."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Sequence

WORDS = (
    *("hello", "world", "x: ", " ", "  ", "\n", "\n\n\n", "\t", "\r\n", "", "7", "1234", "é", "õ"),
    *("日本", "😀"),
    *("<", "|", ">", "_", "/", "[", "]", "{", "</", "<|", "|>", "im", "end", "s"),
    *("\u2581", "\u200b", "\x00", "\x7f"),
)
FOREIGN = ("<|im_start|>", "<|im_end|>", "<s>", "</s>", "[INST]", "[/INST]", "<|eot_id|>", "<start_of_turn>")
_FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


def look_alike(rnd: random.Random, markers: Sequence[str]) -> str:
    """A few look-alikes and words in a row."""
    makers = rnd.choices(_MAKERS, k=rnd.randint(1, 4))
    return "".join(make(rnd, rnd.choice(markers), rnd.choice(markers)) for make in makers)


def harmless(rnd: random.Random, markers: Sequence[str]) -> str:
    """Words in a row; they may touch a marker's text, but only where they are joined by chance."""
    return "".join(rnd.choices(WORDS, k=rnd.randint(0, 8)))


def _cut(rnd: random.Random, text: str) -> tuple[str, str]:
    at = rnd.randint(0, len(text))
    return text[:at], text[at:]


def _whole(rnd: random.Random, one: str, other: str) -> str:
    return one


def _touching(rnd: random.Random, one: str, other: str) -> str:
    return one + other


def _piece(rnd: random.Random, one: str, other: str) -> str:
    return rnd.choice(_cut(rnd, one))


def _pieces_apart(rnd: random.Random, one: str, other: str) -> str:
    head, tail = _cut(rnd, one)
    return head + rnd.choice(WORDS) + tail


def _nested(rnd: random.Random, one: str, other: str) -> str:
    head, tail = _cut(rnd, one)
    return head + other + tail


def _overlapping(rnd: random.Random, one: str, other: str) -> str:
    """Both texts, sharing the longest end of one that starts the other."""
    shared = next((n for n in range(len(one) - 1, 0, -1) if other.startswith(one[-n:])), 0)
    return one + other[shared:]


def _full_width(rnd: random.Random, one: str, other: str) -> str:
    """Other characters that NFKC makes those of the token."""
    return one.translate(_FULL_WIDTH)


def _normalized(rnd: random.Random, one: str, other: str) -> str:
    return unicodedata.normalize(rnd.choice(("NFKC", "NFKD")), one)


def _recased(rnd: random.Random, one: str, other: str) -> str:
    return rnd.choice((one.upper(), one.lower(), one.title()))


def _word(rnd: random.Random, one: str, other: str) -> str:
    return rnd.choice(WORDS)


_MAKERS: tuple[Callable[[random.Random, str, str], str], ...] = (
    _whole,
    _touching,
    _piece,
    _pieces_apart,
    _nested,
    _overlapping,
    _full_width,
    _normalized,
    _recased,
    _word,
)
