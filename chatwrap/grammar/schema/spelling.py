"""How values are spelled: JSON, Python literals, bare keys, and strings without any quotes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Protocol

from chatwrap.grammar.automaton import ANYTHING, Automaton
from chatwrap.grammar.charset import EVERY, NOTHING, Ranges, complement, intersection, union
from chatwrap.grammar.free_text import text_before
from chatwrap.grammar.gbnf import CharClass, Expression, Literal, Repetition, alternation, sequence
from chatwrap.grammar.regex import compile_pattern
from chatwrap.grammar.rules import RuleBook

_WORD: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
_BARE_WORD: Final = r"^[A-Za-z0-9_$][A-Za-z0-9_$.-]*$"


class Spelling(Protocol):
    """Spells strings, the keys of objects, and null, true and false."""

    @property
    def name(self) -> str:
        """What tells its rules from those of other spellings; a rule name, or empty."""

    def text(self, book: RuleBook, content: Automaton | None) -> Expression:
        """A string whose content is in the automaton; any string for None."""

    def sized(self, book: RuleBook, low: int, high: int | None) -> Expression | None:
        """A string of `low` to `high` code points; None where only an automaton can tell."""

    def word(self, text: str) -> Expression:
        """Exactly this string."""

    def key(self, name: str) -> Expression:
        """Exactly this key, with what stands between it and its value but white space."""

    def keys(self, book: RuleBook, names: Automaton | None) -> Expression:
        """A key in the automaton, with what stands between it and its value but white space."""

    def literal(self, value: bool | float | None) -> str:  # noqa: FBT001
        """A value that is no string, array or object."""


class Json:
    """JSON, as RFC 8259 has it."""

    name = ""

    def text(self, book: RuleBook, content: Automaton | None) -> Expression:
        return book.shared("string") if content is None else book.json_text(content)

    def sized(self, book: RuleBook, low: int, high: int | None) -> Expression | None:
        return sequence(Literal('"'), book.repeat(book.shared("char"), low, high), Literal('"'))

    def word(self, text: str) -> Expression:
        return Literal(json_text(text))

    def key(self, name: str) -> Expression:
        return Literal(f"{json_text(name)}:")

    def keys(self, book: RuleBook, names: Automaton | None) -> Expression:
        return sequence(self.text(book, names), Literal(":"))

    def literal(self, value: bool | float | None) -> str:  # noqa: FBT001
        return json_text(value)


class Python:
    """Python literals: strings in either quotes, True, False and None."""

    name = "py-"

    def text(self, book: RuleBook, content: Automaton | None) -> Expression:
        return alternation(
            sequence(Literal(quote), self._content(book, content, quote), Literal(quote)) for quote in "\"'"
        )

    def _content(self, book: RuleBook, content: Automaton | None, quote: str) -> Expression:
        automaton = ANYTHING if content is None else content
        return book.spelled(automaton, f"python{quote}", _python_spelling(quote))

    def sized(self, book: RuleBook, low: int, high: int | None) -> Expression | None:
        options: list[Expression] = []
        for quote in "\"'":
            character = book.name(alternation(_python_spelling(quote)(EVERY)), "py-char")
            options.append(sequence(Literal(quote), book.repeat(character, low, high), Literal(quote)))
        return alternation(options)

    def word(self, text: str) -> Expression:
        return alternation(Literal(written) for written in dict.fromkeys([*_quoted(text), repr(text)]))

    def key(self, name: str) -> Expression:
        return sequence(self.word(name), Literal(":"))

    def keys(self, book: RuleBook, names: Automaton | None) -> Expression:
        return sequence(self.text(book, names), Literal(":"))

    def literal(self, value: bool | float | None) -> str:  # noqa: FBT001
        return repr(value)


@dataclass(frozen=True, slots=True)
class BareKeys:
    """Strings between two `quote` marks, without escapes; keys without quotes."""

    quote: str
    null: str = "null"
    reserved: Ranges = NOTHING
    name: str = "bare-"

    def text(self, book: RuleBook, content: Automaton | None) -> Expression:
        allowed = text_before(self.quote, (), self.reserved)
        inside = book.plain_text(allowed if content is None else content & allowed)
        return sequence(Literal(self.quote), inside, Literal(self.quote))

    def sized(self, book: RuleBook, low: int, high: int | None) -> Expression | None:
        return None

    def word(self, text: str) -> Expression:
        allowed = text_before(self.quote, (), self.reserved).accepts(text)
        return Literal(f"{self.quote}{text}{self.quote}") if allowed else alternation([])

    def key(self, name: str) -> Expression:
        return Literal(f"{name}:") if re.fullmatch(r"[^\s:,{}\[\]]+", name) else alternation([])

    def keys(self, book: RuleBook, names: Automaton | None) -> Expression:
        words = compile_pattern(_BARE_WORD)
        return sequence(book.plain_text(words if names is None else names & words), Literal(":"))

    def literal(self, value: bool | float | None) -> str:  # noqa: FBT001
        return self.null if value is None else json_text(value)


@dataclass(frozen=True, slots=True)
class Raw:
    """Strings as they are, up to what follows them; whatever is no string is spelled by `others`.

    `allowed` are the contents that a reader can tell from what follows and from other values.
    """

    allowed: Automaton
    others: Spelling = field(default_factory=Json)
    name: str = "raw-"

    def text(self, book: RuleBook, content: Automaton | None) -> Expression:
        return book.plain_text(self.allowed if content is None else content & self.allowed)

    def sized(self, book: RuleBook, low: int, high: int | None) -> Expression | None:
        return None

    def word(self, text: str) -> Expression:
        return Literal(text) if self.allowed.accepts(text) else alternation([])

    def key(self, name: str) -> Expression:
        return self.others.key(name)

    def keys(self, book: RuleBook, names: Automaton | None) -> Expression:
        return self.others.keys(book, names)

    def literal(self, value: bool | float | None) -> str:  # noqa: FBT001
        return self.others.literal(value)


def identifiers(names: Automaton | None) -> Automaton:
    """The names that are identifiers."""
    words = compile_pattern(_WORD)
    return words if names is None else names & words


def json_text(value: Any) -> str:
    """A value as compact JSON. Lone surrogates, which no UTF-8 text holds, are escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if any("\ud800" <= character <= "\udfff" for character in text):
        return json.dumps(value, separators=(",", ":"))
    return text


