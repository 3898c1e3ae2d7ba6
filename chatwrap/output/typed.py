"""Argument values that are written without quotes, read by the schema of their parameter."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from chatwrap.output.literals import escaped, literal
from chatwrap.output.source import Alphabet, Reading, Source
from chatwrap.output.values import Dialect, ValueReader

_KINDS: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
_DEEPEST_REFERENCE: Final = 16


def types_of(schema: Any, root: Mapping[str, Any], depth: int = 0) -> frozenset[str] | None:
    """The JSON types that a schema allows, None if it doesn't say.

    >>> sorted(types_of({"anyOf": [{"type": "integer"}, {"const": "all"}]}, {}))
    ['integer', 'string']
    """
    if not isinstance(schema, Mapping) or depth > _DEEPEST_REFERENCE:
        return None
    found = [types for types in _told(schema, root, depth) if types is not None]
    return frozenset.intersection(*found) if found else None


def _told(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Iterator[frozenset[str] | None]:
    kind = schema.get("type")
    if isinstance(kind, str):
        yield frozenset([kind])
    elif isinstance(kind, list):
        yield frozenset(kind)
    if "const" in schema:
        yield frozenset([_KINDS[type(schema["const"])]])
    if isinstance(schema.get("enum"), list):
        yield frozenset(_KINDS[type(value)] for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            options = [types_of(option, root, depth + 1) for option in schema[key]]
            known = [types for types in options if types is not None]
            yield frozenset().union(*known) if known and len(known) == len(options) else None
    for part in schema.get("allOf", ()) if isinstance(schema.get("allOf"), list) else ():
        yield types_of(part, root, depth + 1)
    if isinstance(schema.get("$ref"), str):
        yield types_of(_referred(schema["$ref"], root), root, depth + 1)


def _referred(reference: str, root: Mapping[str, Any]) -> Any:
    value: Any = root
    for step in reference.removeprefix("#/").split("/"):
        value = value.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(value, Mapping) else None
    return value


def allows(types: frozenset[str], value: Any) -> bool:
    """Whether `value` is of one of the JSON types."""
    kind = _KINDS[type(value)]
    return (
        kind in types
        or (kind == "integer" and "number" in types)
        or (kind == "number" and "integer" in types and value == int(value))
    )


def read_value(text: str, types: frozenset[str] | None) -> tuple[str, bool]:
    """The JSON of a value that stands in `text` without quotes if it is a string, and whether it fits.

    What can be read as one of the types but string is; everything else is a string.

    >>> read_value("02134", frozenset(["string"])), read_value(" True ", frozenset(["boolean"]))
    (('"02134"', True), ('true', True))
    """
    as_string = f'"{escaped(text)}"'
    if types == frozenset(["string"]):
        return as_string, True
    written = read_json(text)
    value = json.loads(written) if written is not None else text
    if types is None:
        return (as_string if isinstance(value, str) else written or as_string), True
    if written is not None and allows(types - {"string"}, value):
        return written, True
    return as_string, "string" in types


def read_json(text: str) -> str | None:
    """The JSON of the one value that `text` is, in JSON or as Python writes it, None if it is none."""
    text = text.strip()
    if not text or text[0] not in "{[(\"'":
        return literal(text)
    written: list[str] = []
    source = Source(Alphabet((), ()))
    source.feed(text)
    source.end("")
    complete = _run(ValueReader(source, written.append, _never, _ignore, Dialect(python=True)).read())
    return "".join(written) if complete and not source.ahead[source.at :].strip() else None


def _run(reading: Reading[bool]) -> bool:
    try:
        next(reading)
    except StopIteration as end:
        return bool(end.value)
    raise AssertionError("A source that has ended is waited for.")


def _never() -> Reading[bool]:
    return False
    yield


def _ignore(_: str) -> None:
    pass
