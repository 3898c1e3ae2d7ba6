r"""Reads a regular expression into a tree: the dialect of ECMA-262, which JSON Schema names,
with Python's spellings of the same things.

Where the two differ ECMA-262 counts: ``.`` takes no line end of any kind, ``$`` only the very end,
``\d`` and ``\w`` ASCII only. What no automaton can do (lookarounds, back references, word boundaries)
is refused by name.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from chatwrap.errors import GrammarError
from chatwrap.grammar.charset import EVERY as EVERY_CHARACTER
from chatwrap.grammar.charset import Ranges, complement, intersection, union

MAX_COPIES = 5000


class PatternError(GrammarError):
    """A regular expression can't be read, or can't be written as a grammar."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Both:
    """Patterns one after the other."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of several patterns."""

    options: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """A pattern `minimum` to `maximum` times (inclusive; None: no bound)."""

    part: Pattern
    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """The start of the text, or its end."""

    at_start: bool


Pattern = OneOf | Both | Either | Repeated | Anchor

DIGITS: Ranges = ((48, 57),)
WORD: Ranges = union([(48, 57), (65, 90), (97, 122), (95, 95)])
# ECMA-262 WhiteSpace and LineTerminator.
SPACE: Ranges = union(
    [
        *((9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)),
        *((0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
    ]
)
NOT_LINE_END: Ranges = complement(((10, 10), (13, 13), (0x2028, 0x2029)))
_CLASSES = {"d": DIGITS, "w": WORD, "s": SPACE}
_CONTROLS = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11, "0": 0, "a": 7, "e": 27}
_REFUSED_ESCAPES = {"b": "word boundaries", "B": "word boundaries", "k": "back references", "G": "\\G"}
_REFUSED_GROUPS = {
    "?=": "lookahead (?=",
    "?!": "negative lookahead (?!",
    "?<=": "lookbehind (?<=",
    "?<!": "negative lookbehind (?<!",
    "?>": "atomic group (?>",
    "?(": "conditional group (?(",
}
_COUNT = re.compile(r"\{(\d{1,9})(?:(,)(\d{0,9}))?\}")
_LONG_NAMES = {
    "Letter": "L", "Number": "N", "Punctuation": "P", "Symbol": "S", "Separator": "Z", "Mark": "M",
    "Other": "C", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Decimal_Number": "Nd",
    "Control": "Cc", "digit": "Nd",
}  # fmt: skip


@lru_cache(maxsize=1024)
def read_pattern(source: str) -> Pattern:
    """The tree of a regular expression.

    Raises `PatternError`, which shows the place, if it is malformed or beyond automata.

    >>> read_pattern("a?")
    Repeated(part=OneOf(ranges=((97, 97),)), minimum=0, maximum=1)
    """
    reader = _PatternReader(source)
    pattern = reader.read_either()
    if reader.at < len(source):
        raise reader.fault("')' closes nothing.", "Escape it, or open a group.")
    return pattern


class _PatternReader:
    def __init__(self, source: str) -> None:
        self.source, self.at, self.depth = source, 0, 0
        self.ignores_case = False

    def fault(self, problem: str, remedy: str, at: int | None = None) -> PatternError:
        at = self.at if at is None else at
        where = f"pattern {self.source!r} at character {at + 1}" if len(self.source) < 200 else "pattern"
        return PatternError.of(where, problem, remedy)

    def _peek(self) -> str:
        return self.source[self.at : self.at + 1]

    def _take(self) -> str:
        if self.at >= len(self.source):
            raise self.fault("it ends too early.", "Complete it.")
        self.at += 1
        return self.source[self.at - 1]

    def read_either(self) -> Pattern:
        options = [self._read_sequence()]
        while self._peek() == "|":
            self.at += 1
            options.append(self._read_sequence())
        return options[0] if len(options) == 1 else Either(tuple(options))

    def _read_sequence(self) -> Pattern:
        parts: list[Pattern] = []
        while self._peek() not in ("", "|", ")"):
            part = self._read_atom()
            while (bounds := self._read_bounds()) is not None:
                part = self._repeated(part, *bounds)
            parts.append(part)
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def _repeated(self, part: Pattern, minimum: int, maximum: int | None) -> Pattern:
        if maximum is not None and maximum < minimum:
            raise self.fault(f"{{{minimum},{maximum}}} asks for more than it allows.", "Swap the bounds.")
        if max(minimum, maximum or 0) > MAX_COPIES:
            raise self.fault(f"it repeats more than {MAX_COPIES} times.", "Make the bound smaller.")
        return Repeated(part, minimum, maximum)

    def _read_bounds(self) -> tuple[int, int | None] | None:
        character = self._peek()
        bounds: tuple[int, int | None]
        if character == "{":
            found = _COUNT.match(self.source, self.at)
            if not found:
                return None
            self.at = found.end()
            low = int(found[1])
            bounds = (low, low if not found[2] else int(found[3]) if found[3] else None)
        elif character and character in "*+?":
            self.at += 1
            bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}[character]
        else:
            return None
        if self._peek() == "?":  # lazy: the same language
            self.at += 1
        elif self._peek() == "+":
            raise self.fault("possessive repeats can't be written as a grammar.", "Remove the '+'.")
        return bounds

    def _read_atom(self) -> Pattern:
        start, character = self.at, self._take()
        match character:
            case "(":
                return self._read_group(start)
            case "[":
                return OneOf(self._cased(self._read_class(start)))
            case ".":
                return OneOf(NOT_LINE_END)
            case "^" | "$":
                return Anchor(character == "^")
            case "*" | "+" | "?":
                raise self.fault(f"{character!r} has nothing to repeat.", "Escape it.", start)
            case "\\":
                if self._peek() and self._peek() in "AzZ":
                    return Anchor(self._take() == "A")
                return OneOf(self._cased(self._read_escape(start, in_class=False)))
            case _:
                return OneOf(self._cased(((ord(character), ord(character)),)))

    def _cased(self, ranges: Ranges) -> Ranges:
        if not self.ignores_case:
            return intersection(ranges, EVERY_CHARACTER)
        lower = [(max(a, 65) + 32, min(b, 90) + 32) for a, b in ranges]
        upper = [(max(a, 97) - 32, min(b, 122) - 32) for a, b in ranges]
        return intersection(union([*ranges, *lower, *upper]), EVERY_CHARACTER)

    def _read_group(self, start: int) -> Pattern:
        self.depth += 1
        if self.depth > 60:
            raise self.fault("groups are nested deeper than 60 levels.", "Write it flatter.", start)
        rest = self.source[self.at : self.at + 3]
        for opening, name in _REFUSED_GROUPS.items():
            if rest.startswith(opening):
                problem = f"{name} can't be written as a grammar."
                raise self.fault(problem, "Say it without.", start)
        if rest.startswith("?"):
            header = re.compile(r"\?(?::|P?<[A-Za-z_$][\w$]*>)").match(self.source, self.at)
            if not header:
                raise self._flag_group(start)
            self.at = header.end()
        pattern = self.read_either()
        if self._peek() != ")":
            raise self.fault("the group never closes.", "Close it with ')'.", start)
        self.at += 1
        self.depth -= 1
        return pattern

    def _flag_group(self, start: int) -> PatternError:
        return self.fault("this kind of group is unknown.", "Use (…) or (?:…).", start)

    def _read_class(self, start: int) -> Ranges:
        negated = self._peek() == "^"
        self.at += negated
        ranges: list[tuple[int, int]] = []
        while self._peek() != "]":
            if not self._peek():
                raise self.fault("the class never closes.", "Close it with ']'.", start)
            ranges += self._read_class_item()
        self.at += 1
        found = union(ranges)
        return complement(self._cased(found)) if negated else found

    def _read_class_item(self) -> list[tuple[int, int]]:
        start = self.at
        low = self._read_class_character()
        if self._peek() != "-" or self.source[self.at + 1 : self.at + 2] in ("]", ""):
            return list(low)
        self.at += 1
        high = self._read_class_character()
        if len(low) != 1 or len(high) != 1 or low[0][0] != low[0][1] or high[0][0] != high[0][1]:
            return [*low, (45, 45), *high]
        if low[0][0] > high[0][0]:
            raise self.fault("a range runs backwards.", "Write the lower end first.", start)
        return [(low[0][0], high[0][0])]

    def _read_class_character(self) -> Ranges:
        start, character = self.at, self._take()
        if character == "[" and self._peek() == ":":
            raise self.fault("POSIX classes aren't part of this dialect.", "Write the characters.", start)
        if character == "\\":
            return self._read_escape(start, in_class=True)
        return ((ord(character), ord(character)),)

    def _read_escape(self, start: int, *, in_class: bool) -> Ranges:
        character = self._take()
        if character.lower() in _CLASSES:
            ranges = _CLASSES[character.lower()]
            return complement(ranges) if character.isupper() else ranges
        if character in "pP" and self._peek() == "{":
            return self._read_property(start, negated=character == "P")
        if in_class and character == "b":
            return ((8, 8),)
        if character in _REFUSED_ESCAPES and not in_class:
            problem = f"{_REFUSED_ESCAPES[character]} can't be written as a grammar."
            raise self.fault(problem, "Say it without.", start)
        if character in "123456789":
            raise self.fault("back references can't be written as a grammar.", "Say it without.", start)
        code_point = self._read_code_point(character, start)
        return ((code_point, code_point),)

    def _read_code_point(self, character: str, start: int) -> int:
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "c" and self._peek().isalpha() and self._peek().isascii():
            return ord(self._take()) % 32
        if character not in ("x", "u"):
            return ord(character)
        braces = re.compile(r"\{([0-9a-fA-F]{1,6})\}").match(self.source, self.at)
        if braces:
            self.at = braces.end()
            return self._checked(int(braces[1], 16), start)
        value = self._read_hex(2 if character == "x" else 4, start)
        low = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})").match(self.source, self.at)
        if character == "u" and 0xD800 <= value < 0xDC00 and low:
            self.at = low.end()
            return 0x10000 + ((value - 0xD800) << 10) + int(low[1], 16) - 0xDC00
        return value

    def _read_hex(self, n_digits: int, start: int) -> int:
        digits = self.source[self.at : self.at + n_digits]
        if not re.fullmatch(f"[0-9a-fA-F]{{{n_digits}}}", digits):
            raise self.fault(f"the escape needs {n_digits} hexadecimal digits.", "Complete it.", start)
        self.at += n_digits
        return int(digits, 16)

    def _checked(self, code_point: int, start: int) -> int:
        if code_point > sys.maxunicode:
            raise self.fault("that is no code point.", "Use one up to 10FFFF.", start)
        return code_point

    def _read_property(self, start: int, *, negated: bool) -> Ranges:
        end = self.source.find("}", self.at)
        name = self.source[self.at + 1 : end] if end >= 0 else ""
        self.at = end + 1 if end >= 0 else self.at
        category = name.removeprefix("General_Category=").removeprefix("gc=")
        ranges = _category(_LONG_NAMES.get(category, category))
        if ranges is None:
            problem = f"the Unicode property {name!r} isn't known here."
            raise self.fault(problem, "Use a general category such as \\p{L}.", start)
        return complement(ranges) if negated else ranges


def _category(name: str) -> Ranges | None:
    """The characters of a general category (``L``, ``Nd``), or None if there is no such category."""
    if name == "Any":
        return EVERY_CHARACTER
    table = _categories()
    found = [r for category, ranges in table.items() if category.startswith(name) for r in ranges]
    return (
        intersection(union(found), EVERY_CHARACTER) if re.fullmatch("[A-Z][a-z]?", name) and found else None
    )


@lru_cache(maxsize=1)
def _categories() -> dict[str, list[tuple[int, int]]]:
    """The ranges of each general category. Built once, in about 0.3 s."""
    found: dict[str, list[tuple[int, int]]] = {}
    start, current = 0, unicodedata.category("\0")
    for code_point in range(1, sys.maxunicode + 2):
        category = unicodedata.category(chr(code_point)) if code_point <= sys.maxunicode else ""
        if category != current:
            found.setdefault(current, []).append((start, code_point - 1))
            start, current = code_point, category
    return found
