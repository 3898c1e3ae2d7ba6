"""Merges the states of automata that accept the same, and cuts off those from which nothing is accepted."""

from __future__ import annotations

from collections.abc import Hashable

DEAD = -1
Row = tuple[tuple[int, int], ...]
NO_MOVES: Row = ((0, DEAD),)
MAX_LOOKS = 60_000
States = tuple[tuple[Row, ...], tuple[bool, ...]]
"""The rows of moves of all states, and which of them accept; the first is where it starts."""


def merged(rows: list[Row], accepting: list[bool]) -> States:
    """These states with dead ends cut off and equal ones merged.

    Strongly connected parts are merged from the last to the first, so a long chain costs linear
    time; within one part by refinement. Equal cycles of several states found in different parts stay
    apart, which costs size, never correctness.
    """
    known_as: dict[Hashable, int] = {}
    number_of: dict[int, int] = {}
    final_rows: list[Row] = []
    final_accepting: list[bool] = []
    for part in _parts(rows):
        for class_states in _classes(part, rows, accepting, number_of):
            signature = _signature(class_states[0], rows, accepting, number_of, set(class_states))
            if signature == (False, NO_MOVES):
                number_of.update(dict.fromkeys(class_states, DEAD))
                continue
            known = known_as.get(signature)
            if known is None:
                known = known_as[signature] = len(final_rows)
                final_rows.append(())
                final_accepting.append(accepting[class_states[0]])
            number_of.update(dict.fromkeys(class_states, known))
        for state in part:
            number = number_of[state]
            if number != DEAD and not final_rows[number]:
                final_rows[number] = _renumbered(rows[state], number_of)
    return _ordered(final_rows, final_accepting, number_of[0])


def _signature(state: int, rows: list[Row], accepting: list[bool], number_of: dict[int, int],
               same: set[int]) -> tuple[bool, Row]:  # fmt: skip
    """What tells a state from others: its moves, to finished states by number, to its own as -2."""
    row: list[tuple[int, int]] = []
    for low, target in rows[state]:
        if target == DEAD:
            number = DEAD
        elif target in same:
            number = -2
        else:
            number = number_of.get(target, -3 - target)
        if not row or row[-1][1] != number:
            row.append((low, number))
    if not accepting[state] and all(number in (DEAD, -2) for _, number in row):
        return (False, NO_MOVES)
    return (accepting[state], tuple(row))


def _renumbered(row: Row, number_of: dict[int, int]) -> Row:
    found: list[tuple[int, int]] = []
    for low, target in row:
        number = DEAD if target == DEAD else number_of[target]
        if not found or found[-1][1] != number:
            found.append((low, number))
    return tuple(found)


def _classes(part: list[int], rows: list[Row], accepting: list[bool],
             number_of: dict[int, int]) -> list[list[int]]:  # fmt: skip
    """The states of one strongly connected part, equal ones together.

    A round of refinement looks at all states and may tell only one apart, as in a pattern's long count.
    Past `MAX_LOOKS` the states stay as they are: that costs size, never correctness.
    """
    if len(part) == 1:
        return [part]
    inside = set(part)
    class_of = dict.fromkeys(part, 0)
    if not any(accepting[s] for s in part) and all(
        target == DEAD or target in inside or number_of[target] == DEAD for s in part for _, target in rows[s]
    ):
        number_of.update(dict.fromkeys(part, DEAD))
        return []
    n_classes = 0
    for _ in range(1 + MAX_LOOKS // len(part)):
        groups: dict[Hashable, list[int]] = {}
        for state in part:
            row = tuple(
                (low, -2 - class_of[t] if t in inside else DEAD if t == DEAD else number_of[t])
                for low, t in rows[state]
            )
            merged = tuple(p for i, p in enumerate(row) if i == 0 or row[i - 1][1] != p[1])
            groups.setdefault((class_of[state], accepting[state], merged), []).append(state)
        class_of = {state: i for i, group in enumerate(groups.values()) for state in group}
        if len(groups) == n_classes:
            return list(groups.values())
        n_classes = len(groups)
    return [[state] for state in part]


def _parts(rows: list[Row]) -> list[list[int]]:
    """The strongly connected parts reachable from state 0, each after those it leads to (Tarjan)."""
    index: dict[int, int] = {0: 0}
    low_link: dict[int, int] = {0: 0}
    path, on_path = [0], {0}
    found: list[list[int]] = []
    work = [(0, iter(rows[0]))]
    while work:
        state, rest = work[-1]
        descended = False
        for _, target in rest:
            if target == DEAD:
                continue
            if target not in index:
                index[target] = low_link[target] = len(index)
                path.append(target)
                on_path.add(target)
                work.append((target, iter(rows[target])))
                descended = True
                break
            if target in on_path:
                low_link[state] = min(low_link[state], index[target])
        if descended:
            continue
        work.pop()
        if work:
            parent = work[-1][0]
            low_link[parent] = min(low_link[parent], low_link[state])
        if low_link[state] == index[state]:
            part = [path.pop()]
            while part[-1] != state:
                part.append(path.pop())
            on_path.difference_update(part)
            found.append(part)
    return found


def _ordered(rows: list[Row], accepting: list[bool], start: int) -> States:
    """The same automaton with its states numbered as they are first reached."""
    if start == DEAD:
        return (NO_MOVES,), (False,)
    numbers = {start: 0}
    order = [start]
    for state in order:
        for _, target in rows[state]:
            if target != DEAD and target not in numbers:
                numbers[target] = len(order)
                order.append(target)
    return (
        tuple(tuple((low, numbers.get(target, DEAD)) for low, target in rows[state]) for state in order),
        tuple(accepting[state] for state in order),
    )


def merged_forward(rows: list[Row], accepting: list[bool]) -> States:
    """As `merged`, for moves that lead to later states or stay: one pass from the last state."""
    known_as: dict[tuple[bool, Row], int] = {}
    number_of = [DEAD] * len(rows)
    final_rows: list[Row] = []
    final_accepting: list[bool] = []
    for state in reversed(range(len(rows))):
        row: list[tuple[int, int]] = []
        for low, target in rows[state]:
            number = target if target == DEAD else -2 if target == state else number_of[target]
            if not row or row[-1][1] != number:
                row.append((low, number))
        if not accepting[state] and all(number < 0 for _, number in row):
            continue
        signature = (accepting[state], tuple(row))
        known = known_as.setdefault(signature, len(final_rows))
        if known == len(final_rows):
            final_rows.append(tuple((low, known if number == -2 else number) for low, number in row))
            final_accepting.append(accepting[state])
        number_of[state] = known
    return _ordered(final_rows, final_accepting, number_of[0])
