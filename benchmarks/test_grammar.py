"""How long it takes to convert a schema, to check a grammar and to follow a text."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from chatwrap.grammar.grammar import Grammar
from chatwrap.grammar.matcher import Matcher
from chatwrap.grammar.reader import read
from chatwrap.grammar.regex import compile_pattern
from chatwrap.grammar.schema.convert import convert


def _object(n_required: int, n_optional: int, **more: Any) -> dict[str, Any]:
    names = [f"property_{n}" for n in range(n_required + n_optional)]
    properties = {name: {"type": "string"} for name in names}
    return {"type": "object", "properties": properties, "required": names[:n_required], **more}


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"n": schema}, "required": ["n"]}
    return schema


SCHEMAS: dict[str, Any] = {
    "tool call": _object(3, 2, additionalProperties=False),
    "open object": _object(5, 5),
    "100 optional": _object(0, 100, additionalProperties=False),
    "1000 optional": _object(0, 1000, additionalProperties=False),
    "1000 required": _object(1000, 0, additionalProperties=False),
    "1000 words": {"enum": [f"value_{n:04}" for n in range(1000)]},
    "100 options": {"anyOf": [_object(2, 1, title=str(n)) for n in range(100)]},
    "depth 100": _nested(100),
    "bounds": {"type": "number", "minimum": -12.5, "maximum": 1000, "multipleOf": 0.25},
    "pattern and length": {"type": "string", "pattern": r"^[a-z]+(-[a-z0-9]+)*$", "maxLength": 64},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_convert(benchmark: BenchmarkFixture, name: str) -> None:
    tree, _ = benchmark(convert, SCHEMAS[name])
    benchmark.extra_info["n_characters"] = len(str(tree))


@pytest.mark.parametrize("pattern", [r"^\w+@\w+\.[a-z]{2,}$", "^[a-z]{1,63}$", "(foo|bar)$"])
def test_compile_pattern(benchmark: BenchmarkFixture, pattern: str) -> None:
    benchmark(compile_pattern.__wrapped__, pattern)


def test_read_gbnf(benchmark: BenchmarkFixture) -> None:
    benchmark(read, Grammar.get("json").gbnf)


def test_follow_a_text(benchmark: BenchmarkFixture) -> None:
    tree, text = Grammar.get("json").tree, '{"a": [1, 2.5, "text", null]}' * 1
    benchmark(lambda: Matcher(tree).feed(text))
