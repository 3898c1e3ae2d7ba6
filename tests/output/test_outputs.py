"""Outputs of models and their right reading, from the case files."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chatwrap.chat.functions import as_functions
from chatwrap.chat.history import ChatModelFunctionCall, ChatModelSegment, ResponsePart
from chatwrap.chat.text import LlamaText, LlamaTextInput, SpecialTokensText
from chatwrap.errors import OutputError
from chatwrap.output.parser import OutputParser
from chatwrap.output.response import response_of
from chatwrap.wrapper.definition import load_chat_wrapper
from tests.output.answers import diagnostics, in_chunks, joined

CASES = [
    case
    for file in sorted((Path(__file__).parent.parent / "cases").glob("outputs*.toml"))
    for case in tomllib.loads(file.read_text(encoding="utf-8"))["cases"]
]
each_case = pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])


def parser_of(case: dict[str, Any], *, strict: bool = False) -> OutputParser:
    functions = as_functions(case["functions"]) if "functions" in case else None
    return OutputParser(
        load_chat_wrapper(case["format"]).settings,
        functions=functions,
        special_tokens=case.get("special_tokens", ()),
        opened=case.get("opened"),
        strict=strict,
    )


def tokens_of(case: dict[str, Any]) -> list[LlamaTextInput]:
    """The output as characters and special tokens."""
    if "output_json" in case:
        deep = "[" * case.get("deep", 0) + "]" * case.get("deep", 0)
        return list(json.loads(case["output_json"]).replace("DEEP", deep))
    text = case["output"].replace("⏎", "\n")
    tokens: list[LlamaTextInput] = []
    for index, piece in enumerate(re.split("⟦(.*?)⟧", text)):
        tokens += [SpecialTokensText(piece)] if index % 2 else piece
    return tokens


def shown(parts: tuple[ResponsePart, ...]) -> Iterator[Any]:
    for part in parts:
        match part:
            case ChatModelFunctionCall():
                yield {"call": part.name, **({"arguments": part.arguments} if part.has_arguments else {})}
            case ChatModelSegment():
                yield {part.segment_type: part.text, **({} if part.ended else {"open": True})}
            case _:
                yield part


@each_case
def test_an_output_is_read_as_it_is_meant(case: dict[str, Any]) -> None:
    readings = []
    tokens = tokens_of(case)
    for size in (1, 2, 3, 7, max(1, len(tokens))):
        parser = parser_of(case)
        events = [event for chunk in in_chunks(tokens, size) for event in parser.feed(chunk)]
        events += parser.flush(stopped_by=case.get("stopped_by", ""))
        assert "".join(event.raw for event in events) == str(LlamaText(tokens))
        readings.append(joined(events))
    assert readings == [readings[0]] * len(readings)
    expected = json.loads(case["response"].replace("DEEP", "[" * 99 + "null" + "]" * 99))
    if case.get("joined"):
        expected = ["".join(expected)]
    assert list(shown(response_of(readings[0]).response)) == expected
    assert [found.kind for found in diagnostics(readings[0])] == case.get("diagnostics", [])


@each_case
def test_a_strict_parser_raises_what_another_tells(case: dict[str, Any]) -> None:
    kinds = case.get("diagnostics", [])
    parser = parser_of(case, strict=True)
    try:
        parser.feed(LlamaText(tokens_of(case)))
        parser.flush(stopped_by=case.get("stopped_by", ""))
    except OutputError as error:
        assert [error.kind] == kinds[:1]
    else:
        assert not kinds
