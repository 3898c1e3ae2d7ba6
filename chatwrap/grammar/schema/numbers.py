"""Numbers as automata over their JSON text: bounds and multiples, exact in every digit.

A bounded number is written without an exponent, an integer without a fraction.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Literal

from chatwrap.grammar.automaton import Automaton, TooManyStatesError, explore
from chatwrap.grammar.regex import compile_pattern

Order = Literal["less", "equal", "greater"]
INTEGER = r"^-?(0|[1-9][0-9]{0,30})$"
DECIMAL = r"^-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?$"
FRACTIONAL = r"^-?(0|[1-9][0-9]{0,30})\.[0-9]{0,30}[1-9]0*$"
MAX_MULTIPLE_STATES = 4000

_State = tuple[str, bool, int, Order]
_Moves = list[tuple[int, "_State | None"]]


def decimal_of(value: float) -> Fraction:
    """The value as it is written: 0.1 is a tenth."""
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


@lru_cache(maxsize=1024)
def bounded(bound: Fraction, *, is_lower: bool, is_strict: bool) -> Automaton | None:
    """The decimal numbers on one side of a bound; None if the bound has no finite decimal text.

    >>> bounded(Fraction(5, 2), is_lower=True, is_strict=False).accepts("2.49")
    False
    """
    text = decimal_text(abs(bound))
    if text is None:
        return None
    beyond: frozenset[Order] = frozenset(["greater"] if is_strict else ["greater", "equal"])
    within: frozenset[Order] = frozenset(["less"] if is_strict else ["less", "equal"])
    every: frozenset[Order] = frozenset(["less", "equal", "greater"])
    none: frozenset[Order] = frozenset()
    zero: frozenset[Order] = none if is_strict else frozenset(["equal"])
    if bound > 0:
        plus, minus = (beyond, none) if is_lower else (within, every)
    elif bound < 0:
        plus, minus = (every, within) if is_lower else (none, beyond)
    else:
        plus, minus = (beyond, zero) if is_lower else (zero, beyond)
    return compile_pattern(DECIMAL) & _compared(text, plus, minus)


def decimal_text(value: Fraction) -> str | None:
    """The digits of a non-negative number, or None if they never end."""
    denominator = value.denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    if denominator != 1 or value.denominator.bit_length() > 200 or value.numerator.bit_length() > 1200:
        return None
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
    digits = str(int(value * 10**places)).rjust(places + 1, "0")
    return f"{digits[: len(digits) - places]}.{digits[len(digits) - places :]}".rstrip(".")


def _compared(bound: str, plus: frozenset[Order], minus: frozenset[Order]) -> Automaton:
    """The decimals whose size compares with `bound` in one of the ways allowed for their sign."""
    whole, _, part = bound.partition(".")

    def order_of_whole(state: _State) -> Order:
        _, _, n_digits, order = state
        return order if n_digits == len(whole) else "less" if n_digits < len(whole) else "greater"

    def moves(state: _State) -> _Moves:
        kind, negative, n_digits, order = state
        row: _Moves = [(0, None)]
        if kind == "start":
            row += [(45, ("sign", True, 0, "equal")), (46, None)]
        if kind == "digits" or kind == "fraction":
            row += [(46, ("fraction", negative, 0, order_of_whole(state))), (47, None)] * (kind == "digits")
        against = part if kind == "fraction" else whole
        for digit in "0123456789":
            following = _next_order(order, against, n_digits, digit, fraction=kind == "fraction")
            name = "fraction" if kind == "fraction" else "digits"
            row.append((ord(digit), (name, negative, min(n_digits + 1, len(against) + 1), following)))
        return [*row, (58, None)]

    def accepts(state: _State) -> bool:
        kind, negative, n_digits, order = state
        if kind == "fraction":
            rest_is_zero = order == "equal" and part[n_digits:].strip("0") != ""
            order = "less" if rest_is_zero else order
        elif kind == "digits":
            order = order_of_whole(state)
            order = "less" if order == "equal" and part.strip("0") else order
        else:
            return False
        return order in (minus if negative else plus)

    return explore(("start", False, 0, "equal"), moves, accepts)


def _next_order(order: Order, against: str, at: int, digit: str, *, fraction: bool) -> Order:
    if order != "equal":
        return order
    other = against[at] if at < len(against) else "0" if fraction else digit
    return "equal" if digit == other else "less" if digit < other else "greater"


@lru_cache(maxsize=256)
def multiples(step: Fraction) -> Automaton | None:
    """The decimal numbers that are multiples of `step`; None if that takes too many states."""
    text = decimal_text(step)
    if text is None:
        return None
    places = len(text.partition(".")[2])
    modulus = int(step * 10**places)
    if modulus * (places + 2) > MAX_MULTIPLE_STATES:
        return None
    # (digits of the fraction read, or -1 before the point; remainder)
    start, sign = (-2, 0), (-3, 0)

    def moves(state: tuple[int, int]) -> list[tuple[int, tuple[int, int] | None]]:
        n_digits, remainder = state
        row: list[tuple[int, tuple[int, int] | None]] = [(0, None)]
        if state == start:
            row += [(45, sign), (46, None)]
        elif n_digits == -1:
            row += [(46, (0, remainder)), (47, None)]
        for digit in range(10):
            row.append((48 + digit, _next_remainder(state, digit)))
        return [*row, (58, None)]

    def _next_remainder(state: tuple[int, int], digit: int) -> tuple[int, int] | None:
        n_digits, remainder = state
        if n_digits < 0:
            return (-1, (remainder * 10 + digit) % modulus)
        if n_digits == places:
            return state if digit == 0 else None
        return (n_digits + 1, (remainder * 10 + digit) % modulus)

    def accepts(state: tuple[int, int]) -> bool:
        n_digits, remainder = state
        return n_digits >= -1 and remainder * 10 ** (places - max(n_digits, 0)) % modulus == 0

    try:
        return compile_pattern(DECIMAL) & explore(start, moves, accepts)
    except TooManyStatesError:
        return None
