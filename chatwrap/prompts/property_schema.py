"""Reads a `Property` out of a JSON Schema or a type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from chatwrap.errors import PromptError
from chatwrap.prompts.properties import (
    NO_DEFAULT,
    AnyProperty,
    BooleanProperty,
    DictProperty,
    FloatProperty,
    IntegerProperty,
    ListProperty,
    NullProperty,
    ObjectProperty,
    Property,
    StringProperty,
    UnionProperty,
)

_SCALARS: Final[Mapping[str, type[Property]]] = {
    "string": StringProperty,
    "integer": IntegerProperty,
    "number": FloatProperty,
    "boolean": BooleanProperty,
    "null": NullProperty,
}
_ANNOTATIONS: Final = frozenset({"title", "description", "default", "enum", "$defs", "definitions"})


def read_property(schema: Mapping[str, Any] | bool) -> Property:  # noqa: FBT001
    """The property that a JSON Schema describes; see `Property.from_json_schema`."""
    return _Reader(schema).read(schema, "$", ())


def read_type(kind: Any) -> Property:
    """The property of a type. Raises `PromptError` if pydantic doesn't know it."""
    try:
        schema = TypeAdapter(kind).json_schema()
    except PydanticUserError as error:
        raise PromptError.of(
            "property", f"{kind!r:.60}: {error.message}", "Give a type that JSON has."
        ) from None
    return read_property(schema)


@dataclass(frozen=True, slots=True)
class _Reader:
    root: Any

    def read(self, schema: Any, path: str, seen: tuple[str, ...]) -> Property:
        if schema is True:
            return AnyProperty()
        if schema is False:
            return AnyProperty(constraints={"not": {}})
        if not isinstance(schema, Mapping):
            raise PromptError.of(path, f"{schema!r:.60} isn't a JSON Schema.", "Give an object.")
        if "$ref" in schema:
            return self._follow(schema, path, seen)
        found = self._typed(schema, path, seen)
        return replace(
            found,
            name=schema.get("title", ""),
            description=schema.get("description", ""),
            default_value=schema.get("default", NO_DEFAULT),
            enum=tuple(schema["enum"]) if "enum" in schema else None,
        )

    def _follow(self, schema: Mapping[str, Any], path: str, seen: tuple[str, ...]) -> Property:
        reference = schema["$ref"]
        if reference in seen:
            raise PromptError.of(path, f"{reference!r} refers to itself.", "Give a schema that ends.")
        target = self.root
        for step in str(reference).removeprefix("#").split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            target = target.get(step) if isinstance(target, Mapping) else None
        if target is None or not str(reference).startswith("#"):
            raise PromptError.of(path, f"{reference!r} refers to nothing.", "Put it into $defs.")
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        merged = {**target, **beside} if isinstance(target, Mapping) else target
        return self.read(merged, path, (*seen, reference))

    def _typed(self, schema: Mapping[str, Any], path: str, seen: tuple[str, ...]) -> Property:
        kind = schema.get("type")
        if isinstance(kind, list):
            alone = {key: value for key, value in schema.items() if key not in ("type", *_ANNOTATIONS)}
            kinds = [self.read({**alone, "type": each}, path, seen) for each in kind]
            return UnionProperty(any_of=kinds)
        if isinstance(kind, str) and kind in _SCALARS:
            return _SCALARS[kind](constraints=_rest(schema, "type"))
        if kind == "array":
            items = self.read(schema.get("items", True), f"{path}.items", seen)
            return ListProperty(item_type=items, constraints=_rest(schema, "type", "items"))
        if kind == "object":
            return self._object(schema, path, seen)
        if kind is not None:
            known = ", ".join([*_SCALARS, "array", "object"])
            raise PromptError.of(f"{path}.type", f"no type {kind!r}.", f"Use one of {known}.")
        if isinstance(schema.get("anyOf"), list) and schema["anyOf"]:
            kinds = [self.read(each, f"{path}.anyOf[{i}]", seen) for i, each in enumerate(schema["anyOf"])]
            return UnionProperty(any_of=kinds, constraints=_rest(schema, "anyOf"))
        return AnyProperty(constraints=self._inlined(_rest(schema), path, seen))

    def _object(self, schema: Mapping[str, Any], path: str, seen: tuple[str, ...]) -> Property:
        extra = schema.get("additionalProperties")
        if "properties" not in schema and isinstance(extra, Mapping):
            keys = self.read(schema.get("propertyNames", {}), f"{path}.propertyNames", seen)
            return DictProperty(
                value_type=self.read(extra, f"{path}.additionalProperties", seen),
                key_type=StringProperty(**_values(keys)),
                constraints=_rest(schema, "type", "additionalProperties", "propertyNames"),
            )
        properties = schema.get("properties", {})
        if not isinstance(properties, Mapping):
            raise PromptError.of(f"{path}.properties", f"{properties!r:.60} isn't an object.")
        return ObjectProperty(
            properties={
                name: self.read(value, f"{path}.properties.{name}", seen)
                for name, value in properties.items()
            },
            required=schema.get("required", ()),
            constraints=_rest(schema, "type", "properties", "required"),
        )

    def _inlined(self, value: Any, path: str, seen: tuple[str, ...]) -> Any:
        """Keywords that are kept as they are, with what they refer to written out."""
        if isinstance(value, Mapping):
            if "$ref" in value:
                return self._follow(value, path, seen).to_json_schema()
            return {key: self._inlined(each, f"{path}.{key}", seen) for key, each in value.items()}
        if isinstance(value, list):
            return [self._inlined(each, f"{path}[{index}]", seen) for index, each in enumerate(value)]
        return value


def _rest(schema: Mapping[str, Any], *read: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in _ANNOTATIONS and key not in read}


def _values(keys: Property) -> dict[str, Any]:
    return {"enum": keys.enum, "constraints": keys.constraints, "description": keys.description}
