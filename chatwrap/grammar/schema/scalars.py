"""Strings, numbers and constants of a conjunction as grammar expressions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

from chatwrap.errors import GrammarError
from chatwrap.grammar.automaton import ANYTHING, Automaton, TooManyStatesError, of_lengths_within, of_words
from chatwrap.grammar.formats import NOT_FOR_STRINGS, format_automaton
from chatwrap.grammar.gbnf import NEVER, Expression, Literal, alternation, sequence
from chatwrap.grammar.regex import compile_pattern
from chatwrap.grammar.rules import RuleBook
from chatwrap.grammar.schema import numbers
from chatwrap.grammar.schema.document import Document, Node
from chatwrap.grammar.schema.equality import identity
from chatwrap.grammar.schema.layout import Layout
from chatwrap.grammar.schema.spelling import json_text

# Longer bounds cost more rules than they are worth; they are left open and reported.
MAX_LENGTH = 10_000
FEW_WORDS = 4
_TEXT_KEYWORDS = frozenset(["pattern", "format", "minLength", "maxLength"])


def length_bounds(
    document: Document, leaves: Sequence[Node], kind: str, limit: int
) -> tuple[int, int | None] | None:
    """The tightest ``min…`` and ``max…`` of one kind (``Length``); None if they exclude each other.

    A maximum past `limit` is left open, a minimum past it can't be written; both are reported.
    """
    low, high = 0, None
    for leaf in leaves:
        keywords = document.keywords(leaf)
        if f"min{kind}" in keywords:
            low = max(low, int(keywords[f"min{kind}"]))
        if f"max{kind}" in keywords:
            maximum = int(keywords[f"max{kind}"])
            high = maximum if high is None else min(high, maximum)
    if high is not None and high < low:
        return None
    for leaf in leaves:
        keywords = document.keywords(leaf)
        if keywords.get(f"max{kind}", 0) > limit:
            document.recorder.relax(leaf.path, f"max{kind}", f"a bound past {limit:,} is left open")
        if keywords.get(f"min{kind}", 0) > limit:
            document.recorder.refuse(leaf.path, f"min{kind}", f"a bound past {limit:,} can't be written")
    return (low if low <= limit else 0), (high if high is None or high <= limit else None)


class Scalars:
    """Writes strings, numbers and constants into a rule book."""

    def __init__(self, document: Document, book: RuleBook, layout: Layout) -> None:
        self.document, self.book, self.layout = document, book, layout

    def string(self, leaves: Sequence[Node]) -> Expression:
        """A string for which all leaves hold."""
        bounds = length_bounds(self.document, leaves, "Length", MAX_LENGTH)
        if bounds is None:
            return NEVER
        automaton, spelling = self._content(leaves), self.layout.spelling
        if automaton is None:
            if bounds == (0, None):
                return spelling.text(self.book, None)
            if (sized := spelling.sized(self.book, *bounds)) is not None:
                return sized
        if bounds != (0, None):
            automaton = self._cut_to_length(automaton or ANYTHING, bounds, leaves)
        return self._text(automaton, leaves)

    def _text(self, automaton: Automaton | None, leaves: Sequence[Node]) -> Expression:
        try:
            return self.layout.spelling.text(self.book, automaton)
        except TooManyStatesError as error:
            for leaf in leaves:
                for keyword in _TEXT_KEYWORDS & self.document.keywords(leaf).keys():
                    self.document.recorder.refuse(leaf.path, keyword, str(error).rstrip("."))
            return self.layout.spelling.text(self.book, None)

    def content(self, leaves: Sequence[Node]) -> Automaton | None:
        """The texts for which all leaves hold; None if they allow every text."""
        automaton = self._content(leaves)
        bounds = length_bounds(self.document, leaves, "Length", MAX_LENGTH)
        if bounds is None:
            return of_words([])
        if bounds == (0, None):
            return automaton
        return self._cut_to_length(automaton or ANYTHING, bounds, leaves)

    def _cut_to_length(
        self, automaton: Automaton, bounds: tuple[int, int | None], leaves: Sequence[Node]
    ) -> Automaton:
        shortest, longest = text_lengths(automaton)
        low, high = bounds
        low = 0 if low <= shortest else low
        high = None if high is not None and longest is not None and longest <= high else high
        if low == 0 and high is None:
            return automaton
        try:
            return of_lengths_within(automaton, low, high)
        except TooManyStatesError:
            for leaf in leaves:
                for keyword in ("minLength", "maxLength"):
                    if keyword in self.document.keywords(leaf):
                        note = "it takes too many states together with the pattern"
                        self.document.recorder.refuse(leaf.path, keyword, note)
            return automaton

    def _content(self, leaves: Sequence[Node]) -> Automaton | None:
        found: Automaton | None = None
        for leaf in leaves:
            for keyword in ("pattern", "format", "!pattern", "!format", "!enum"):
                if keyword not in self.document.keywords(leaf):
                    continue
                part = self._automaton_of(leaf, keyword)
                if part is None:
                    continue
                try:
                    if keyword.startswith("!"):
                        found = (ANYTHING if found is None else found) - part
                    else:
                        found = part if found is None else found & part
                except TooManyStatesError as error:
                    self.document.recorder.refuse(leaf.path, keyword.lstrip("!"), str(error).rstrip("."))
        return found

    def _automaton_of(self, leaf: Node, keyword: str) -> Automaton | None:
        value = self.document.keywords(leaf)[keyword]
        if keyword == "!enum":
            words = [word for word in value if isinstance(word, str)]
            return of_words(words) if words else None
        name = keyword.lstrip("!")
        try:
            automaton = compile_pattern(value) if name == "pattern" else format_automaton(value)
        except (GrammarError, TooManyStatesError) as error:
            self.document.recorder.refuse(leaf.path, name, str(error).rstrip("."))
            return None
        if automaton is None and value not in NOT_FOR_STRINGS:
            self.document.recorder.relax(leaf.path, "format", f"the format {value!r} isn't known here")
        return automaton

    def number(self, leaves: Sequence[Node], *, is_integer: bool) -> Expression:
        """A JSON number for which all leaves hold."""
        parts, minus = self._number_parts(leaves)
        if not parts and not minus:
            return self.book.shared("integer" if is_integer else "number")
        automaton = compile_pattern(numbers.INTEGER if is_integer else numbers.DECIMAL)
        try:
            automaton = reduce(Automaton.__sub__, minus, reduce(Automaton.__and__, parts, automaton))
        except TooManyStatesError:
            self._refuse_multiples(leaves)
        return self.book.name(self.book.plain_text(automaton), "number")

    def _refuse_multiples(self, leaves: Sequence[Node]) -> None:
        for leaf in leaves:
            if self.document.keywords(leaf).keys() & {"multipleOf", "!multipleOf"}:
                self.document.recorder.refuse(leaf.path, "multipleOf", "it takes too many states here")

    def _number_parts(self, leaves: Sequence[Node]) -> tuple[list[Automaton], list[Automaton]]:
        parts: list[Automaton | None] = []
        minus: list[Automaton] = []
        for leaf in leaves:
            keywords = self.document.keywords(leaf)
            parts += self._bounds(leaf)
            if "!integer" in keywords:
                parts.append(compile_pattern(numbers.FRACTIONAL))
            values = [
                v for v in keywords.get("!enum", ()) if isinstance(v, int | float) and not isinstance(v, bool)
            ]
            minus += [self._spellings(value) for value in values]
            for keyword in ("multipleOf", "!multipleOf"):
                if keyword not in keywords:
                    continue
                step = numbers.multiples(numbers.decimal_of(keywords[keyword]))
                if step is None:
                    self.document.recorder.refuse(leaf.path, "multipleOf")
                elif keyword == "multipleOf":
                    parts.append(step)
                else:
                    minus.append(step)
        return [part for part in parts if part is not None], minus

    def _spellings(self, value: float) -> Automaton:
        """All decimal texts of one number."""
        if not math.isfinite(value):
            return of_words([])
        bound = numbers.decimal_of(value)
        low = numbers.bounded(bound, is_lower=True, is_strict=False)
        high = numbers.bounded(bound, is_lower=False, is_strict=False)
        return of_words([]) if low is None or high is None else low & high

    def _bounds(self, leaf: Node) -> list[Automaton | None]:
        keywords = self.document.keywords(leaf)
        found: list[Automaton | None] = []
        for side in ("inimum", "aximum"):
            exclusive = keywords.get(f"exclusive{'M' + side}")
            for keyword, strict in ((f"m{side}", exclusive is True), (f"exclusiveM{side}", True)):
                value = keywords.get(keyword)
                if value is None or isinstance(value, bool):
                    continue
                bound: Fraction = numbers.decimal_of(value)
                found.append(numbers.bounded(bound, is_lower=side == "inimum", is_strict=strict))
                if found[-1] is None:
                    self.document.recorder.refuse(leaf.path, keyword, "the bound has too many digits")
        return found

    def constants(self, values: Iterable[Any]) -> Expression:
        """One of the values; strings share their beginnings and endings."""
        distinct = list({identity(value): value for value in values}.values())
        words = [value for value in distinct if isinstance(value, str)]
        options = [self.constant(value) for value in distinct if not isinstance(value, str)]
        if len(words) > FEW_WORDS:
            options.append(self.layout.spelling.text(self.book, of_words(words)))
        else:
            options += [self.layout.spelling.word(word) for word in words]
        return alternation(option for option in options if option != NEVER)

    def constant(self, value: Any, layout: Layout | None = None) -> Expression:
        """One value, white space in arrays and objects left to the layout."""
        layout = layout or self.layout
        within, spelling = layout.within, layout.spelling
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
            return alternation([Literal(str(int(value))), Literal(json_text(value))])
        if isinstance(value, dict):
            members = [
                sequence(within.spelling.key(str(key)), within.after_colon, self.constant(item, within))
                for key, item in value.items()
            ]
            return self._enclosed("{", members, "}")
        if isinstance(value, list | tuple):
            return self._enclosed("[", [self.constant(item, within) for item in value], "]")
        return spelling.word(value) if isinstance(value, str) else Literal(spelling.literal(value))

    def _enclosed(self, opening: str, parts: list[Expression], closing: str) -> Expression:
        inner: list[Expression] = []
        for part in parts:
            inner += [Literal(","), self.layout.within.after_comma, part] if inner else [part]
        gap = [self.layout.within.inside] if parts else []
        return sequence(Literal(opening), *gap, *inner, *gap, Literal(closing))


def text_lengths(automaton: Automaton) -> tuple[int, int | None]:
    """The shortest and the longest text (None: no bound) of an automaton. Cost linear."""
    order, level, shortest = [0], {0: 0}, None
    for state in order:
        if automaton.accepting[state] and shortest is None:
            shortest = level[state]
        for _, target in automaton.rows[state]:
            if target >= 0 and target not in level:
                level[target] = level[state] + 1
                order.append(target)
    return shortest or 0, _longest(automaton)


def _longest(automaton: Automaton) -> int | None:
    entries = [0] * len(automaton.rows)
    for row in automaton.rows:
        for target in {target for _, target in row if target >= 0}:
            entries[target] += 1
    if entries[0]:
        return None
    longest, ready = [0] * len(automaton.rows), [0]
    n_done = 0
    while ready:
        state = ready.pop()
        n_done += 1
        for target in {target for _, target in automaton.rows[state] if target >= 0}:
            longest[target] = max(longest[target], longest[state] + 1)
            entries[target] -= 1
            if entries[target] == 0:
                ready.append(target)
    return max(longest) if n_done == len(automaton.rows) else None
