"""Tells whether a content could be taken for a format's control text, alone or joined with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

_TAG_LIKE: Final = re.compile(
    r"[<\[][^<>\[\]\s]{1,60}[>\]]|[<\[][|｜/]|[|｜/][>\]]|^[^\w\s]?[\w/|｜]{1,40}[>\]]|[<\[][\w/|｜]{0,40}$"
)
_LONGEST_NAME: Final = 64
_EDGES: Final = "<>[]|/｜ "
# Words of OpenAI's messages and of JSON Schema, which stand in every message and every function.
_WIRE_WORDS: Final = frozenset(
    {"arguments", "array", "boolean", "content", "description", "enum", "function", "id", "integer"}
    | {"items", "name", "null", "number", "object", "parameters", "properties", "required", "string"}
    | {"text", "title", "type"}
)


class LookAlikes:
    """Finds texts that hold a special token, or a piece that could become one beside other text.

    With the vocabulary's special token texts the answer follows from them; without, anything that
    looks like a tag counts. It errs on the side of yes: a yes only costs time. Linear in the text.
    Words of the messages' own structure count only if a special token is just that word in brackets.

    >>> look_alikes = LookAlikes(["<|im_end|>", "</s>"])
    >>> [look_alikes.in_value(value) for value in ("a<|im_end|>", {"s": 1}, "a < b", ["|>", 3])]
    [True, True, False, True]
    """

    def __init__(self, special_texts: Iterable[str] | None) -> None:
        texts = None if special_texts is None else sorted({text for text in special_texts if text.strip()})
        self._joined = None if texts is None else "\0".join(texts)
        edges = None if texts is None else {text[:2] for text in texts} | {text[-2:] for text in texts}
        self._pattern = _TAG_LIKE if edges is None else _any_of(edges)
        self._harmless = _WIRE_WORDS - {text.strip(_EDGES) for text in texts or ()}
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

    def in_messages(self, messages: Iterable[Mapping[str, Any]]) -> bool:
        """Whether a message holds such a string; its role is the format's own."""
        values = [value for message in messages for key, value in message.items() if key != "role"]
        texts = [value for value in values if type(value) is str]
        if self._is_hinted("\0".join(texts)):
            return any(map(self.in_value, values))
        return any(map(self._is_name, texts)) or any(
            self.in_value(value) for value in values if type(value) is not str
        )

    def _is_hinted(self, text: str) -> bool:
        """Whether `text` has a character without which none of the special tokens can be in it."""
        if self._hints is None:
            return True
        return any(hint in text for hint in self._hints)

    def _in_text(self, text: str) -> bool:
        if self._is_hinted(text) and self._pattern.search(text) is not None:
            return True
        return self._is_name(text)

    def _is_name(self, text: str) -> bool:
        """Whether a short text is words of a special token, which templates may put in brackets."""
        if len(text) > _LONGEST_NAME or self._joined is None:
            return False
        name = text.strip()
        if not name or name not in self._joined or name in self._harmless:
            return False
        return re.search(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", self._joined) is not None


def _any_of(edges: set[str]) -> re.Pattern[str]:
    """Matches any of the first two and last two characters of special tokens."""
    return re.compile("|".join(map(re.escape, sorted(edges))) or r"(?!)")


def _hints(edges: set[str]) -> str | None:
    """Characters one of which is in every edge, rare in prose; None if an edge is a part of a word.

    Looking for a few characters is many times faster than the pattern.
    """
    marks = {next((letter for letter in edge if not letter.isalnum()), "") for edge in edges}
    return None if "" in marks else "".join(sorted(marks))
