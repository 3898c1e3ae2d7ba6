"""Regular expressions as automata and as grammars.

A pattern is searched for, as JSON Schema's ``pattern`` is: without anchors it may stand anywhere in
the text. `compile_pattern` makes the minimal automaton of the texts that contain a match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import assert_never

from chatwrap.grammar.automaton import Automaton, explore
from chatwrap.grammar.charset import EVERY, MAX_CODE_POINT, Ranges
from chatwrap.grammar.gbnf import GrammarTree
from chatwrap.grammar.pattern import (
    Anchor,
    Both,
    Either,
    OneOf,
    Pattern,
    PatternError,
    Repeated,
    read_pattern,
)
from chatwrap.grammar.rules import RuleBook

MAX_PLACES = 30_000


@lru_cache(maxsize=2048)
def compile_pattern(source: str) -> Automaton:
    """The texts in which the regular expression finds a match.

    Raises `PatternError` if it can't be read, and `TooManyStatesError` if it is too large.

    >>> compile_pattern("^a|b$").accepts("xb"), compile_pattern("^(a|b)$").accepts("xb")
    (True, False)
    """
    network = _Network()
    entry = network.add_place()
    network.moves[entry].append((EVERY, entry))
    start = network.add_place()
    network.links[entry].append(start)
    end = network.add_pattern(read_pattern(source), start, source)
    return network.automaton(entry, end)


def regex_tree(source: str) -> GrammarTree:
    """The grammar of the texts in which a regular expression finds a match.

    >>> print(regex_tree("^[ab]$"))
    root ::= [a-b]
    """
    book = RuleBook()
    book.rules["root"] = book.plain_text(compile_pattern(source))
    return book.tree()


@dataclass(slots=True)
class _Network:
    """A nondeterministic automaton (Thompson): places, free links, links at an end of the text."""

    moves: list[list[tuple[Ranges, int]]] = field(default_factory=list)
    links: list[list[int]] = field(default_factory=list)
    start_links: list[list[int]] = field(default_factory=list)
    end_links: list[list[int]] = field(default_factory=list)

    def add_place(self) -> int:
        self.moves.append([])
        for table in (self.links, self.start_links, self.end_links):
            table.append([])
        return len(self.moves) - 1

    def add_pattern(self, pattern: Pattern, start: int, source: str) -> int:
        """Adds the pattern behind the place `start`; returns the place behind it."""
        if len(self.moves) > MAX_PLACES:
            raise PatternError.of(f"pattern {source[:80]!r}", "it is too large.", "Make its bounds smaller.")
        end = start
        match pattern:
            case OneOf(ranges):
                end = self.add_place()
                self.moves[start].append((ranges, end))
            case Anchor(at_start):
                end = self.add_place()
                (self.start_links if at_start else self.end_links)[start].append(end)
            case Both(parts):
                for part in parts:
                    end = self.add_pattern(part, end, source)
            case Either(options):
                end = self.add_place()
                for option in options:
                    self.links[self.add_pattern(option, self._linked(start), source)].append(end)
            case Repeated():
                end = self._add_repeated(pattern, start, source)
            case _:
                assert_never(pattern)
        return end

    def _linked(self, start: int) -> int:
        place = self.add_place()
        self.links[start].append(place)
        return place

    def _add_repeated(self, pattern: Repeated, start: int, source: str) -> int:
        for _ in range(pattern.minimum):
            start = self.add_pattern(pattern.part, start, source)
        if pattern.maximum is None:
            loop = self._linked(start)
            self.links[self.add_pattern(pattern.part, loop, source)].append(loop)
            return self._linked(loop)
        end = self.add_place()
        self.links[start].append(end)
        for _ in range(pattern.maximum - pattern.minimum):
            start = self.add_pattern(pattern.part, start, source)
            self.links[start].append(end)
        return end

    def _closure(self, places: Iterable[int], *, at_start: bool = False, at_end: bool = False) -> set[int]:
        seen = set(places)
        todo = list(seen)
        while todo:
            place = todo.pop()
            following = list(self.links[place])
            if at_start:
                following += self.start_links[place]
            if at_end:
                following += self.end_links[place]
            for other in following:
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        return seen

    def _useful(self, end: int) -> set[int]:
        """The places from which a match can still come once text has been taken."""
        backwards: list[list[int]] = [[] for _ in self.moves]
        for place in range(len(self.moves)):
            targets = [target for _, target in self.moves[place]]
            for target in targets + self.links[place] + self.end_links[place]:
                backwards[target].append(place)
        seen, todo = {end}, [end]
        while todo:
            for place in backwards[todo.pop()]:
                if place not in seen:
                    seen.add(place)
                    todo.append(place)
        return seen

    def automaton(self, entry: int, end: int) -> Automaton:
        useful = self._useful(end)
        matched = frozenset([end])
        closures: dict[int, frozenset[int]] = {}

        def closure_of(place: int) -> frozenset[int]:
            if place not in closures:
                found = self._closure([place])
                closures[place] = frozenset(
                    p for p in found if p in useful and (self.moves[p] or self.end_links[p] or p == end)
                )
            return closures[place]

        def moves(state: frozenset[int]) -> list[tuple[int, frozenset[int] | None]]:
            if state == matched:
                return [(0, matched), (0xD800, None), (0xE000, matched)]
            return _swept([m for place in state for m in self.moves[place]], closure_of, end, matched)

        def accepts(state: frozenset[int]) -> bool:
            return end in self._closure(state, at_start=state is first, at_end=True)

        first = frozenset(self._closure([entry], at_start=True))
        if end in first:
            return explore(matched, moves, accepts)
        return explore(first, moves, accepts)


def _swept(moves: list[tuple[Ranges, int]], closure_of: Callable[[int], frozenset[int]], end: int,
           matched: frozenset[int]) -> list[tuple[int, frozenset[int] | None]]:  # fmt: skip
    """The moves of a set of places as one sorted row. After a match nothing else matters.

    The places of a repeated part have one and the same set of characters, which is swept once.
    """
    groups: dict[int, tuple[Ranges, list[int]]] = {}
    for ranges, target in moves:
        groups.setdefault(id(ranges), (ranges, []))[1].append(target)
    events: dict[int, list[int]] = {0: []}
    for group, (ranges, _) in groups.items():
        for low, high in ranges:
            events.setdefault(low, []).append(group)
            events.setdefault(high + 1, []).append(group)
    active: set[int] = set()
    known: dict[frozenset[int], frozenset[int] | None] = {}
    row: list[tuple[int, frozenset[int] | None]] = []
    for position in sorted(events):
        if position > MAX_CODE_POINT:
            break
        for group in events[position]:
            active ^= {group}
        live = frozenset(active)
        if live not in known:
            targets = (target for group in live for target in groups[group][1])
            places = frozenset().union(*map(closure_of, targets))
            known[live] = matched if end in places else places or None
        row.append((position, known[live]))
    return row
