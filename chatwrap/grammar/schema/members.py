"""The members of an object as rules: which may follow which, as far as order and number matter."""

from __future__ import annotations

from dataclasses import dataclass

from chatwrap.grammar.gbnf import EMPTY, NEVER, Expression, Reference, alternation, sequence
from chatwrap.grammar.rules import RuleBook

MAX_ORDERED_STATES = 24

_State = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around the members of an object: before, between and after them."""

    opening: Expression
    between: Expression
    after_last: Expression
    after_none: Expression


class Members:
    """The members of one object as rules, one for each state.

    A state is the number of named keys behind it, the set of optional keys already written (0 where
    their order is fixed), and the number of members written, as far as it matters.
    """

    def __init__(self, book: RuleBook, frame: Frame, members: list[tuple[Expression, bool]],
                 extra: Expression, low: int, high: int | None) -> None:  # fmt: skip
        self.book, self.frame, self.extra, self.low, self.high = book, frame, extra, low, high
        self.cap = max(low, high or 0, 1)
        n_optional = sum(not required for _, required in members)
        n_required = len(members) - n_optional
        self.is_free = 0 < n_optional <= 4 and (n_required + 1) << n_optional <= MAX_ORDERED_STATES
        self.is_free = self.is_free and len(members) > 1 and not low and high is None
        self.members = (
            [self.book.name(m, "member") for m, _ in members] if self.is_free else [m for m, _ in members]
        )
        self.required = [is_required for _, is_required in members]
        self.names: dict[_State, str] = {}
        self.waiting: list[_State] = []

    def written(self) -> Expression:
        """The whole object."""
        start = self._state(0, 0, 0)
        while self.waiting:
            state = self.waiting.pop()
            options = self._free_options(*state) if self.is_free else self._ordered_options(*state)
            self.book.rules[self.names[state]] = alternation(options)
        return sequence(self.frame.opening, start)

    def _state(self, position: int, written: int, n_written: int) -> Expression:
        key = (position, written, min(n_written, self.cap))
        if key not in self.names:
            self.names[key] = self.book.new_name("members")
            self.book.rules[self.names[key]] = NEVER
            self.waiting.append(key)
        return Reference(self.names[key])

    def _gap(self, n_written: int) -> Expression:
        return self.frame.between if n_written else EMPTY

    def _end(self, n_written: int) -> Expression:
        return self.frame.after_last if n_written else self.frame.after_none

    def _ordered_options(self, position: int, written: int, n_written: int) -> list[Expression]:
        """Write the next named key, or pass it over if it is optional; at the end, extra keys."""
        may_add = self.high is None or n_written < self.high
        options: list[Expression] = []
        if position < len(self.members):
            if may_add:
                rest = self._state(position + 1, 0, n_written + 1)
                options.append(sequence(self._gap(n_written), self.members[position], rest))
            if not self.required[position]:
                options.append(self._state(position + 1, 0, n_written))
            return options
        if may_add and self.extra != NEVER:
            options.append(
                sequence(self._gap(n_written), self.extra, self._state(position, 0, n_written + 1))
            )
        if n_written >= self.low:
            options.append(self._end(n_written))
        return options

    def _free_options(self, position: int, written: int, n_written: int) -> list[Expression]:
        """Write the next required key, or any optional one not yet written."""
        options: list[Expression] = []
        required = [index for index, is_required in enumerate(self.required) if is_required]
        optional = [index for index, is_required in enumerate(self.required) if not is_required]
        if position < len(required):
            rest = self._state(position + 1, written, 1)
            options.append(sequence(self._gap(n_written), self.members[required[position]], rest))
        for bit, index in enumerate(optional):
            if not written & (1 << bit):
                rest = self._state(position, written | 1 << bit, 1)
                options.append(sequence(self._gap(n_written), self.members[index], rest))
        if position == len(required):
            if self.extra != NEVER:
                options.append(sequence(self._gap(n_written), self.extra, self._state(position, written, 1)))
            options.append(self._end(n_written))
        return options
