"""Deterministic automata over Unicode: sets of texts that can be joined, intersected and subtracted.

A state's moves are one sorted row of ``(start, target)``: a code point moves to the target of the
last start that isn't past it, and `DEAD` is nowhere. Rows make a product one merge of two sorted
lists. Our own, because the libraries for it (greenery, interegular) keep a dictionary entry for each
symbol and are too slow for a conversion measured in milliseconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from chatwrap.errors import ChatwrapError
from chatwrap.grammar.charset import EVERY, MAX_CODE_POINT, Ranges
from chatwrap.grammar.merging import DEAD, NO_MOVES, Row, merged, merged_forward

MAX_STATES = 6000
Key = TypeVar("Key", bound=Hashable)


class TooManyStatesError(ChatwrapError, ValueError):
    """An automaton would need more than `MAX_STATES` states."""

    def __init__(self) -> None:
        super().__init__(f"the pattern needs more than {MAX_STATES} states. Make its bounds smaller.")


@dataclass(frozen=True, slots=True)
class Automaton:
    """A minimal automaton; it starts in state 0, and every state can still accept (or none does)."""

    rows: tuple[Row, ...]
    accepting: tuple[bool, ...]

    @property
    def is_empty(self) -> bool:
        """Whether it accepts no text at all."""
        return not any(self.accepting)

    def accepts(self, text: str) -> bool:
        """Whether the whole text is in the set. Cost O(n log r), r the length of a row.

        >>> of_words(["a", "ab"]).accepts("ab"), of_words(["a"]).accepts("ab")
        (True, False)
        """
        state = 0
        for character in text:
            row = self.rows[state]
            state = row[bisect_right(row, (ord(character), MAX_CODE_POINT)) - 1][1]
            if state == DEAD:
                return False
        return self.accepting[state]

    def __and__(self, other: Automaton) -> Automaton:
        return _product(self, other, lambda a, b: a and b, keep_first=False, keep_second=False)

    def __or__(self, other: Automaton) -> Automaton:
        return _product(self, other, lambda a, b: a or b, keep_first=True, keep_second=True)

    def __sub__(self, other: Automaton) -> Automaton:
        return _product(self, other, lambda a, b: a and not b, keep_first=True, keep_second=False)


def row_of(moves: Iterable[tuple[Ranges, int]]) -> Row:
    """The row of moves whose sets don't overlap."""
    pieces = sorted((low, high, target) for ranges, target in moves for low, high in ranges)
    row: list[tuple[int, int]] = []
    position, last = 0, None
    for low, high, target in pieces:
        if low > position and last != DEAD:
            row.append((position, DEAD))
            last = DEAD
        if target != last:
            row.append((low, target))
            last = target
        position = high + 1
    if position <= MAX_CODE_POINT and last != DEAD:
        row.append((position, DEAD))
    return tuple(row)


def moves_of(row: Row) -> dict[int, Ranges]:
    """The set of code points that leads to each target, in order of first code point."""
    found: dict[int, list[tuple[int, int]]] = {}
    ends = [start for start, _ in row[1:]] + [MAX_CODE_POINT + 1]
    for (start, target), end in zip(row, ends, strict=True):
        if target != DEAD:
            found.setdefault(target, []).append((start, end - 1))
    return {target: tuple(ranges) for target, ranges in found.items()}


ANY_ROW: Row = row_of([(EVERY, 0)])
ANYTHING = Automaton((ANY_ROW,), (True,))
NONE_AT_ALL = Automaton((NO_MOVES,), (False,))


def explore(start: Key, moves: Callable[[Key], list[tuple[int, Key | None]]],
            accepts: Callable[[Key], bool]) -> Automaton:  # fmt: skip
    """The minimal automaton of a state space given by functions; None as a target is `DEAD`.

    Raises `TooManyStatesError` past `MAX_STATES` states.
    """
    numbers: dict[Key, int] = {start: 0}
    order = [start]
    rows: list[Row] = []
    while len(rows) < len(order):
        row: list[tuple[int, int]] = []
        for low, key in moves(order[len(rows)]):
            target = DEAD
            if key is not None:
                target = numbers.setdefault(key, len(order))
                if target == len(order):
                    order.append(key)
            if not row or row[-1][1] != target:
                row.append((low, target))
        rows.append(tuple(row))
        if len(order) > MAX_STATES:
            raise TooManyStatesError
    return minimal(rows, [accepts(key) for key in order])


def _product(first: Automaton, second: Automaton, accept: Callable[[bool, bool], bool], *,
             keep_first: bool, keep_second: bool) -> Automaton:  # fmt: skip
    """Both automata side by side. `keep_…`: go on with one of them where the other is dead."""

    def moves(pair: tuple[int, int]) -> list[tuple[int, tuple[int, int] | None]]:
        row = first.rows[pair[0]] if pair[0] != DEAD else NO_MOVES
        other = second.rows[pair[1]] if pair[1] != DEAD else NO_MOVES
        found: list[tuple[int, tuple[int, int] | None]] = []
        i = j = position = 0
        while True:
            target = (row[i][1], other[j][1])
            useful = (target[0] != DEAD or keep_second) and (target[1] != DEAD or keep_first)
            found.append((position, target if useful and target != (DEAD, DEAD) else None))
            next_i = row[i + 1][0] if i + 1 < len(row) else MAX_CODE_POINT + 1
            next_j = other[j + 1][0] if j + 1 < len(other) else MAX_CODE_POINT + 1
            position = min(next_i, next_j)
            if position > MAX_CODE_POINT:
                return found
            i += next_i == position
            j += next_j == position

    def accepts(pair: tuple[int, int]) -> bool:
        return accept(
            pair[0] != DEAD and first.accepting[pair[0]], pair[1] != DEAD and second.accepting[pair[1]]
        )

    return explore((0, 0), moves, accepts)


