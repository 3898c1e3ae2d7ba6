from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap.chat.model import NamedFunction
from chatwrap.errors import OptionError
from chatwrap.grammar.grammar import Grammar
from chatwrap.prompts.answer_grammar import AnswerRules
from chatwrap.prompts.coercion import coerced
from chatwrap.prompts.contents import ToolRequest
from chatwrap.prompts.messages import Message
from chatwrap.prompts.tool_parser import ToolOutputParser
from chatwrap.prompts.tool_readers import JsonToolOutputParser, PythonToolOutputParser, ReactToolOutputParser
from chatwrap.prompts.tools import Tool

CASES: Final[dict[str, list[dict[str, Any]]]] = tomllib.loads(
    (Path(__file__).parents[1] / "cases/prompt_tools.toml").read_text("utf-8")
)
PARSERS: Final[dict[str, type[ToolOutputParser]]] = {
    "json": JsonToolOutputParser,
    "python": PythonToolOutputParser,
    "react": ReactToolOutputParser,
}
ADD = Tool(
    "add",
    "Adds.",
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "number"}}},
        "required": ["a"],
    },
)


def without_null(value: Any) -> Any:
    """TOML has no null: the text NULL stands for it."""
    if isinstance(value, dict):
        return {key: without_null(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_null(each) for each in value]
    return None if value == "NULL" else value


@pytest.mark.parametrize(
    ("kind", "case"),
    [(kind, case) for kind, cases in CASES.items() for case in cases],
    ids=lambda value: value["text"] if isinstance(value, dict) else value,
)
def test_what_requests_are_read(kind: str, case: dict[str, Any]) -> None:
    raw = Message(case["text"], role="assistant")
    message = PARSERS[kind]().parse_output(raw)
    found = [[request.name, request.args] for request in message.tool_requests or ()]
    assert found == without_null(case.get("requests", []))
    assert (message.content, message.thought) == (case.get("content", ""), case.get("thought", ""))
    assert message.role == "assistant"
    if not found and "thought" not in case:
        assert message == raw


@pytest.mark.parametrize(
    ("kind", "case"),
    [(kind, case) for kind, cases in CASES.items() for case in cases],
    ids=lambda value: value["text"] if isinstance(value, dict) else value,
)
@pytest.mark.parametrize("size", [1, 6])
def test_streams_end_as_if_the_output_came_at_once(kind: str, case: dict[str, Any], size: int) -> None:
    text, parser = case["text"], PARSERS[kind]()
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    *partial, last = parser.parse_output_streaming(pieces)
    whole = parser.parse_output(Message(text, role="assistant"))
    assert (last.content, args_of(last)) == (whole.content, args_of(whole))
    for message in partial:
        assert args_of(last)[: len(args_of(message))] == args_of(message)


def args_of(message: Message) -> list[tuple[str, Any]]:
    return [(request.name, request.args) for request in message.tool_requests or ()]


def test_thoughts_and_requests_come_as_they_are_certain() -> None:
    text = '## Thought: I need it now\n## Action:\n```json\n{"name":"f","parameters":{"a":1}}\n```'
    stream = ReactToolOutputParser().parse_output_streaming(text[i : i + 9] for i in range(0, len(text), 9))
    assert [(message.content, args_of(message)) for message in stream] == [
        ("I need", []),
        ("I need it now", []),
        ("I need it now", [("f", {"a": 1})]),
        ("I need it now", [("f", {"a": 1})]),
    ]


def test_what_may_begin_a_request_is_no_thought_yet() -> None:
    text = 'Hm [{"name":"f","parameters":{"a":1}}]'
    stream = JsonToolOutputParser().parse_output_streaming(list(text))
    assert {message.content for message in stream} == {"H", "Hm"}


def test_known_tools_shape_the_arguments_and_unknown_ones_are_kept() -> None:
    parser = JsonToolOutputParser([ADD])
    text = (
        '[{"name": "add", "parameters": {"a": "3", "b": "[1, \\"2\\"]", "z": 1}}, '
        '{"name": "no", "parameters": {"z": 1}}]'
    )
    message = parser.parse_output(Message(text))
    assert args_of(message) == [("add", {"a": 3, "b": [1, 2.0]}), ("no", {"z": 1})]
    assert args_of(PythonToolOutputParser([ADD]).parse_output(Message("add('3', [1])"))) == [
        ("add", {"a": 3, "b": [1]})
    ]
    ready = Message(tool_requests=[ToolRequest("f")])
    assert parser.parse_output(ready) is ready
    assert parser.with_tools(None).known_tools == [] and parser.known_tools == [ADD]


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        ("3", {"type": "integer"}, 3),
        (3.0, {"type": "integer"}, 3),
        ("3.5", {"type": "integer"}, "3.5"),
        ("x", {"type": "integer"}, "x"),
        ("inf", {"type": "integer"}, "inf"),
        ("2.5", {"type": "number"}, 2.5),
        ("True", {"type": "boolean"}, True),
        ("no", {"type": "boolean"}, False),
        (True, {"type": "integer"}, True),
        (3, {"type": "string"}, "3"),
        ({"a": 1}, {"type": "string"}, '{"a": 1}'),
        ("None", {"type": "null"}, None),
        ("[1, '2']", {"type": "array", "items": {"type": "integer"}}, [1, 2]),
        ('{"a": "1"}', {"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1}),
        ("3", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 3),
        ("3", {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "3"),
        ("3", {"type": ["integer", "null"]}, 3),
        ("x", {}, "x"),
        ("x", True, "x"),
    ],
)
def test_values_become_what_their_schema_wants(value: Any, schema: Any, expected: Any) -> None:
    made = coerced(value, schema)
    assert (made, type(made)) == (expected, type(expected))


@given(st.text("{}[]():\"'`#,;=\n \\abfname0", max_size=60))
def test_no_output_breaks_a_reader(text: str) -> None:
    for parser in PARSERS.values():
        read = parser().parse_output(Message(text, role="assistant"))
        assert read.tool_requests or read.thought or read.content == text or "nswer" in text
        list(parser().parse_output_streaming([text[:20], text[20:]]))


def test_what_a_grammar_of_steps_accepts_the_reader_reads() -> None:
    rules = AnswerRules(tools=[ADD])
    steps = Grammar.from_gbnf(ReactToolOutputParser().answer_grammar(rules) or "")
    action = '## Thought: t\n## Action:\n```json\n{"name": "add", "parameters": {"a": 1}}\n```'
    answer = "## Thought: t\n## Answer: a"
    assert steps.accepts(action) and steps.accepts(answer) and not steps.accepts("It is 3.")
    assert args_of(ReactToolOutputParser().parse_output(Message(action))) == [("add", {"a": 1})]
    forced = Grammar.from_gbnf(
        ReactToolOutputParser().answer_grammar(AnswerRules(None, [ADD], "required")) or ""
    )
    assert forced.accepts(action) and not forced.accepts(answer)
    named = AnswerRules(None, [ADD], NamedFunction("add"))
    calls = Grammar.from_gbnf(JsonToolOutputParser().answer_grammar(named) or "")
    assert calls.accepts('{"name": "add", "parameters": {"a": 1}}') and not calls.accepts("Hello")
    assert JsonToolOutputParser().answer_grammar(rules) is None
    assert PythonToolOutputParser().answer_grammar(rules) is None
    with pytest.raises(OptionError) as caught:
        JsonToolOutputParser().answer_grammar(AnswerRules(None, [ADD], NamedFunction("sub")))
    assert str(caught.value) == "tool_choice: no tool named 'sub'. Tools are: add."
