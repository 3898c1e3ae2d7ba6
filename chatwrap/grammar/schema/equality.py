"""When two JSON values are the same one (JSON Schema core 2020-12, section 4.2.2)."""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction
from typing import Any


def identity(value: Any) -> Hashable:
    """A key that is equal for equal JSON values: 1 and 1.0 are the same, True is neither.

    >>> identity([1, {"a": 2.0}]) == identity([1.0, {"a": 2}]), identity(1) == identity(True)
    (True, False)
    """
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return (type(value).__name__, value)
    if isinstance(value, int | float):
        return ("number", Fraction(value) if math.isfinite(value) else str(value))
    if isinstance(value, list | tuple):
        return ("array", tuple(identity(item) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((key, identity(item)) for key, item in value.items()))
    return (type(value).__name__, repr(value))


def type_of(value: Any) -> str:
    """The JSON type of a value; a whole number is still a ``number``."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


def has_type(value: Any, name: str) -> bool:
    if name == "integer":
        return type_of(value) == "number" and (isinstance(value, int) or value.is_integer())
    return name == "any" or type_of(value) == name