def of_words(words: Iterable[str]) -> Automaton:
    """Exactly these words, prefixes and endings shared. Cost linear in their characters."""
    trie, ends = _trie(words)
    rows = [
        row_of([(((ord(c), ord(c)),), target) for c, target in moves.items()]) if moves else NO_MOVES
        for moves in trie
    ]
    return _minimal_forward(rows, [state in ends for state in range(len(trie))])


@lru_cache(maxsize=256)
def without_words(words: tuple[str, ...]) -> Automaton:
    """Every text but these words: what `ANYTHING` less `of_words` is, made at once."""
    trie, ends = _trie(words)
    other = len(trie)
    rows = []
    for moves in trie:
        row: list[tuple[int, int]] = [(0, other), (0xD800, DEAD), (0xE000, other)]
        for character, target in moves.items():
            code_point = ord(character)
            row.append((code_point, target))
            if code_point not in (0xD7FF, MAX_CODE_POINT) and chr(code_point + 1) not in moves:
                row.append((code_point + 1, other))
        rows.append(tuple(sorted(dict(row).items())))
    rows.append(((0, other), (0xD800, DEAD), (0xE000, other)))
    return _minimal_forward(rows, [state not in ends for state in range(other + 1)])


def _trie(words: Iterable[str]) -> tuple[list[dict[str, int]], set[int]]:
    """The moves of each state of the words' tree, and the states in which a word ends."""
    trie: list[dict[str, int]] = [{}]
    ends: set[int] = set()
    for word in words:
        state = 0
        for character in word:
            state = trie[state].setdefault(character, len(trie))
            if state == len(trie):
                trie.append({})
        ends.add(state)
    return trie, ends


def of_lengths(minimum: int, maximum: int | None) -> Automaton:
    """Every text of `minimum` to `maximum` code points (inclusive; None: no bound).

    Raises `TooManyStatesError` past `MAX_STATES`.
    """
    n_states = (minimum if maximum is None else maximum) + 1
    if n_states > MAX_STATES:
        raise TooManyStatesError
    rows = [row_of([(EVERY, state + 1)]) for state in range(n_states - 1)]
    rows.append(NO_MOVES if maximum is not None else row_of([(EVERY, n_states - 1)]))
    return Automaton(tuple(rows), tuple(state >= minimum for state in range(n_states)))


def of_lengths_within(automaton: Automaton, minimum: int, maximum: int | None) -> Automaton:
    """The texts of an automaton that have `minimum` to `maximum` code points.

    The same as ``automaton & of_lengths(minimum, maximum)``, and faster: the length grows with every
    move, so states are merged in one pass from the longest texts. Raises `TooManyStatesError`.
    """
    last = minimum if maximum is None else maximum
    levels, n_states = [[0]], 1
    while len(levels) <= last and levels[-1]:
        reached = {target for state in levels[-1] for _, target in automaton.rows[state] if target != DEAD}
        levels.append(sorted(reached))
        n_states += len(reached)
        if n_states > MAX_STATES:
            raise TooManyStatesError
    starts = [sum(map(len, levels[:n])) for n in range(len(levels) + 1)]
    rows: list[Row] = []
    accepting: list[bool] = []
    for length, states in enumerate(levels):
        numbers = dict(zip(levels[length + 1], range(starts[length + 1], n_states), strict=False)) if (
            length + 1 < len(levels)
        ) else {}  # fmt: skip
        if not numbers and maximum is None:
            numbers = {state: n_states + state for state in range(len(automaton.rows))}
        rows += [tuple((low, numbers.get(target, DEAD)) for low, target in automaton.rows[s]) for s in states]
        accepting += [automaton.accepting[state] and length >= minimum for state in states]
    if maximum is None:
        rows += [_shifted(row, n_states) for row in automaton.rows]
        return minimal(rows, [*accepting, *automaton.accepting])
    return _minimal_forward(rows, accepting)


def joined(first: str, second: Automaton) -> Automaton:
    """The texts of `second` with the fixed text `first` before each."""
    offset = len(first)
    rows = [row_of([(((ord(c), ord(c)),), at + 1)]) for at, c in enumerate(first)]
    rows += [_shifted(row, offset) for row in second.rows]
    return Automaton(tuple(rows), (False,) * offset + second.accepting)


def _shifted(row: Row, offset: int) -> Row:
    return tuple((low, target + offset if target != DEAD else DEAD) for low, target in row)


def minimal(rows: list[Row], accepting: list[bool]) -> Automaton:
    """The automaton of these rows with dead ends cut off and equal states merged."""
    return Automaton(*merged(rows, accepting))


def _minimal_forward(rows: list[Row], accepting: list[bool]) -> Automaton:
    return Automaton(*merged_forward(rows, accepting))
