"""A template's text and its name: what tokens are cut from, and what faults point into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from chatwrap.errors import DotpromptError, Fault

WHITE: Final = (
    "\t\n\x0b\x0c\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""White space as JavaScript has it, to strip: Python's own differs in six characters."""

MAX_NESTING: Final = 100
"""How deep blocks and sub-expressions may nest in one template."""


@dataclass(frozen=True, slots=True)
class Source:
    """The template that stands in `text` from `start` to `end`; errors count lines from the text's start."""

    text: str
    name: str
    start: int
    end: int

    @classmethod
    def of(cls, text: str, name: str) -> Source:
        """The template that is all of `text`."""
        return cls(text, name, 0, len(text))

    def fault(self, offset: int, problem: str, remedy: str = "") -> DotpromptError:
        """The error to raise for what is wrong at character `offset` of the text."""
        return DotpromptError([Fault.at(self.text, offset, problem, remedy, name=self.name)])
