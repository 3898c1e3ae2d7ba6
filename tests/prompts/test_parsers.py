from __future__ import annotations

import asyncio
import json
import pickle
import re
import time
import tomllib
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap.errors import AnswerError, PromptError
from chatwrap.prompts.contents import ImageContent, TextContent
from chatwrap.prompts.json_parser import JsonOutputParser
from chatwrap.prompts.messages import Message
from chatwrap.prompts.parser import OutputParser
from chatwrap.prompts.prompt import Prompt
from chatwrap.prompts.regex_parser import RegexOutputParser, RegexPattern
from chatwrap.prompts.streaming import OutputStream
from tests.chat.strategies import json_values

CASES = tomllib.loads((Path(__file__).parents[1] / "cases/prompt_parsers.toml").read_text("utf-8"))


def read(parser: OutputParser, text: str) -> str:
    return parser.parse_output(Message(text, role="assistant")).content


def pattern_of(case: dict[str, Any]) -> Any:
    options = {key: case[key] for key in ("match",) if key in case}
    flags = re.RegexFlag(0)
    for name in case.get("flags", ()):
        flags |= re.RegexFlag[name]
    return (
        RegexPattern(case["pattern"], flags=flags, **options)
        if options or "flags" in case
        else case["pattern"]
    )


@pytest.mark.parametrize("case", CASES["regex"], ids=lambda case: f"{case['pattern']} {case['text']}")
def test_what_regular_expressions_find(case: dict[str, Any]) -> None:
    assert read(RegexOutputParser(pattern_of(case), case.get("strict", True)), case["text"]) == case["found"]


@pytest.mark.parametrize("case", CASES["json"], ids=lambda case: case["text"])
def test_what_json_is_read(case: dict[str, Any]) -> None:
    assert read(JsonOutputParser(case.get("properties")), case["text"]) == case["found"]


def test_a_text_pattern_matches_over_lines_and_a_regex_pattern_says_so_itself() -> None:
    assert RegexPattern.from_str("a") == RegexPattern("a", flags=re.DOTALL)
    assert RegexPattern.from_str("a", re.IGNORECASE).flags == re.IGNORECASE
    given_pattern = RegexPattern("a")
    assert RegexPattern.from_str(given_pattern) is given_pattern
    assert read(RegexOutputParser(RegexPattern("a(.*)")), "a1\n2") == "1"
    assert read(RegexOutputParser("a(.*)"), "a1\n2") == "1\n2"
    ascii_pattern = RegexPattern(r"(\w+)", flags=re.ASCII | re.IGNORECASE)
    assert read(RegexOutputParser(ascii_pattern), "éa") == "a"


def test_everything_wrong_with_patterns_and_queries_is_told_when_the_parser_is_made() -> None:
    with pytest.raises(PromptError) as caught:
        RegexOutputParser({"a": "(x", "b": 3, "c": RegexPattern("c", match="all")})  # type: ignore[dict-item, arg-type]
    assert str(caught.value) == (
        "regex_pattern.a: '(x' isn't a regular expression: missing ) at position 2. Mend it.\n"
        "regex_pattern.b: of type int, no pattern. Give a text or a RegexPattern.\n"
        "regex_pattern.c.match: no match 'all'. Use 'first' or 'last'."
    )
    with pytest.raises(PromptError) as caught:
        JsonOutputParser({"a": ".x", "b": 3})  # type: ignore[dict-item]
    assert str(caught.value) == "properties.b: of type int, no jq query. Give a text such as '.name'."
    with pytest.raises(PromptError, match=r"^properties\.a: '\.\[' isn't a jq query: .*\. Mend it\.$"):
        JsonOutputParser({"a": ".["})


def test_no_pattern_can_hang_the_program() -> None:
    started = time.monotonic()
    text = "a" * 5000 + "!"
    with pytest.raises(AnswerError) as caught:
        RegexOutputParser(r"(?:a|aa|aaa)+$").parse_output(Message(text))
    assert time.monotonic() - started < 10
    assert str(caught.value) == (
        "answer: a regular expression took longer than 1 s on it. Write one that backtracks less."
    )
    assert caught.value.text == text


def test_a_query_that_fails_on_the_output_is_told() -> None:
    with pytest.raises(AnswerError) as caught:
        JsonOutputParser({"z": ".a | .[0]"}).parse_output(Message('{"a": {"b": 1}}'))
    assert str(caught.value) == (
        "answer: the jq query of 'z' fails on it: Cannot index object with number (0). "
        "Use a query that takes it, such as .name? or .items[]?."
    )


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000])
def test_hostile_json_is_an_error_and_no_crash(text: str) -> None:
    with pytest.raises(AnswerError, match=r"^answer: "):
        read(JsonOutputParser(), text)


