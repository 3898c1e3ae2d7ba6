from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from chatwrap.chat.functions import as_functions
from chatwrap.wrapper.document import typescript_signatures, typescript_type
from tests.chat.strategies import json_values

TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
            "required": ["value"],
        }
    },
    "$ref": "#/$defs/node",
}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, "any"),
        (True, "any"),
        (None, "any"),
        ({"type": "string"}, "string"),
        ({"type": "integer"}, "number"),
        ({"type": "number"}, "number"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "null"}, "null"),
        ({"type": "thing"}, "any"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": []}, "any"),
        ({"type": {"a": 1}}, "any"),
        ({"const": {"a": 1}}, '{"a": 1}'),
        ({"const": None}, "null"),
        ({"enum": ["a", 'b"', 1, None]}, '"a" | "b\\"" | 1 | null'),
        ({"enum": []}, "any"),
        ({"type": "array"}, "any[]"),
        ({"type": "array", "items": {"type": "string"}}, "string[]"),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "(string | null)[]"),
        ({"type": "array", "items": {"enum": ["a b"]}}, '("a b")[]'),
        ({"type": "array", "prefixItems": [{"type": "string"}, {}], "items": False}, "[string, any]"),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, "[string, ...any[]]"),
        ({"type": "object"}, "{}"),
        ({"type": "object", "additionalProperties": True}, "{[key: string]: any}"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "{[key: string]: string}"),
        ({"properties": {"a": {}, "b": {}}, "required": ["b"]}, "{a?: any, b: any}"),
        (
            {"properties": {"b c": {}, "ключ": {}, 'q"': {}, "1a": {}, "": {}}},
            '{"b c"?: any, "ключ"?: any, "q\\""?: any, "1a"?: any, ""?: any}',
        ),
        ({"properties": []}, "{}"),
        ({"properties": {"a": 3}, "required": 3}, "{a?: any}"),
        ({"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "string"}]}, "string | number"),
        ({"oneOf": [{"type": "string"}, {}]}, "string | any"),
        ({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}, "{a?: any} & {b?: any}"),
        (
            {"allOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string"}]},
            "(string | null) & string",
        ),
        (
            {
                "allOf": [
                    {"anyOf": [{"properties": {}}, {"type": "null"}]},
                    {"properties": {"a": {"enum": [1, 2]}}},
                ]
            },
            "({} | null) & {a?: 1 | 2}",
        ),
        ({"$ref": "#/nowhere"}, "any"),
        ({"$ref": "http://example.org/schema"}, "any"),
        ({"$ref": 3}, "any"),
        ({"$defs": {"a/b~c": {"type": "string"}}, "$ref": "#/$defs/a~1b~0c"}, "string"),
        ({"$defs": {"a b": {"type": "string"}}, "$ref": "#/$defs/a%20b"}, "string"),
        (
            {"$defs": {"a": {"type": "string"}}, "anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]},
            "null | string",
        ),
        ({"anyOf": [{"type": "string"}, {"type": "null"}][:1]}, "string"),
        ({"prefixItems": [{"type": "string"}], "anyOf": [{"type": "null"}], "items": {"$ref": "#"}}, "null"),
        ({"definitions": {"x": [{"type": "string"}]}, "$ref": "#/definitions/x/0"}, "string"),
    ],
)
def test_types(schema: Any, text: str) -> None:
    assert typescript_type(schema) == text


def test_recursion_ends() -> None:
    assert typescript_type(TREE) == "{value: number, next?: {value: number, next?: any}}"
    assert typescript_type({"$ref": "#"}) == "any"
    assert typescript_type({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}) == "any"


def test_a_schema_that_doubles_at_every_reference_stays_small() -> None:
    definitions = {
        f"d{n}": {"properties": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in "abcdef"}} for n in range(20)
    }
    assert len(typescript_type({"$defs": definitions, "$ref": "#/$defs/d0"})) < 10_000


@settings(max_examples=200)
@given(json_values)
def test_any_json_is_some_type(schema: Any) -> None:
    assert typescript_type(schema)
    assert typescript_type({"type": "object", "properties": {"a": schema}})


def test_descriptions_and_bounds_are_comments() -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where.\nIn English.", "minLength": 1, "pattern": "^a"},
            "days": {"type": "integer", "minimum": 1, "maximum": 3, "default": None},
            "x": {},
        },
        "required": ["city"],
    }
    assert typescript_signatures(
        as_functions({"weather": {"description": "Now.\n\nOr later.", "params": schema}})
    ) == (
        "// Now.\n"
        "//\n"
        "// Or later.\n"
        "function weather(params: {\n"
        "    // Where.\n"
        "    // In English.\n"
        "    // minimum length: 1, pattern: ^a\n"
        "    city: string,\n"
        "\n"
        "    // minimum: 1, maximum: 3, default: null\n"
        "    days?: number,\n"
        "    x?: any\n"
        "});"
    )


@pytest.mark.parametrize("line_end", ["\n", "\r", "\r\n", "\v", "\f", "\x85", "\u2028", "\u2029"])
def test_a_hostile_text_stays_in_its_comment(line_end: str) -> None:
    hostile = f"a */ b{line_end}function evil();"
    schema = {"properties": {"a": {"description": hostile, "pattern": hostile, "default": hostile}}}
    text = typescript_signatures(as_functions({"f": {"description": hostile, "params": schema}}))
    lines = text.splitlines()
    assert [line for line in lines if "evil" in line and not line.strip().startswith("//")] == []


def test_many_functions_in_their_order() -> None:
    functions = as_functions(
        {"b": {}, "a": {"params": {}}, "c": {"params": {"type": "object"}, "description": "  "}}
    )
    assert typescript_signatures(functions) == (
        "function b();\n\nfunction a(params: any);\n\nfunction c(params: {});"
    )
    assert typescript_signatures(functions, document_params=False) == (
        "function b();\n\nfunction a(params);\n\nfunction c(params);"
    )
    assert typescript_signatures({}) == ""
