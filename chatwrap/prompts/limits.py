"""What one rendering may cost: steps of loops, and characters of any one text.

A template that is wrong, or a stranger's, ends with an error instead of taking the memory or the day.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any, Final

MAX_STEPS: Final = 1_000_000
MAX_CHARACTERS: Final = 10_000_000
MAX_NUMBER_BITS: Final = 10_000


class LimitError(Exception):
    """A rendering would cost more than it may."""


@dataclass(slots=True)
class Budget:
    """The steps that one rendering has left."""

    n_steps: int = MAX_STEPS

    def spend(self, n_steps: int) -> None:
        self.n_steps -= n_steps
        if self.n_steps < 0:
            raise LimitError(f"it takes more than {MAX_STEPS} steps.")


def check_size(n_items: int) -> None:
    """Refuses to make a text or list of `n_items` characters or entries."""
    if n_items > MAX_CHARACTERS:
        raise LimitError(f"a text or list in it would be longer than {MAX_CHARACTERS}.")


def size_of(value: Any) -> int:
    """How many characters or entries a value has; 1 for what has none."""
    return len(value) if isinstance(value, str | list | tuple | dict | set) else 1


def check_operation(operator: str, left: Any, right: Any) -> None:
    """Refuses a product, power or sum that would be too large."""
    numbers = isinstance(left, int) and isinstance(right, int)
    match operator:
        case "*" if numbers:
            _check_bits(left.bit_length() + right.bit_length())
        case "*":
            repeated, times = (left, right) if isinstance(left, Sized) else (right, left)
            if isinstance(repeated, Sized) and isinstance(times, int):
                check_size(len(repeated) * times)
        case "**" if numbers:
            _check_bits(left.bit_length() * max(right, 0))
        case "+" if isinstance(left, Sized) and isinstance(right, Sized):
            check_size(len(left) + len(right))
        case _:
            pass


def _check_bits(n_bits: int) -> None:
    if n_bits > MAX_NUMBER_BITS:
        raise LimitError(f"a number in it would have more than {MAX_NUMBER_BITS} bits.")
