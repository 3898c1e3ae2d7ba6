"""Reads GBNF text into a `GrammarTree`, with every fault placed by line and column.

It takes exactly what llama.cpp's own parser takes (``src/llama-grammar.cpp``), save for what is
harmful there (`chatwrap.grammar.safety`) and for token elements (``<[7]>``), whose meaning
depends on a vocabulary.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from chatwrap.errors import Fault, GrammarError
from chatwrap.grammar.charset import MAX_CODE_POINT
from chatwrap.grammar.gbnf import (
    ANY_CHARACTER,
    EMPTY,
    Alternation,
    CharClass,
    Expression,
    GrammarTree,
    Literal,
    Reference,
    Repetition,
    Sequence,
)
from chatwrap.grammar.safety import Hazard, hazards

MAX_CHARACTERS = 4_000_000
MAX_GROUPS = 60

_NAME = re.compile(r"[a-zA-Z0-9-]+")
_RULE_START = re.compile(r"^[ \t]*(?=[a-zA-Z0-9-]+[ \t]*::=)", re.MULTILINE)
_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_BOUNDS = re.compile(r"\{\s*([0-9]+)\s*(,)?\s*([0-9]*)\s*\}")
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-"}
_SHORT = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def read(text: str, *, name: str = "") -> GrammarTree:
    """The tree of a GBNF text that llama.cpp can run without harm. `name` is what errors call it.

    Raises `GrammarError` with all faults found: syntax, undefined or doubled rules, and what
    `chatwrap.grammar.safety` finds. Cost linear in the text.

    >>> read('root ::= "a" ws\\nws ::= [ ]?').rules["ws"]
    Repetition(item=CharClass(ranges=((32, 32),), negated=False), minimum=0, maximum=1)
    """
    reader = _Reader(text, name)
    reader.read_rules()
    if not reader.faults:
        for hazard in hazards(GrammarTree(reader.rules)):
            reader.add_hazard(hazard)
    if reader.faults:
        raise GrammarError(reader.faults)
    return GrammarTree(reader.rules)


class _SyntaxError(Exception):
    """Stops the reading of one rule; the reader goes on at the next."""

    def __init__(self, offset: int, problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.offset, self.problem, self.remedy = offset, problem, remedy


@dataclass(slots=True)
class _Reader:
    text: str
    name: str
    offset: int = 0
    groups: int = 0
    rule: str = ""
    rules: dict[str, Expression] = field(default_factory=dict)
    defined_at: dict[str, int] = field(default_factory=dict)
    referred_at: dict[tuple[str, str], int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def add_hazard(self, hazard: Hazard) -> None:
        at = self.referred_at.get((hazard.rule, hazard.about), self.defined_at.get(hazard.rule))
        where = f"{hazard.rule}: " if hazard.rule else ""
        if at is None:
            self.faults.append(Fault(self.name, hazard.problem, hazard.remedy))
        else:
            self._fault(at, where + hazard.problem, hazard.remedy)

    def _fault(self, offset: int, problem: str, remedy: str = "") -> None:
        self.faults.append(Fault.at(self.text, offset, problem, remedy, name=self.name))

    def read_rules(self) -> None:
        if len(self.text) > MAX_CHARACTERS:
            problem = (
                f"the grammar has {len(self.text):,} characters; at most {MAX_CHARACTERS:,} are allowed."
            )
            self.faults.append(Fault(self.name, problem, "Write it shorter."))
            return
        for found in re.finditer("[\0\ud800-\udfff]", self.text):
            problem = f"U+{ord(found[0]):04X} can't stand in a grammar."
            self._fault(found.start(), problem, "Remove it.")
            return
        self._skip(lines=True)
        while self.offset < len(self.text):
            try:
                self._read_rule()
            except _SyntaxError as fault:
                self._fault(fault.offset, fault.problem, fault.remedy)
                following = _RULE_START.search(self.text, fault.offset + 1)
                self.offset = following.end() if following else len(self.text)
            self._skip(lines=True)

    def _read_rule(self) -> None:
        start, self.groups = self.offset, 0
        self.rule = self._read_name("a rule name")
        self._skip(lines=False)
        if not self.text.startswith("::=", self.offset):
            raise self._unexpected("'::=' after the rule name")
        self.offset += 3
        self._skip(lines=True)
        if self.rule in self.rules:
            self._fault(start, f"the rule {self.rule!r} is defined twice.", "Join its alternatives with '|'.")
        self.defined_at.setdefault(self.rule, start)
        self.rules[self.rule] = EMPTY
        expression = self._read_alternates(nested=False)
        if self.offset < len(self.text) and self.text[self.offset] not in "\r\n":
            raise self._unexpected("an item, '|' or the end of the line")
        self.rules[self.rule] = expression

    def _read_alternates(self, *, nested: bool) -> Expression:
        options = [self._read_sequence(nested=nested)]
        while self._peek() == "|":
            self.offset += 1
            self._skip(lines=True)
            options.append(self._read_sequence(nested=nested))
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def _read_sequence(self, *, nested: bool) -> Expression:
        items: list[Expression] = []
        while (item := self._read_item(nested=nested)) is not None:
            items.append(self._read_quantifiers(item, nested=nested))
        return EMPTY if not items else items[0] if len(items) == 1 else Sequence(tuple(items))

    def _read_item(self, *, nested: bool) -> Expression | None:
        start, character = self.offset, self._peek()
        item: Expression
        if character == '"':
            item = self._read_literal()
        elif character == "[":
            item = self._read_class()
        elif character == "(":
            item = self._read_group()
        elif character == ".":
            self.offset += 1
            item = ANY_CHARACTER
        elif _NAME.match(character):
            item = Reference(self._read_name("a rule name"))
            self.referred_at.setdefault((self.rule, item.name), start)
        else:
            self._refuse_stray(character)
            return None
        self._skip(lines=nested)
        if item == EMPTY and self.text[start] == '"' and self._peek() in ("*", "+", "?", "{"):
            raise _SyntaxError(start, "an empty text is repeated.", "Remove the repetition.")
        return item

    def _refuse_stray(self, character: str) -> None:
        if character in ("<", "!"):
            raise _SyntaxError(
                self.offset,
                "token elements depend on the vocabulary.",
                "Write the token's text as a literal.",
            )
        if character in ("*", "+", "?", "{"):
            raise _SyntaxError(self.offset, f"{character!r} has nothing to repeat.", "Put an item before it.")

    def _read_quantifiers(self, item: Expression, *, nested: bool) -> Expression:
        while (character := self._peek()) in ("*", "+", "?", "{"):
            if character == "{":
                minimum, maximum = self._read_bounds(nested=nested)
            else:
                minimum, maximum = _SHORT[character]
                self.offset += 1
            self._skip(lines=nested)
            item = Repetition(item, minimum, maximum)
        return item

    def _read_bounds(self, *, nested: bool) -> tuple[int, int | None]:
        found = _BOUNDS.match(self.text, self.offset)
        if not found or (not nested and re.search(r"[\r\n]", found[0])):
            problem = "the repetition isn't written {n}, {n,} or {n,m}."
            raise _SyntaxError(self.offset, problem, "Correct it.")
        if len(found[1]) > 9 or len(found[3]) > 9 or (found[3] and not found[2]):
            raise _SyntaxError(self.offset, f"{found[0]} isn't a repetition.", "Use smaller bounds.")
        self.offset = found.end()
        minimum = int(found[1])
        return minimum, (int(found[3]) if found[3] else None if found[2] else minimum)

    def _read_group(self) -> Expression:
        start = self.offset
        self.groups += 1
        if self.groups > MAX_GROUPS:
            problem = f"groups are nested deeper than {MAX_GROUPS} levels."
            raise _SyntaxError(start, problem, "Move inner groups into rules of their own.")
        self.offset += 1
        self._skip(lines=True)
        expression = self._read_alternates(nested=True)
        if self._peek() != ")":
            raise self._unexpected("')' for the '(' at character " + str(start + 1))
        self.offset += 1
        self.groups -= 1
        return expression

    def _read_literal(self) -> Expression:
        start = self.offset
        self.offset += 1
        characters: list[str] = []
        while self._peek() != '"':
            characters.append(self._read_character(start, "the text"))
        self.offset += 1
        return Literal("".join(characters))

    def _read_class(self) -> Expression:
        start = self.offset
        self.offset += 1
        negated = self._peek() == "^"
        self.offset += negated
        ranges: list[tuple[int, int]] = []
        while self._peek() != "]":
            low = high = ord(self._read_character(start, "the class"))
            if self._peek() == "-" and not self.text.startswith("-]", self.offset):
                self.offset += 1
                high = ord(self._read_character(start, "the class"))
            if low > high:
                raise _SyntaxError(start, "a range runs backwards.", "Write the lower end first.")
            ranges.append((low, high))
        if not ranges:
            raise _SyntaxError(start, "the class is empty.", "Put characters in it, or write '.' for any.")
        self.offset += 1
        return CharClass(tuple(ranges), negated)

    def _read_character(self, start: int, what: str) -> str:
        character = self._peek()
        if not character:
            raise _SyntaxError(start, f"{what} never ends.", "Close it.")
        self.offset += 1
        if character != "\\":
            return character
        escape = self._peek()
        self.offset += 1
        if escape in _HEX_DIGITS:
            return self._read_hex(_HEX_DIGITS[escape])
        if escape not in _ESCAPES:
            problem = f"GBNF has no escape '\\{escape}'."
            raise _SyntaxError(
                self.offset - 2, problem, 'It knows \\t \\r \\n \\\\ \\" \\[ \\] \\- \\x \\u \\U.'
            )
        return _ESCAPES[escape]

    def _read_hex(self, n_digits: int) -> str:
        digits = self.text[self.offset : self.offset + n_digits]
        at = self.offset - 2
        if not re.fullmatch(f"[0-9a-fA-F]{{{n_digits}}}", digits):
            raise _SyntaxError(at, f"the escape needs {n_digits} hexadecimal digits.", "Complete it.")
        code_point = int(digits, 16)
        if code_point > MAX_CODE_POINT or 0xD800 <= code_point <= 0xDFFF:
            raise _SyntaxError(at, f"{digits} is no character's code point.", "Use one below 110000.")
        self.offset += n_digits
        return chr(code_point)

    def _read_name(self, what: str) -> str:
        found = _NAME.match(self.text, self.offset)
        if not found:
            raise self._unexpected(what)
        self.offset = found.end()
        return found[0]

    def _unexpected(self, wanted: str) -> _SyntaxError:
        character = self._peek()
        return _SyntaxError(self.offset, f"expected {wanted}, found {character!r}."
                            if character else f"expected {wanted}, found the end.")  # fmt: skip

    def _peek(self) -> str:
        return self.text[self.offset : self.offset + 1]

    def _skip(self, *, lines: bool) -> None:
        found = (_SPACE_AND_LINES if lines else _SPACE).match(self.text, self.offset)
        self.offset = found.end() if found else self.offset
