"""Picoschema, Dotprompt's short form of JSON Schema: to JSON Schema and back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from chatwrap.dotprompt.front_matter import Path
from chatwrap.errors import DotpromptError, Fault

SCALARS: Final = ("string", "boolean", "null", "number", "integer", "any")
_MAX_DEPTH: Final = 100

SchemaResolver: TypeAlias = Callable[[str], Mapping[str, Any] | None]
"""Gives the JSON Schema with a name; None if there is none."""
FaultMaker: TypeAlias = Callable[[Path, str, str], Fault]


def _path_fault(path: Path, problem: str, remedy: str) -> Fault:
    return Fault("schema" + "".join(f".{step}" for step in path), problem, remedy)


def from_picoschema(
    schema: Any, resolver: SchemaResolver | None = None, *, fault: FaultMaker = _path_fault
) -> dict[str, Any]:
    """The JSON Schema that `schema` says. What is JSON Schema already stays as it is.

    That is a mapping whose ``type`` is a type's name, or one with ``properties``; so a Picoschema of
    two properties called ``type`` and ``properties`` can't be told from it. A name that is no type is
    looked up with `resolver`. Raises `DotpromptError` with all faults, each with its path.

    >>> from_picoschema({"name": "string, who it is", "tags?(array)": "string"})["properties"]
    {'name': {'type': 'string', 'description': 'who it is'},
     'tags': {'type': ['array', 'null'], 'items': {'type': 'string'}}}
    """
    if isinstance(schema, Mapping):
        if isinstance(kind := schema.get("type"), str) and kind in (*SCALARS, "object", "array"):
            return dict(schema)
        if isinstance(schema.get("properties"), Mapping):
            return {**schema, "type": "object"}
    reader = _Reader(resolver or (lambda name: None), fault)
    converted = reader.schema(schema, ())
    if reader.faults:
        raise DotpromptError(reader.faults)
    return converted


@dataclass(slots=True)
class _Reader:
    """Reads Picoschema and collects its faults."""

    resolver: SchemaResolver
    fault: FaultMaker
    faults: list[Fault] = field(default_factory=list)

    def wrong(self, path: Path, problem: str, remedy: str) -> dict[str, Any]:
        self.faults.append(self.fault(path, problem, remedy))
        return {}

    def schema(self, value: Any, path: Path) -> dict[str, Any]:
        if len(path) > _MAX_DEPTH:
            return self.wrong(path, f"nested deeper than {_MAX_DEPTH} levels.", "Flatten it.")
        match value:
            case str():
                return self.named(value, path)
            case None:
                return {"type": "null"}
            case Mapping():
                return self.object(value, path)
            case _:
                kind = "a list" if isinstance(value, list | tuple) else f"the value {value!r}"
                return self.wrong(path, f"{kind}, not a type.", "Give a type's name or properties.")

    def named(self, text: str, path: Path) -> dict[str, Any]:
        """A type by name, described by what stands behind the first comma."""
        name, _, description = text.partition(",")
        name, described = name.strip(), {"description": description.lstrip()} if description.strip() else {}
        if name in SCALARS:
            return described if name == "any" else {"type": name, **described}
        found = self.resolver(name) if name else None
        if found is None:
            remedy = f"Use {', '.join(SCALARS)}, or register a schema under this name."
            return self.wrong(path, f"no type or schema named {name!r}.", remedy)
        return {**copy.deepcopy(dict(found)), **described}

    def object(self, value: Mapping[Any, Any], path: Path) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        required: list[str] = []
        additional: Any = False
        for key, member in value.items():
            here = (*path, key)
            if key == "(*)":
                additional = self.schema(member, here)
                continue
            name, _, parentheses = str(key).partition("(")
            is_optional = name.strip().endswith("?")
            name = name.strip().removesuffix("?")
            if not name or name in properties:
                problem = f"a second property {name!r}." if name else "a property without a name."
                self.wrong(here, problem, "Rename it.")
            properties[name] = self.property(member, here, parentheses, is_optional=is_optional)
            required += [] if is_optional else [name]
        schema = {"type": "object", "properties": properties, "additionalProperties": additional}
        return {**schema, "required": required} if required else schema

    def property(self, value: Any, path: Path, parentheses: str, *, is_optional: bool) -> dict[str, Any]:
        if not parentheses:
            return self.nullable(self.schema(value, path), is_optional=is_optional)
        if not parentheses.rstrip().endswith(")"):
            return self.wrong(path, "a parenthesis that isn't closed.", "Close it with ).")
        kind, _, description = parentheses.rstrip()[:-1].partition(",")
        described = {"description": description.strip()} if description.strip() else {}
        match kind.strip():
            case "array":
                made = {"type": "array", "items": self.schema(value, path)}
            case "object" if isinstance(value, Mapping):
                made = self.object(value, path)
            case "enum" if isinstance(value, list | tuple):
                missing = [None] if is_optional and None not in value else []
                return {"enum": [*value, *missing], **described}
            case "object" | "enum" as name:
                wanted = "properties" if name == "object" else "a list of values"
                return self.wrong(path, f"{name} of {value!r}.", f"Give it {wanted}.")
            case other:
                return self.wrong(path, f"the type ({other}).", "Use array, object or enum in parentheses.")
        return self.nullable({**made, **described}, is_optional=is_optional)

    def nullable(self, schema: dict[str, Any], *, is_optional: bool) -> dict[str, Any]:
        if is_optional and isinstance(schema.get("type"), str) and schema["type"] != "null":
            return {**schema, "type": [schema["type"], "null"]}
        if is_optional and "type" not in schema and isinstance(schema.get("enum"), list):
            return {**schema, "enum": [*schema["enum"], *([] if None in schema["enum"] else [None])]}
        return schema


def to_picoschema(schema: Mapping[str, Any]) -> Any:
    """The Picoschema that says a JSON Schema, or that schema itself where Picoschema can't say it.

    Law: ``from_picoschema(to_picoschema(schema)) == schema``. Raises `DotpromptError` if neither works,
    since a schema without ``type`` would be read as Picoschema.

    >>> to_picoschema({"type": "object", "properties": {"n": {"type": ["integer", "null"]}},
    ...                "additionalProperties": False})
    {'n?': 'integer'}
    """
    try:
        written = _written(schema)
        if from_picoschema(written) == schema:
            return written
    except (DotpromptError, _UnwritableError, RecursionError):
        pass  # said below, or not at all
    if isinstance(schema, Mapping) and _is_kept(schema):
        return dict(schema)
    raise DotpromptError.of("schema", f"{dict(schema)!r} can't be written.", "Give it a type.")


def _is_kept(schema: Mapping[str, Any]) -> bool:
    try:
        return from_picoschema(schema) == schema
    except DotpromptError:
        return False


class _UnwritableError(Exception):
    """Picoschema has no words for a schema."""


def _written(schema: Any) -> Any:
    """A type's name, or the properties of an object."""
    if not isinstance(schema, Mapping):
        raise _UnwritableError
    if "properties" not in schema:
        kind, description = schema.get("type", "any"), schema.get("description", "")
        if not isinstance(kind, str) or kind not in SCALARS:
            raise _UnwritableError
        return f"{kind}, {description}" if description else kind
    required, members = schema.get("required", ()), {}
    for name, member in schema["properties"].items():
        suffix, value = _written_property(member)
        members[f"{name}{'' if name in required else '?'}{suffix}"] = value
    if schema.get("additionalProperties") is not False:
        members["(*)"] = _written(schema.get("additionalProperties"))
    return members


def _written_property(schema: Any) -> tuple[str, Any]:
    """What stands in parentheses behind a property's name, and its value."""
    if not isinstance(schema, Mapping):
        raise _UnwritableError
    kind = schema.get("type")
    if isinstance(kind, list) and len(kind) == 2 and kind[1] == "null":
        kind = kind[0]
    rest = {**schema, "type": kind} if kind is not None else dict(schema)
    described = f", {schema['description']}" if schema.get("description") else ""
    if "enum" in schema:
        return f"(enum{described})", schema["enum"]
    if kind == "array":
        return f"(array{described})", _written(schema.get("items", {}))
    if kind == "object":
        return f"(object{described})" if described else "", _written(rest)
    return "", _written(rest)
