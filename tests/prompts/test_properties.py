from __future__ import annotations

import copy
import pickle
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from chatwrap.errors import PromptError
from chatwrap.grammar.schema.validate import value_faults
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

SCALARS: list[type[Property]] = [
    StringProperty,
    IntegerProperty,
    FloatProperty,
    BooleanProperty,
    NullProperty,
    AnyProperty,
]
named = {"name": st.text("abc", max_size=3), "description": st.text(max_size=5)}
scalars = st.one_of(
    *(st.builds(kind, **named) for kind in SCALARS), st.builds(StringProperty, enum=st.just(("a", "b")))
)
properties = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(ListProperty, **named, item_type=inner),
        st.builds(DictProperty, **named, value_type=inner),
        st.builds(
            ObjectProperty, **named, properties=st.dictionaries(st.text("xyz", min_size=1), inner, max_size=3)
        ),
        st.builds(UnionProperty, **named, any_of=st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=6,
)


@given(properties)
def test_properties_survive_being_schemas(found: Property) -> None:
    assert Property.from_json_schema(found.to_json_schema()) == found


@given(properties)
def test_the_pydantic_type_takes_what_the_schema_takes(found: Property) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(found.to_pydantic())
    for value in (None, True, 3, 2.5, "a", [], ["a"], {}, {"x": "a"}):
        if not value_faults(value, found.to_json_schema()):
            adapter.validate_python(value)


class Inner(BaseModel):
    text: str
    count: int | None = None


class Outer(BaseModel):
    kind: Literal["a", "b"]
    inner: Inner
    others: list[Inner] = []
    numbers: dict[str, float]


def test_a_pydantic_model_and_back() -> None:
    found = Property.from_pydantic(Outer)
    assert isinstance(found, ObjectProperty)
    assert (found.name, found.required) == ("Outer", ("kind", "inner", "numbers"))
    assert found.properties["others"] == ListProperty(
        "Others", default_value=[], item_type=found.properties["inner"]
    )
    assert found.properties["numbers"] == DictProperty("Numbers", value_type=FloatProperty())
    model = found.to_pydantic()
    value = model(kind="a", inner={"text": "x"}, numbers={"n": 1})
    assert value.model_dump() == {
        "kind": "a",
        "inner": {"text": "x", "count": None},
        "others": [],
        "numbers": {"n": 1.0},
    }
    with pytest.raises(ValidationError):
        model(kind="c", inner={"text": "x"}, numbers={})


def test_further_keywords_are_kept_and_checked() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1, "exclusiveMaximum": 5},
            "s": {"type": "string", "minLength": 2, "format": "date"},
            "o": {"oneOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]},
            "m": {"type": ["integer", "null"]},
        },
        "additionalProperties": False,
        "$defs": {"x": {"const": 1}},
    }
    found = Property.from_json_schema(schema, "n")
    assert isinstance(found, ObjectProperty) and found.constraints == {"additionalProperties": False}
    assert found.properties["o"] == AnyProperty(constraints={"oneOf": [{"const": 1}, {"type": "null"}]})
    assert found.properties["m"] == UnionProperty(any_of=[IntegerProperty(), NullProperty()])
    for value in ({"n": 0}, {"n": 5}, {"s": "x"}):
        with pytest.raises(ValidationError):
            TypeAdapter(found.to_pydantic()).validate_python(value)
    adapter: TypeAdapter[Any] = TypeAdapter(found.properties["s"].to_pydantic())
    assert adapter.json_schema() == {"type": "string", "minLength": 2, "format": "date"}


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        (
            {"type": "text"},
            "$.type: no type 'text'. Use one of string, integer, number, boolean, null, array, object.",
        ),
        ({"items": 3, "type": "array"}, "$.items: 3 isn't a JSON Schema. Give an object."),
        ({"$ref": "#/$defs/x"}, "$: '#/$defs/x' refers to nothing. Put it into $defs."),
        ({"$ref": "https://x/y"}, "$: 'https://x/y' refers to nothing. Put it into $defs."),
        (
            {"$ref": "#/$defs/x", "$defs": {"x": {"type": "array", "items": {"$ref": "#/$defs/x"}}}},
            "$.items: '#/$defs/x' refers to itself. Give a schema that ends.",
        ),
    ],
)
def test_what_is_no_schema_is_told_with_its_path(schema: Any, error: str) -> None:
    with pytest.raises(PromptError) as caught:
        Property.from_json_schema(schema)
    assert str(caught.value) == error


def test_impossible_properties_are_told() -> None:
    with pytest.raises(PromptError) as caught:
        UnionProperty("u")
    assert str(caught.value) == "property 'u': a union of nothing. Give any_of its types."
    with pytest.raises(PromptError) as caught:
        DictProperty("d", key_type=IntegerProperty())
    assert (
        str(caught.value)
        == "property 'd': keys can't be of type 'integer', which JSON has not. Use StringProperty()."
    )
    with pytest.raises(PromptError, match=r"^property: <object object at "):
        Property.from_pydantic(object())


def test_the_mark_of_no_default_is_one() -> None:
    for made in (copy.copy(NO_DEFAULT), copy.deepcopy(NO_DEFAULT), pickle.loads(pickle.dumps(NO_DEFAULT))):
        assert made is NO_DEFAULT
    assert StringProperty("x", default_value=None).has_default and not StringProperty("x").has_default
