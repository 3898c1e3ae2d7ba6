"""`Property`: a named, described type of values, as JSON Schema, as a pydantic type and back.

Law: ``Property.from_json_schema(p.to_json_schema()) == p`` for every property whose names are titles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Self

from pydantic import JsonValue

from chatwrap.errors import PromptError


class _NoDefault:
    """The mark of a property that has no default, which None would be."""

    def __repr__(self) -> str:
        return "NO_DEFAULT"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()


@dataclass(frozen=True)
class Property:
    """A type of values with a name, a description, and maybe a default and a choice of values.

    `constraints` are further JSON Schema keywords (``minimum``, ``pattern``, ...), kept as they are.
    """

    name: str = ""
    description: str = ""
    default_value: Any = NO_DEFAULT
    enum: tuple[JsonValue, ...] | None = None
    constraints: Mapping[str, JsonValue] = field(default_factory=dict, kw_only=True)

    schema_type: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        if self.enum is not None:
            object.__setattr__(self, "enum", tuple(self.enum))

    @property
    def has_default(self) -> bool:
        return self.default_value is not NO_DEFAULT

    def with_name(self, name: str) -> Self:
        """This property under another name."""
        return replace(self, name=name)

    def to_json_schema(self) -> dict[str, Any]:
        """The JSON Schema; the name is its title."""
        schema: dict[str, Any] = {} if self.schema_type is None else {"type": self.schema_type}
        schema |= self._own_keywords()
        schema |= {"title": self.name} if self.name else {}
        schema |= {"description": self.description} if self.description else {}
        schema |= {"default": self.default_value} if self.has_default else {}
        schema |= {"enum": list(self.enum)} if self.enum is not None else {}
        return {**schema, **self.constraints}

    def _own_keywords(self) -> dict[str, Any]:
        return {}

    @staticmethod
    def from_json_schema(schema: Mapping[str, Any] | bool, name: str = "") -> Property:  # noqa: FBT001
        """The property that a JSON Schema describes; references to its ``$defs`` are followed.

        What no type here can hold (``oneOf``, ``allOf``, ...) is an `AnyProperty` with the keywords
        kept. Raises `PromptError` for what is no schema, and for references that lead nowhere or in
        a circle.
        """
        from chatwrap.prompts.property_schema import read_property

        found = read_property(schema)
        return found.with_name(name) if name else found

    @staticmethod
    def from_pydantic(kind: Any, name: str = "") -> Property:
        """The property for a pydantic model or any type that pydantic knows."""
        from chatwrap.prompts.property_schema import read_type

        found = read_type(kind)
        return found.with_name(name) if name else found

    def to_pydantic(self) -> Any:
        """The type whose values pydantic takes for this property: `str`, a model, ``list[int]``, ..."""
        from chatwrap.prompts.property_types import type_of

        return type_of(self)


@dataclass(frozen=True)
class StringProperty(Property):
    """A text."""

    schema_type = "string"


@dataclass(frozen=True)
class IntegerProperty(Property):
    """A whole number."""

    schema_type = "integer"


@dataclass(frozen=True)
class FloatProperty(Property):
    """A number."""

    schema_type = "number"


@dataclass(frozen=True)
class BooleanProperty(Property):
    """True or false."""

    schema_type = "boolean"


@dataclass(frozen=True)
class NullProperty(Property):
    """Nothing."""

    schema_type = "null"


@dataclass(frozen=True)
class AnyProperty(Property):
    """Any value, as far as the constraints let it."""


@dataclass(frozen=True)
class ListProperty(Property):
    """A list of values of one type."""

    item_type: Property = field(default_factory=AnyProperty)

    schema_type = "array"

    def _own_keywords(self) -> dict[str, Any]:
        items = self.item_type.to_json_schema()
        return {"items": items} if items else {}


@dataclass(frozen=True)
class DictProperty(Property):
    """A mapping of texts to values of one type."""

    value_type: Property = field(default_factory=AnyProperty)
    key_type: Property = field(default_factory=StringProperty)

    schema_type = "object"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.key_type.schema_type != "string":
            problem = f"keys can't be of type {self.key_type.schema_type!r}, which JSON has not."
            raise PromptError.of(f"property {self.name!r}", problem, "Use StringProperty().")

    def _own_keywords(self) -> dict[str, Any]:
        keys = self.key_type.to_json_schema()
        names = {"propertyNames": keys} if keys != {"type": "string"} else {}
        return {"additionalProperties": self.value_type.to_json_schema(), **names}


@dataclass(frozen=True)
class ObjectProperty(Property):
    """An object with named properties.

    `required` are those that must be there: by default all that have no default.
    """

    properties: Mapping[str, Property] = field(default_factory=dict)
    required: Sequence[str] | None = None

    schema_type = "object"

    def __post_init__(self) -> None:
        super().__post_init__()
        required = self.required
        if required is None:
            required = tuple(name for name, value in self.properties.items() if not value.has_default)
        object.__setattr__(self, "properties", dict(self.properties))
        object.__setattr__(self, "required", tuple(required))

    def _own_keywords(self) -> dict[str, Any]:
        properties = {name: value.to_json_schema() for name, value in self.properties.items()}
        required = {"required": list(self.required)} if self.required else {}
        return {"properties": properties, **required}


@dataclass(frozen=True)
class UnionProperty(Property):
    """A value of any of some types."""

    any_of: Sequence[Property] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "any_of", tuple(self.any_of))
        if not self.any_of:
            raise PromptError.of(f"property {self.name!r}", "a union of nothing.", "Give any_of its types.")

    def _own_keywords(self) -> dict[str, Any]:
        return {"anyOf": [value.to_json_schema() for value in self.any_of]}
