"""Picoschema to JSON Schema and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap.dotprompt.picoschema import SCALARS, from_picoschema, to_picoschema
from chatwrap.errors import DotpromptError

NAMED = {
    "Point": {"type": "object", "properties": {"x": {"type": "number"}}},
    "Id": {"type": "string", "description": "old"},
}


def closed(properties: dict[str, Any], *required: str, additional: Any = False) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": additional}
    return {**schema, "required": list(required)} if required else schema


CASES: list[tuple[Any, dict[str, Any]]] = [
    ("string", {"type": "string"}),
    ("number, how many", {"type": "number", "description": "how many"}),
    ("integer,a, b,  c", {"type": "integer", "description": "a, b,  c"}),
    ("boolean ,   why", {"type": "boolean", "description": "why"}),
    ("null", {"type": "null"}),
    ("any", {}),
    ("any, whatever", {"description": "whatever"}),
    ("Point", NAMED["Point"]),
    ("Id, new", {"type": "string", "description": "new"}),
    ({"type": "string"}, {"type": "string"}),
    ({"type": "object", "properties": {}, "x": 1}, {"type": "object", "properties": {}, "x": 1}),
    ({"properties": {"a": {"type": "string"}}}, {"type": "object", "properties": {"a": {"type": "string"}}}),
    (
        {"a": "string", "b?": "integer, n"},
        closed({"a": {"type": "string"}, "b": {"type": ["integer", "null"], "description": "n"}}, "a"),
    ),
    ({"b": "any", "a?": "any, x"}, closed({"b": {}, "a": {"description": "x"}}, "b")),
    ({"a": None}, closed({"a": {"type": "null"}}, "a")),
    ({"a(array)": "string"}, closed({"a": {"type": "array", "items": {"type": "string"}}}, "a")),
    (
        {"a?(array, some (of) them)": {"b": "string"}},
        closed(
            {
                "a": {
                    "type": ["array", "null"],
                    "items": closed({"b": {"type": "string"}}, "b"),
                    "description": "some (of) them",
                }
            }
        ),
    ),
    (
        {"o(object, it)": {"x": "string"}},
        closed({"o": {**closed({"x": {"type": "string"}}, "x"), "description": "it"}}, "o"),
    ),
    (
        {"o?": {"x": "string"}},
        closed({"o": {**closed({"x": {"type": "string"}}, "x"), "type": ["object", "null"]}}),
    ),
    (
        {"o?(object)": {"x?": "string"}},
        closed({"o": {**closed({"x": {"type": ["string", "null"]}}), "type": ["object", "null"]}}),
    ),
    (
        {"e(enum, one)": ["YES", "no", 1]},
        closed({"e": {"enum": ["YES", "no", 1], "description": "one"}}, "e"),
    ),
    ({"e?(enum)": ["A"]}, closed({"e": {"enum": ["A", None]}})),
    ({"e?(enum)": ["A", None]}, closed({"e": {"enum": ["A", None]}})),
    ({"(*)": "string, any"}, closed({}, additional={"type": "string", "description": "any"})),
    ({"a": "string", "(*)": "any"}, closed({"a": {"type": "string"}}, "a", additional={})),
    (
        {"p": "Point", "q?": "Id, the id"},
        closed({"p": NAMED["Point"], "q": {"type": ["string", "null"], "description": "the id"}}, "p"),
    ),
    (
        {"type": "Point", "name": "string"},
        closed({"type": NAMED["Point"], "name": {"type": "string"}}, "type", "name"),
    ),
]


@pytest.mark.parametrize(("picoschema", "schema"), CASES, ids=lambda value: str(value)[:40])
def test_json_schema_of_picoschema(picoschema: Any, schema: dict[str, Any]) -> None:
    before = repr(picoschema)
    assert from_picoschema(picoschema, NAMED.get) == schema
    assert repr(picoschema) == before
    assert NAMED["Id"]["description"] == "old"


FAULTS: list[tuple[Any, str]] = [
    (
        "strin",
        "schema: no type or schema named 'strin'. Use string, boolean, null, number, integer, any, "
        "or register a schema under this name.",
    ),
    ([1], "schema: a list, not a type. Give a type's name or properties."),
    ({"a": {"b": 3}}, "schema.a.b: the value 3, not a type. Give a type's name or properties."),
    ({"a": ["x"]}, "schema.a: a list, not a type. Give a type's name or properties."),
    ({"a(set)": "string"}, "schema.a(set): the type (set). Use array, object or enum in parentheses."),
    ({"a(array": "string"}, "schema.a(array: a parenthesis that isn't closed. Close it with )."),
    ({"a(enum)": "x"}, "schema.a(enum): enum of 'x'. Give it a list of values."),
    ({"a(object)": "x"}, "schema.a(object): object of 'x'. Give it properties."),
    ({"a": "string", "a?": "string"}, "schema.a?: a second property 'a'. Rename it."),
    ({"?": "string"}, "schema.?: a property without a name. Rename it."),
    (
        {"a": "x", "b(array)": {"c": True}},
        "schema.a: no type or schema named 'x'. Use string, boolean, null, number, integer, any, "
        "or register a schema under this name.\nschema.b(array).c: the value True, not a type. "
        "Give a type's name or properties.",
    ),
]


@pytest.mark.parametrize(("picoschema", "message"), FAULTS, ids=lambda value: str(value)[:40])
def test_what_is_no_picoschema(picoschema: Any, message: str) -> None:
    with pytest.raises(DotpromptError) as caught:
        from_picoschema(picoschema)
    assert str(caught.value) == message


names = st.text(alphabet="abcxyz_", min_size=1, max_size=4)
descriptions = st.sampled_from(["", ", what it is", ", a, b (c)"])
scalars = st.builds(lambda kind, described: kind + described, st.sampled_from(SCALARS), descriptions)


def objects(members: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    plain = st.dictionaries(names, members, max_size=3)
    lists = st.dictionaries(names.map(lambda name: f"l{name}?(array, some)"), members, max_size=2)
    return st.builds(lambda a, b: {**a, **b}, plain, lists).filter(lambda value: "type" not in value)


@given(st.recursive(scalars, objects, max_leaves=8))
def test_to_picoschema_is_the_inverse(picoschema: Any) -> None:
    schema = from_picoschema(picoschema)
    if "type" in schema or schema.keys() <= {"description"}:
        assert from_picoschema(to_picoschema(schema)) == schema


@pytest.mark.parametrize(
    ("schema", "picoschema"),
    [
        ({"type": "string", "description": "who"}, "string, who"),
        (
            closed({"a": {"type": "string"}, "b": {"type": ["integer", "null"]}}, "a"),
            {"a": "string", "b?": "integer"},
        ),
        (closed({"e": {"enum": ["A"]}}, "e"), {"e(enum)": ["A"]}),
        (closed({}, additional={}), {"(*)": "any"}),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}},
            {"type": "object", "properties": {"a": {"type": "string"}}},
        ),
        ({"type": "string", "minLength": 3}, {"type": "string", "minLength": 3}),
    ],
)
def test_picoschema_of_json_schema(schema: dict[str, Any], picoschema: Any) -> None:
    assert to_picoschema(schema) == picoschema


def test_what_neither_can_say() -> None:
    with pytest.raises(DotpromptError) as caught:
        to_picoschema({"anyOf": [{"type": "string"}]})
    assert str(caught.value) == "schema: {'anyOf': [{'type': 'string'}]} can't be written. Give it a type."
