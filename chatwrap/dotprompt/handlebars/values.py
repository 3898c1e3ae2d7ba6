"""Values in a template: what is true, what is equal, what a value's text is. JavaScript's rules."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import Any, Final


class _Undefined:
    """What a variable is that nobody set, as opposed to null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "undefined"


_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 100
UNDEFINED: Final = _Undefined()


class Mark:
    """Something in the output that is no text: a role, a slot. No text can ever become one."""

    __slots__ = ()

    def __len__(self) -> int:
        """No characters."""
        return 0

    def __bool__(self) -> bool:
        return True


def kind_of(value: object) -> str:
    """What an error calls a value that templates can't hold."""
    return f"a Python {type(value).__name__}, not a JSON value"


def shown(value: object) -> str:
    """A value for an error, however deep or long it is."""
    text = _SHORT.repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def text_of(value: Any) -> str:
    """The text that a value has in the output: ``2`` for 2.0, ``a,b`` for a list, nothing for null.

    Raises `TypeError` for what isn't JSON, `ValueError` for an integer of thousands of digits and
    `RecursionError` for a list that is nested too deep.
    """
    match value:
        case str():
            return value
        case None | _Undefined():
            return ""
        case bool():
            return "true" if value else "false"
        case int():
            return int.__repr__(value)
        case float():
            return number_text(value)
        case list() | tuple():
            return ",".join(map(text_of, value))
        case Mapping():
            return "[object Object]"
        case _:
            raise TypeError(kind_of(value))


def number_text(value: float) -> str:
    """A number as JavaScript writes it.

    >>> [number_text(x) for x in (2.0, -0.0, 0.1, 1e16, 1e21, 1.5e-7)]
    ['2', '0', '0.1', '10000000000000000', '1e+21', '1.5e-7']
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value.is_integer() and abs(value) < 1e21:
        return int.__repr__(int(value))
    text = float.__repr__(value)
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return text
    if -7 < (power := int(exponent)) < 0:
        digits = mantissa.lstrip("-").replace(".", "")
        return f"{'-' * text.startswith('-')}0.{'0' * (-power - 1)}{digits}"
    return f"{mantissa}e{'+' * (power > 0)}{power}"


def is_true(value: Any) -> bool:
    """Whether JavaScript takes a value for true: every list and every object is."""
    if isinstance(value, list | tuple | Mapping):
        return True
    return value is not UNDEFINED and bool(value) and value == value  # NaN isn't itself


def is_empty(value: Any) -> bool:
    """Whether ``{{#with}}`` has nothing to enter: all that is false but 0, and the empty list."""
    if isinstance(value, list | tuple):
        return not value
    is_zero = isinstance(value, int | float) and not isinstance(value, bool) and value == 0
    return not is_zero and not is_true(value)


def is_equal(left: Any, right: Any) -> bool:
    """JavaScript's ``===``: 2 is 2.0, but neither is "2" or true; a list is only itself."""
    if left is right:
        return not isinstance(left, float) or left == left
    kinds = (bool, str), (int, float)
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    return any(isinstance(left, kind) and isinstance(right, kind) and left == right for kind in kinds)


def is_same_context(left: Any, right: Any) -> bool:
    """Whether a block stays in its context, so that ``../`` doesn't lead back to it."""
    return left is right or (isinstance(left, str | int | float) and is_equal(left, right))


def member(value: Any, name: str) -> Any:
    """What `value` has under `name`: a mapping's value, a list's or string's item or ``length``.

    Never an attribute. Null and undefined have nothing and stay what they are; raises `TypeError` for
    what isn't JSON.
    """
    match value:
        case Mapping():
            return value.get(name, UNDEFINED)
        case None | _Undefined():
            return value
        case list() | tuple() | str():
            return _item(value, name)
        case bool() | int() | float():
            return UNDEFINED
        case _:
            raise TypeError(kind_of(value))


def _item(value: list[Any] | tuple[Any, ...] | str, name: str) -> Any:
    if name == "length":
        astral = 0 if not isinstance(value, str) else sum(character > "\uffff" for character in value)
        return len(value) + astral
    is_index = name.isascii() and name.isdigit() and (name == "0" or name[0] != "0") and len(name) < 16
    return value[int(name)] if is_index and int(name) < len(value) else UNDEFINED