_CONTROL: Final = union([(0, 0x1F), (0x7F, 0x7F)])
_SHORT: Final = {0x5C: "\\\\", 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t"}
_NON_ASCII: Final = intersection(((0x80, 0x10FFFF),), EVERY)
_HEX: Final = CharClass(((48, 57), (65, 70), (97, 102)))
_HIGH: Final = CharClass(((56, 57), (65, 70), (97, 102)))
_NONZERO: Final = CharClass(((49, 57), (65, 70), (97, 102)))
_HIGH_BUT_D: Final = CharClass(((49, 57), (65, 67), (69, 70), (97, 99), (101, 102)))
# Escapes of characters past ASCII. That one may write a smaller number with more digits is left out.
_ESCAPED_NON_ASCII: Final = alternation([
    sequence(Literal("\\x"), _HIGH, _HEX),
    sequence(Literal("\\u0"), _NONZERO, _HEX, _HEX),
    sequence(Literal("\\u"), _HIGH_BUT_D, Repetition(_HEX, 3, 3)),
    sequence(Literal("\\u"), CharClass(((68, 68), (100, 100))), CharClass(((48, 55),)), _HEX, _HEX),
    sequence(Literal("\\U000"), _NONZERO, Repetition(_HEX, 4, 4)),
    sequence(Literal("\\U0010"), Repetition(_HEX, 4, 4)),
])  # fmt: skip


@lru_cache
def _python_spelling(quote: str) -> Callable[[Ranges], list[Expression]]:
    """How a Python string in these quotes writes one character of a set."""
    escaped_too = union([*_CONTROL, (ord(quote), ord(quote)), (0x5C, 0x5C)])

    def spell(ranges: Ranges) -> list[Expression]:
        options: list[Expression] = []
        raw = intersection(ranges, complement(escaped_too))
        if raw:
            outside = complement(raw)
            negated = bool(outside) and outside[-1][1] < 0x80
            options.append(CharClass(outside, negated=True) if negated else CharClass(raw))
        for low, high in intersection(ranges, escaped_too):
            options += [Literal(_escaped(code, quote)) for code in range(low, high + 1)]
        if intersection(ranges, _NON_ASCII) == _NON_ASCII:
            options.append(_ESCAPED_NON_ASCII)
        return options

    return spell


def _escaped(code_point: int, quote: str) -> str:
    return "\\" + quote if code_point == ord(quote) else _SHORT.get(code_point, f"\\x{code_point:02x}")


def _quoted(text: str) -> list[str]:
    """A string as a Python literal in each kind of quotes."""
    found = []
    for quote in "\"'":
        escaped = (*_SHORT, ord(quote), *range(0x20), 0x7F)
        found.append(
            quote + "".join(_escaped(ord(c), quote) if ord(c) in escaped else c for c in text) + quote
        )
    return found
