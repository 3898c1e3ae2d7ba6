"""How JSON writes texts and numbers: the rules of RFC 8259, and each character's spellings in a string."""

from __future__ import annotations

from functools import lru_cache

from chatwrap.grammar.charset import EVERY, MAX_CODE_POINT, Ranges, complement, intersection, union
from chatwrap.grammar.gbnf import (
    CharClass,
    Expression,
    Literal,
    Reference,
    Repetition,
    alternation,
    optional,
    sequence,
)

_MUST_ESCAPE: Ranges = union([(0, 0x1F), (34, 34), (92, 92)])
_RAW: Ranges = complement(_MUST_ESCAPE)
_NON_ASCII: Ranges = intersection(((0x80, MAX_CODE_POINT),), EVERY)
_SHORT_ESCAPES = {34: '"', 92: "\\", 8: "b", 9: "t", 10: "n", 12: "f", 13: "r"}

_N_LONG_ESCAPES = 32 - sum(c < 32 for c in _SHORT_ESCAPES)

_HEX = CharClass(((48, 57), (65, 70), (97, 102)))
_DIGIT = CharClass(((48, 57),))
_D = CharClass(((68, 68), (100, 100)))


def _not_surrogate(first: Ranges) -> Expression:
    """Four hexadecimal digits that start with one of `first`, surrogates left out."""
    plain = sequence(CharClass(first), _HEX, _HEX, _HEX)
    return alternation([plain, sequence(_D, CharClass(((48, 55),)), _HEX, _HEX)])


_PAIR = sequence(
    _D, CharClass(((56, 57), (65, 66), (97, 98))), _HEX, _HEX,
    Literal("\\u"), _D, CharClass(((67, 70), (99, 102))), _HEX, _HEX,
)  # fmt: skip
_ABOVE_LATIN = _not_surrogate(((49, 57), (65, 67), (69, 70), (97, 99), (101, 102)))
_ABOVE_ASCII = alternation([
    sequence(Literal("00"), CharClass(((56, 57), (65, 70), (97, 102))), _HEX),
    sequence(Literal("0"), CharClass(((49, 57), (65, 70), (97, 102))), _HEX, _HEX),
    _ABOVE_LATIN, _PAIR,
])  # fmt: skip

# The rules of RFC 8259 strings and numbers. Numbers stay below 1e308 and within 31 digits on each
# side of the point: a model can't run away in digits. An escaped surrogate stands only in a pair, so
# that one `char` is one code point.
TEXT_RULES: dict[str, Expression] = {
    "char": alternation([
        CharClass(_MUST_ESCAPE, negated=True),
        sequence(Literal("\\"), alternation([
            CharClass(union((ord(c), ord(c)) for c in '"\\/bfnrt')),
            sequence(Literal("u"), Reference("code-unit")),
        ])),
    ]),
    "code-unit": alternation([
        _not_surrogate(((48, 57), (65, 67), (69, 70), (97, 99), (101, 102))), _PAIR,
    ]),
    "escaped-non-ascii": sequence(Literal("\\u"), _ABOVE_ASCII),
    "escaped-control": sequence(Literal("\\u00"), alternation([
        sequence(Literal("0"), CharClass(union((ord(c), ord(c)) for c in "01234567bBeEfF"))),
        sequence(Literal("1"), _HEX),
    ])),
    "whole": alternation([Literal("0"), sequence(CharClass(((49, 57),)), Repetition(_DIGIT, 0, 30))]),
    "integer": sequence(optional(Literal("-")), Reference("whole")),
    "number": sequence(
        optional(Literal("-")), Reference("whole"),
        optional(sequence(Literal("."), Repetition(_DIGIT, 1, 30))), optional(Reference("exponent")),
    ),
    "exponent": sequence(
        CharClass(((69, 69), (101, 101))), optional(CharClass(((43, 43), (45, 45)))),
        alternation([
            Repetition(_DIGIT, 1, 2), sequence(CharClass(((49, 50),)), _DIGIT, _DIGIT),
            sequence(Literal("30"), CharClass(((48, 55),))),
        ]),
    ),
    "string": sequence(Literal('"'), Repetition(Reference("char"), 0), Literal('"')),
}  # fmt: skip


@lru_cache(maxsize=4096)
def json_spelling(ranges: Ranges) -> tuple[tuple[Expression, ...], tuple[str, ...]]:
    """How JSON writes one character of a set: expressions, and names of `TEXT_RULES`."""
    options: list[Expression] = []
    shared: list[str] = []
    raw = intersection(ranges, _RAW)
    if intersection(ranges, _NON_ASCII) == _NON_ASCII:
        options.append(CharClass(intersection(complement(raw), ((0, 0x7F),)), negated=True))
        shared.append("escaped-non-ascii")
    elif raw:
        options.append(_characters(raw))
    escaped = [c for low, high in intersection(ranges, _MUST_ESCAPE) for c in range(low, high + 1)]
    short = [ord(_SHORT_ESCAPES[c]) for c in escaped if c in _SHORT_ESCAPES]
    long = [c for c in escaped if c not in _SHORT_ESCAPES]
    if short:
        options.append(sequence(Literal("\\"), _characters(union((c, c) for c in short))))
    if len(long) == _N_LONG_ESCAPES:
        shared.append("escaped-control")
    else:
        options += [Literal(f"\\u{c:04x}") for c in long]
    return tuple(options), tuple(shared)


def _characters(ranges: Ranges) -> Expression:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return Literal(chr(ranges[0][0]))
    return CharClass(ranges)


def plain_spelling(ranges: Ranges) -> list[Expression]:
    ranges = intersection(ranges, ((1, MAX_CODE_POINT),))
    outside = complement(ranges)
    if outside and outside[-1][1] < 0x80:
        return [CharClass(outside, negated=True)]
    return [_characters(ranges)] if ranges else []
