"""Whether a grammar accepts a text, decided in Python as llama.cpp decides it.

The algorithm is llama.cpp's: a set of pushdown stacks, each with a character class on top. Stacks
are shared linked lists here and their expansion is remembered, so a character costs about the
number of live stacks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from chatwrap.grammar.charset import Ranges
from chatwrap.grammar.gbnf import (
    Alternation,
    CharClass,
    Expression,
    GrammarTree,
    Literal,
    Reference,
    Repetition,
    Sequence,
)

# A stack is the number of a pair (expression on top, stack below); 0 is the empty stack.
_EMPTY_STACK = 0


@dataclass(slots=True)
class _Expansions:
    """The stacks of one grammar, each stored once, and what each expands to."""

    tree: GrammarTree
    cells: list[tuple[Expression, int]] = field(default_factory=lambda: [(Literal(""), 0)])
    numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    expanded: dict[int, tuple[int, ...]] = field(default_factory=dict)
    parts: dict[tuple[int, str], Expression] = field(default_factory=dict)

    def push(self, expression: Expression, below: int) -> int:
        key = (id(expression), below)
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.cells)
            self.cells.append((expression, below))
        return number

    def push_all(self, expressions: Iterable[Expression], below: int) -> int:
        for expression in reversed(tuple(expressions)):
            below = self.push(expression, below)
        return below

    def expand(self, stack: int) -> tuple[int, ...]:
        """The stacks with a literal or a class on top (or empty) that `stack` stands for."""
        known = self.expanded.get(stack)
        if known is not None:
            return known
        seen, todo, ready = {stack}, [stack], []
        while todo:
            current = todo.pop()
            top, below = self.cells[current]
            if current == _EMPTY_STACK or isinstance(top, CharClass) or (
                isinstance(top, Literal) and top.text
            ):  # fmt: skip
                ready.append(current)
                continue
            for following in self._unfold(top, below):
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        self.expanded[stack] = tuple(ready)
        return self.expanded[stack]

    def _unfold(self, top: Expression, below: int) -> list[int]:
        match top:
            case Literal() | CharClass():
                return [below]
            case Reference(name):
                return [self.push(self.tree.rules[name], below)]
            case Sequence(items):
                return [self.push_all(items, below)]
            case Alternation(options):
                return [self.push(option, below) for option in options]
            case Repetition(item, minimum, maximum):
                if maximum == 0:
                    return [below]
                once_more = self.push(item, self.push(self._rest_of(top), below))
                return [once_more] if minimum else [below, once_more]
            case _:
                assert_never(top)

    def _rest_of(self, repetition: Repetition) -> Expression:
        """What is left of a repetition after one pass; the same object each time."""
        if repetition.minimum == 0 and repetition.maximum is None:
            return repetition
        key = (id(repetition), "rest")
        if key not in self.parts:
            maximum = None if repetition.maximum is None else repetition.maximum - 1
            self.parts[key] = Repetition(repetition.item, max(0, repetition.minimum - 1), maximum)
        return self.parts[key]

    def tail_of(self, literal: Literal) -> Expression:
        key = (id(literal), "tail")
        if key not in self.parts:
            self.parts[key] = Literal(literal.text[1:])
        return self.parts[key]


class Matcher:
    """Follows a text through a grammar, chunk by chunk.

    >>> from chatwrap.grammar.reader import read
    >>> matcher = Matcher(read('root ::= "ab"+'))
    >>> matcher.feed("aba"), matcher.is_complete, matcher.feed("b"), matcher.is_complete
    (True, False, True, True)
    """

    def __init__(self, tree: GrammarTree) -> None:
        self._expansions = _Expansions(tree)
        self.reset()

    def reset(self) -> None:
        """Goes back to the start of the text."""
        start = self._expansions.push(self._expansions.tree.rules["root"], _EMPTY_STACK)
        self._stacks = frozenset(self._expansions.expand(start))

    @property
    def n_stacks(self) -> int:
        """How many readings of the text are still open; a measure of ambiguity."""
        return len(self._stacks)

    @property
    def is_complete(self) -> bool:
        """Whether the text so far is a whole match."""
        return _EMPTY_STACK in self._stacks

    @property
    def is_final(self) -> bool:
        """Whether the text so far is a whole match that nothing can be added to."""
        return self._stacks == {_EMPTY_STACK}

    @property
    def is_possible(self) -> bool:
        """Whether the text so far is the start of some match, or one itself."""
        return bool(self._stacks)

    def feed(self, text: str) -> bool:
        """Goes on with `text` and returns `is_possible`. After False every further call is False."""
        for character in text:
            self._stacks = self._step(ord(character))
            if not self._stacks:
                return False
        return self.is_possible

    def _step(self, code_point: int) -> frozenset[int]:
        found: set[int] = set()
        expansions = self._expansions
        for stack in self._stacks:
            top, below = expansions.cells[stack]
            if isinstance(top, Literal):
                if stack == _EMPTY_STACK or ord(top.text[0]) != code_point:
                    continue
                following = expansions.push(expansions.tail_of(top), below) if len(top.text) > 1 else below
            elif isinstance(top, CharClass) and _contains(top.ranges, code_point) is not top.negated:
                following = below
            else:
                continue
            found.update(expansions.expand(following))
        return frozenset(found)


def _contains(ranges: Ranges, code_point: int) -> bool:
    return any(low <= code_point <= high for low, high in ranges)
