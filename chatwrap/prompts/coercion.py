"""Arguments as a schema wants them: what a model wrote as text becomes the number or list it stands for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

_WORDS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_NULLS: Final = ("null", "none", "nil")


def coerced_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """`arguments` with each value as its parameter wants it; those that the schema doesn't know left out.

    A value that can't be what it should be stays as it is. A schema without properties, or one that
    takes additional ones, keeps all arguments.

    >>> coerced_arguments({"n": "3", "x": 1}, {"properties": {"n": {"type": "integer"}}})
    {'n': 3}
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return dict(arguments)
    keeps_all = schema.get("additionalProperties") not in (None, False)
    return {
        name: coerced(value, properties[name]) if name in properties else value
        for name, value in arguments.items()
        if name in properties or keeps_all
    }


def coerced(value: Any, schema: Any) -> Any:
    """`value` as the schema wants it, if it can be read so; else as it is."""
    if not isinstance(schema, Mapping):
        return value
    for kind in _kinds(schema):
        if _is(value, kind):
            return _inside(value, schema)
    for kind in _kinds(schema):
        converted = _CONVERSIONS.get(kind, _as_it_is)(value)
        if _is(converted, kind):
            return _inside(converted, schema)
    options = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(options, list):
        return value
    for option in options:
        if any(_is(value, kind) for kind in _kinds(option)):
            return coerced(value, option)
    tried = (coerced(value, option) for option in options)
    return next((each for each in tried if type(each) is not type(value)), value)


def _kinds(schema: Any) -> list[str]:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return [kind] if isinstance(kind, str) else list(kind) if isinstance(kind, list) else []


def _is(value: Any, kind: str) -> bool:
    if kind in ("integer", "number") and isinstance(value, bool):
        return False
    return isinstance(value, _TYPES.get(kind, ()))


_TYPES: Final[Mapping[str, Any]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}


def _inside(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [coerced(each, schema["items"]) for each in value]
    if isinstance(value, dict) and isinstance(schema.get("properties"), Mapping):
        properties = schema["properties"]
        return {key: coerced(each, properties.get(key)) for key, each in value.items()}
    return value


def _as_it_is(value: Any) -> Any:
    return value


def _integer(value: Any) -> Any:
    try:
        number = float(value) if isinstance(value, str | float) else value
        return int(number) if isinstance(number, float) and number == int(number) else number
    except (ValueError, OverflowError):
        return value


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _boolean(value: Any) -> Any:
    return _WORDS.get(str(value).strip().lower(), value) if isinstance(value, str | int) else value


def _string(value: Any) -> Any:
    """Numbers and containers as the text that they were likely written as."""
    return value if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _null(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip().lower() in _NULLS else value


def _from_text(value: Any) -> Any:
    """The list or object that a text spells."""
    if not isinstance(value, str) or len(value) > 10_000:
        return value
    import json_repair

    try:
        return json_repair.loads(value)
    except (RecursionError, ValueError):
        return value


_CONVERSIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
    "array": _from_text,
    "object": _from_text,
}