def test_images_are_refused_and_the_message_isnt_changed() -> None:
    message = Message(contents=[TextContent("a"), ImageContent("AAAA")])
    for parser in (RegexOutputParser("a"), JsonOutputParser()):
        with pytest.raises(PromptError) as caught:
            parser.parse_output(message)
        assert str(caught.value) == "output: an image can't be parsed. Parse the texts alone."
    message = Message("x1", role="assistant")
    assert RegexOutputParser(r"\d").parse_output(message) == Message("1", role="assistant")
    assert message.content == "x1"


def test_parsers_in_a_list_are_applied_in_turn_and_survive_pickling() -> None:
    parsers = [RegexOutputParser("<a>(.*)</a>"), JsonOutputParser({"n": ".n"})]
    prompt = Prompt([Message("q")], output_parser=pickle.loads(pickle.dumps(parsers)))
    assert prompt.parse_output(Message('<a>{"n": 1,}</a>')).content == '{"n": 1}'
    assert Prompt([Message("q")]).parse_output(Message("x")) == Message("x")


@given(json_values, st.integers(1, 7), st.sampled_from([None, 2]))
def test_streamed_json_only_grows_and_ends_as_if_it_came_at_once(
    value: Any, size: int, indent: int | None
) -> None:
    text = json.dumps(value, indent=indent)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    *partial, last = JsonOutputParser().parse_output_streaming(pieces)
    assert json.loads(last.content) == value
    values = [json.loads(message.content) for message in partial]
    for earlier, later in pairwise([*values, value]):
        assert grows(earlier, later)


def grows(earlier: Any, later: Any) -> bool:
    """Whether a JSON value may become another one as more of it comes."""
    if isinstance(earlier, dict) and isinstance(later, dict):
        return all(key in later and grows(earlier[key], later[key]) for key in earlier)
    if isinstance(earlier, list) and isinstance(later, list):
        return len(earlier) <= len(later) and all(map(grows, earlier, later))
    if isinstance(earlier, str) and isinstance(later, str):
        return later.startswith(earlier)
    return type(earlier) is type(later) and bool(earlier == later)


def test_streams_can_be_iterated_over_or_awaited() -> None:
    async def pieces() -> AsyncIterator[str]:
        for piece in ('{"a": [1, 2', "3], ", '"b": "x', 'y"}'):
            yield piece

    async def both() -> tuple[list[str], str, list[str]]:
        stream = JsonOutputParser().parse_output_streaming
        return (
            [message.content async for message in stream(pieces())],
            (await stream(pieces())).content,
            [message.content async for message in stream(["[1", "]"])],
        )

    streamed, whole, listed = asyncio.run(both())
    assert streamed == [
        '{"a": [1]}',
        '{"a": [1, 23]}',
        '{"a": [1, 23], "b": "x"}',
        '{"a": [1, 23], "b": "xy"}',
        '{"a": [1, 23], "b": "xy"}',
    ]
    assert whole == '{"a": [1, 23], "b": "xy"}'
    assert listed == ["[]", "[1]", "[1]"]
    with pytest.raises(PromptError) as caught:
        list(JsonOutputParser().parse_output_streaming(pieces()))
    assert str(caught.value) == "stream: its pieces come asynchronously. Use async for, or await."


def test_streams_of_queries_and_patterns_show_what_there_is() -> None:
    parser = JsonOutputParser({"a": ".a.b", "n": ".n + 1"})
    contents = [m.content for m in parser.parse_output_streaming(['{"a": {"b"', ': "x', '"}, "n": 1', "}"])]
    assert contents == ['{"n": 1}', '{"a": "x", "n": 1}', '{"a": "x", "n": 2}', '{"a": "x", "n": 2}']
    chain = [RegexOutputParser(r"<f>(.*?)(?:</f>|\Z)", strict=False), JsonOutputParser()]
    stream = OutputStream(
        chain, [Message("no {json} <f>", role="assistant"), Message('{"a'), Message('": 1}</f>')]
    )
    assert [(m.role, m.content) for m in stream] == [
        ("assistant", "{}"),
        ("assistant", '{"a": 1}'),
        ("assistant", '{"a": 1}'),
    ]
    words = RegexOutputParser({"t": "T: (.*?) A:", "a": "A: (.*)"}).parse_output_streaming(
        ["T: x", "y A: z", "z"]
    )
    assert [m.content for m in words] == [
        '{"t": "xy", "a": "z"}',
        '{"t": "xy", "a": "zz"}',
        '{"t": "xy", "a": "zz"}',
    ]
