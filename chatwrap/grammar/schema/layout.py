"""Where white space may stand between the tokens of JSON, and how much."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from chatwrap.grammar.gbnf import (
    EMPTY,
    CharClass,
    Expression,
    Literal,
    Reference,
    Repetition,
    alternation,
    sequence,
)
from chatwrap.grammar.schema.spelling import Json, Spelling

Whitespace = OneOf["flexible", "compact", "spaced"]

# At most one space, or one line break with its indentation: a model can't run away in white space.
WS: Expression = alternation([
    EMPTY, Literal(" "), sequence(Literal("\n"), Repetition(CharClass(((9, 9), (32, 32))), 0, 40)),
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Layout:
    """The gap after a colon, after a comma, and inside brackets (none stands before them), and the
    spelling of strings, keys and words. `nested` is the layout inside arrays and objects, if another.

    ``flexible`` takes compact and indented JSON alike, ``compact`` has no gaps, and ``spaced`` is
    what ``json.dumps`` writes: one space after each colon and comma.
    """

    after_colon: Expression
    after_comma: Expression
    inside: Expression
    spelling: Spelling = field(default_factory=Json)
    nested: Layout | None = None
    sorts_keys: bool = False

    @property
    def within(self) -> Layout:
        """The layout of what stands inside arrays and objects."""
        return self.nested or self

    @classmethod
    def of(cls, whitespace: Whitespace) -> Layout:
        match whitespace:
            case "flexible":
                return cls(Reference("ws"), Reference("ws"), Reference("ws"))
            case "compact":
                return cls(EMPTY, EMPTY, EMPTY)
            case "spaced":
                return cls(Literal(" "), Literal(" "), EMPTY)
