"""Hypothesis strategies for grammar trees in normal form, and texts drawn from a tree."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from chatwrap.grammar.charset import EVERY, complement, intersection, union
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

NAMES = ["root", "a", "b-c", "x9"]
_characters = st.one_of(
    st.sampled_from('ab"\\]-[^\n\t\r \x01\x7f{}|()*é漢😀 '), st.characters(exclude_categories=["Cs"])
).filter(lambda c: c != "\0")
literals = st.text(_characters, min_size=1, max_size=4).map(Literal)


@st.composite
def classes(draw: st.DrawFn) -> CharClass:
    """Negated only over ASCII: llama.cpp refuses the first byte of a character near an excluded one."""
    ends = draw(st.lists(st.tuples(_characters, _characters), min_size=1, max_size=3))
    ranges = tuple((ord(min(pair)), ord(max(pair))) for pair in ends)
    return CharClass(ranges, draw(st.booleans()) and all(high < 0x80 for _, high in ranges))


_leaves = st.one_of(literals, classes(), st.sampled_from([Reference(name) for name in NAMES]))


def _compound(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    bounds = st.sampled_from([(0, None), (1, None), (0, 1), (2, 2), (1, 3), (2, None)])
    return st.one_of(
        several.map(Sequence),
        several.map(Alternation),
        st.builds(lambda item, pair: Repetition(item, *pair), inner, bounds),
    )


expressions = st.recursive(_leaves, _compound, max_leaves=6)
trees = st.fixed_dictionaries(dict.fromkeys(NAMES, expressions)).map(GrammarTree)

Lengths = dict[str, int]

_POOL = [*map(chr, range(1, 128)), *"éя漢😀 "]


def sample(tree: GrammarTree, seed: int, budget: int = 120) -> str:
    """A random text of the grammar; past `budget` characters it takes the shortest way out."""
    return _Sampler(tree, random.Random(seed), budget).text()


class _Sampler:
    def __init__(self, tree: GrammarTree, rng: random.Random, budget: int) -> None:
        self.tree, self.rng, self.budget = tree, rng, budget
        self.lengths = shortest(tree)
        self.out: list[str] = []
        self.n_steps = 0

    def text(self) -> str:
        todo: list[Expression] = [self.tree.rules["root"]]
        while todo:
            self.n_steps += 1
            todo.extend(reversed(self._unfold(todo.pop())))
        return "".join(self.out)

    @property
    def _must_end(self) -> bool:
        return len(self.out) > self.budget or self.n_steps > 20 * self.budget

    def _unfold(self, expression: Expression) -> list[Expression]:
        match expression:
            case Literal(text):
                self.out.extend(text)
                return []
            case CharClass():
                self.out.append(self._character(expression))
                return []
            case Reference(name):
                return [self.tree.rules[name]]
            case Sequence(items):
                return list(items)
            case Alternation(options):
                return [self._option(options)]
            case Repetition(item, minimum, maximum):
                return [item] * self._times(minimum, maximum)

    def _option(self, options: tuple[Expression, ...]) -> Expression:
        if self._must_end:
            return min(options, key=lambda option: _cost(option, self.lengths))
        return self.rng.choice(options)

    def _times(self, minimum: int, maximum: int | None) -> int:
        if self._must_end:
            return minimum
        spread = self.rng.choice([0, 1, 1, 2, 3])
        return minimum + (spread if maximum is None else min(spread, maximum - minimum))

    def _character(self, part: CharClass) -> str:
        ranges = intersection(union(part.ranges), EVERY)
        ranges = complement(ranges) if part.negated else ranges
        usable = [c for c in self.rng.sample(_POOL, 8) if any(a <= ord(c) <= b for a, b in ranges)]
        if usable:
            return usable[0]
        low, high = self.rng.choice([pair for pair in ranges if pair[1] > 0])
        return chr(self.rng.randint(max(low, 1), min(high, low + 500)))


def _cost(expression: Expression, lengths: Lengths) -> int:
    match expression:
        case Literal(text):
            return len(text)
        case CharClass():
            return 1
        case Reference(name):
            return 1 + lengths.get(name, 10**6)
        case Sequence(items):
            return sum(_cost(item, lengths) for item in items)
        case Alternation(options):
            return min(_cost(option, lengths) for option in options)
        case Repetition(item, minimum):
            return minimum * _cost(item, lengths)


def shortest(tree: GrammarTree) -> Lengths:
    """About how much text each rule takes at least; grows with each rule that is entered."""
    lengths: Lengths = {}
    changed = True
    while changed:
        changed = False
        for name, expression in reversed(tree.rules.items()):
            cost = min(_cost(expression, lengths), 10**6)
            if cost < lengths.get(name, 10**6):
                lengths[name], changed = cost, True
    return lengths
