"""How a chat format's control text stands in a grammar: as it is spelled, or with stand-ins for tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from chatwrap.grammar.charset import NOTHING, Ranges

_TAG: Final = re.compile(r"\s*(?:<[^<>\s]+>|\[[A-Z_/]+\])")


@dataclass(frozen=True, slots=True)
class Marks:
    """How control text is written, and the characters that mean tokens and so are no text.

    Without a vocabulary control text is its characters. A vocabulary's special tokens are single
    characters of `reserved` in what `spell` gives: text that only looks like them is another text,
    and no character class of a grammar holds them. `stops` are the texts that end a turn.
    """

    spell: Callable[[str], str] = str
    reserved: Ranges = NOTHING
    stops: tuple[str, ...] = ()

    def before_stop(self, text: str) -> tuple[str, str | None]:
        """Control text up to the first stop in it, and that stop; None where none is in it."""
        found = [(at, -len(stop), stop) for stop in self.stops if stop and (at := text.find(stop)) >= 0]
        if not found:
            return text, None
        at, _, stop = min(found)
        return text[:at], stop

    def trigger(self, text: str) -> str:
        """As much of a call's spelled beginning as tells that a call has begun.

        That is its first special token, or its first tag (``<tool_call>``), or all of it.
        """
        for at, character in enumerate(text):
            if self.is_token(character):
                return text[: at + 1]
        tag = _TAG.match(text)
        return tag.group() if tag else text

    def is_token(self, character: str) -> bool:
        """Whether a spelled character stands for a special token."""
        return any(low <= ord(character) <= high for low, high in self.reserved)


PLAIN: Final = Marks()


def core(text: str) -> str:
    """A mark without the white space around it, which models don't write exactly.

    What ends a word stays: ``"<|channel>thought\\n"`` isn't the beginning of ``"<|channel>thoughts"``.
    """
    stripped = text.strip()
    if not stripped:
        return text
    return text.lstrip() if stripped[-1].isalnum() else stripped


def parts_of(text: str) -> list[str]:
    """Control text cut before each of its tags.

    >>> parts_of("</calls><|im_end|>\\n")
    ['</calls>', '<|im_end|>\\n']
    """
    return [part for part in re.split(r"(?=<[^<>\s]+>)", text) if part]
