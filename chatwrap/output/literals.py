"""Words of JSON and Python that stand for a value, and how a string's escapes are written in JSON."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Final

from chatwrap.chat.json_text import dump_json

_WORDS: Final = {
    "true": "true",
    "false": "false",
    "null": "null",
    "True": "true",
    "False": "false",
    "None": "null",
    "undefined": "null",
    "NaN": "null",
}
_JSON_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")
_LONGEST_NUMBER: Final = 1000
_PYTHON_ESCAPES: Final = {"'": "'", "a": "\a", "v": "\v", "0": "\0", "\n": ""}


def literal(word: str) -> str | None:
    """The JSON of a number or of a word for true, false and null, None for any other word.

    >>> [literal(word) for word in ("-1.50", "True", "0x10", "1e999", "Oslo")]
    ['-1.50', 'true', '16', None, None]
    """
    return _WORDS.get(word) or _number(word)


def is_json_literal(word: str) -> bool:
    """Whether `word` is one in JSON itself."""
    return word in ("true", "false", "null") or _JSON_NUMBER.match(word) is not None


def _number(word: str) -> str | None:
    if len(word) > _LONGEST_NUMBER or not word.isascii():
        return None
    if _JSON_NUMBER.match(word):
        return word if math.isfinite(float(word)) else None
    for read in (lambda: int(word, 0), lambda: float(word)):
        try:
            value = read()
        except ValueError:
            continue
        return repr(value) if math.isfinite(value) else None
    return None


def escaped(text: str) -> str:
    """`text` as it stands within the quotes of a JSON string."""
    return dump_json(text)[1:-1]


def python_escape(char: str) -> str | None:
    """The text that a backslash and `char` stand for in Python but not in JSON."""
    return _PYTHON_ESCAPES.get(char)


def code_point(digits: str) -> str:
    """The character of a hexadecimal number, U+FFFD for a surrogate or a number beyond Unicode."""
    number = int(digits, 16)
    is_character = number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF
    return chr(number) if is_character else "\ufffd"


def named_character(name: str) -> str | None:
    """The character that ``\\N{name}`` stands for."""
    try:
        return unicodedata.lookup(name)
    except KeyError:
        return None
