"""GBNF, the grammar notation of llama.cpp, as a tree of frozen values, and its printer.

The notation is described in llama.cpp's ``grammars/README.md`` and defined by its parser,
``src/llama-grammar.cpp``. Trees are kept in one normal form, which `sequence` and
`alternation` build; then ``read(str(tree)) == tree`` (`chatwrap.grammar.reader.read`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from chatwrap.grammar.charset import Ranges


@dataclass(frozen=True, slots=True)
class Literal:
    """Exactly these characters; ``Literal("")`` is the empty text."""

    text: str


@dataclass(frozen=True, slots=True)
class CharClass:
    """One character inside `ranges` (inclusive code points), or outside if `negated`."""

    ranges: Ranges
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """What the rule `name` matches."""

    name: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """All `items` in turn; two or more."""

    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """One of `options`; two or more, or none at all, which matches nothing (`NEVER`)."""

    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Repetition:
    """`item`, `minimum` to `maximum` times (inclusive; None: no bound)."""

    item: Expression
    minimum: int
    maximum: int | None = None


Expression = Literal | CharClass | Reference | Sequence | Alternation | Repetition

EMPTY = Literal("")
NEVER = Alternation(())
ANY_CHARACTER = CharClass((), negated=True)


def sequence(*items: Expression) -> Expression:
    """The items in turn, in normal form: flat, without empty texts, `NEVER` if one of them is.

    >>> sequence(Literal("a"), EMPTY, Literal("b"))
    Literal(text='ab')
    """
    flat: list[Expression] = []
    for item in items:
        for part in item.items if isinstance(item, Sequence) else (item,):
            if part == NEVER:
                return NEVER
            if not isinstance(part, Literal):
                flat.append(part)
            elif flat and isinstance(last := flat[-1], Literal):
                flat[-1] = Literal(last.text + part.text)
            elif part.text:
                flat.append(part)
    if not flat:
        return EMPTY
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def alternation(options: Iterable[Expression]) -> Expression:
    """One of the options, in normal form: flat, no single part twice, none that can't match."""
    flat: list[Expression] = []
    seen: set[Expression] = set()
    for option in options:
        for part in option.options if isinstance(option, Alternation) else (option,):
            if not isinstance(part, Literal | CharClass | Reference):
                flat.append(part)
            elif part not in seen:
                seen.add(part)
                flat.append(part)
    return flat[0] if len(flat) == 1 else Alternation(tuple(flat))


def optional(item: Expression) -> Expression:
    """The item or nothing."""
    return Repetition(item, 0, 1)


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside one."""
    match expression:
        case Sequence(items):
            return items
        case Alternation(options):
            return options
        case Repetition(item):
            return (item,)
        case Literal() | CharClass() | Reference():
            return ()
        case _:
            assert_never(expression)


def references(expression: Expression) -> list[str]:
    """The names that an expression refers to, left to right, as often as it does."""
    found: list[str] = []
    stack = [expression]
    while stack:
        current = stack.pop()
        if isinstance(current, Reference):
            found.append(current.name)
        elif isinstance(current, Sequence):
            stack.extend(current.items[::-1])
        elif isinstance(current, Alternation):
            stack.extend(current.options[::-1])
        elif isinstance(current, Repetition):
            stack.append(current.item)
    return found


@dataclass(frozen=True, slots=True)
class GrammarTree:
    """Rules by name. `str(tree)` is the GBNF text, the rule ``root`` first.

    >>> print(GrammarTree({"root": Sequence((Literal("a"), Repetition(Reference("b"), 0)))}))
    root ::= "a" b*
    """

    rules: Mapping[str, Expression]

    def __str__(self) -> str:
        names = sorted(self.rules, key=lambda name: name != "root")
        return "\n".join(f"{name} ::= {_alternates(self.rules[name])}" for name in names)


def _alternates(expression: Expression) -> str:
    if isinstance(expression, Alternation) and expression.options:
        return " | ".join(_items(option) for option in expression.options)
    return _items(expression)


def _items(expression: Expression) -> str:
    if isinstance(expression, Sequence):
        return " ".join(_atom(item) for item in expression.items)
    return _atom(expression)


def _atom(expression: Expression) -> str:
    match expression:
        case Literal(text):
            return f'"{escape(text)}"'
        case CharClass(ranges, negated):
            return _class(ranges, negated=negated)
        case Reference(name):
            return name
        case Repetition(item, minimum, maximum):
            body = _atom(item)
            body = f"({body})" if isinstance(item, Repetition) or body == '""' else body
            return body + _quantifier(minimum, maximum)
        case Sequence() | Alternation():
            return f"({_alternates(expression)})" if children(expression) else "[]"
        case _:
            assert_never(expression)


def _quantifier(minimum: int, maximum: int | None) -> str:
    short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((minimum, maximum))
    if short:
        return short
    if minimum == maximum:
        return f"{{{minimum}}}"
    return f"{{{minimum},{'' if maximum is None else maximum}}}"


def _class(ranges: Ranges, *, negated: bool) -> str:
    if negated and not ranges:
        return "."
    parts = [
        _escape_in_class(low) + (f"-{_escape_in_class(high)}" if high > low else "") for low, high in ranges
    ]
    return f"[{'^' if negated else ''}{''.join(parts)}]"


# The escapes that llama.cpp's `parse_char` knows; every other backslash is an error there.
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
_PLAIN = frozenset(map(chr, range(0x20, 0x7F))) - {"\\", '"'}


def escape(text: str) -> str:
    r"""The characters of a literal as GBNF writes them, in printable ASCII and letters.

    >>> print(escape('a"\n\x01'))
    a\"\n\x01
    """
    if _PLAIN.issuperset(text):
        return text
    return "".join(c if c in _PLAIN else '\\"' if c == '"' else _escaped(c) for c in text)


def _escape_in_class(code_point: int) -> str:
    character = chr(code_point)
    if character in "[]-":
        return "\\" + character
    if character == "^":
        return "\\x5E"
    return character if character in _PLAIN or character == '"' else _escaped(character)


def _escaped(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    code_point = ord(character)
    if code_point <= 0xFF and not character.isprintable():
        return f"\\x{code_point:02X}"
    if character.isalnum():
        return character
    return f"\\u{code_point:04X}" if code_point <= 0xFFFF else f"\\U{code_point:08X}"
