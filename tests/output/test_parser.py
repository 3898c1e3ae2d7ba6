"""The parser's manners: errors, pieces, cost, and the state in which a prompt ends."""

from __future__ import annotations

import time
from typing import Any

import pytest

from chatwrap.chat.events import ArgumentsText, CallStart, Diagnostic, SegmentEnd, SegmentStart, TextEvent
from chatwrap.chat.functions import as_functions
from chatwrap.chat.history import ChatModelFunctionCall, ChatModelSegment
from chatwrap.chat.syntax import ChatWrapperSettings, SegmentsSyntax, SegmentSyntax
from chatwrap.chat.text import LlamaText, control
from chatwrap.errors import ChatwrapError, OutputError
from chatwrap.output.opened import opened_segment
from chatwrap.output.parser import OutputParser, parse
from chatwrap.output.response import response_of
from chatwrap.wrapper.definition import load_chat_wrapper

QWEN = load_chat_wrapper("qwen-3").settings
DEFAULT = ChatWrapperSettings()


def pieces(parser: OutputParser, *chunks: str) -> list[list[str]]:
    """For each chunk, the texts that are certain after it."""
    return [[event.text for event in parser.feed(chunk) if hasattr(event, "text")] for chunk in chunks]


def test_text_comes_as_soon_as_it_is_certain() -> None:
    parser = OutputParser(QWEN)
    told = pieces(parser, "Hel", "lo <", "b> ", "you <too", "l_x", "\n\n", "end")
    assert told == [["Hel"], ["lo"], [" <b>"], [" you"], [" <tool_x"], [], ["\n\nend"]]


def test_escapes_surrogates_and_numbers_are_held_back() -> None:
    parser = OutputParser(DEFAULT)
    parser.feed('||call: f({"a": "')
    assert pieces(parser, "x\\", "n\\ud8", "3d", "\\ude", "00", '"', ', "n": 1', "2", "}", ")") == [
        ["x"], ["\\n"], [], [], ["\\ud83d\\ude00"], [], ['", "n": '], [], ["12}"], [],
    ]  # fmt: skip


def test_a_call_is_told_once_its_name_is_known() -> None:
    parser = OutputParser(QWEN)
    assert parser.feed('<tool_call>\n{"name": "get') == []
    assert parser.feed('_time", "arguments": ') == []
    start, arguments = parser.feed('{"a')
    assert isinstance(start, CallStart) and isinstance(arguments, ArgumentsText)
    assert (start.index, start.name, start.call_id, arguments.text) == (0, "get_time", None, '{"a')


def test_arguments_before_the_name_wait_for_it() -> None:
    parser = OutputParser(QWEN)
    assert parser.feed('<tool_call>{"arguments": {"a": 1}, "name": ') == []
    start, arguments = parser.feed('"f"}')
    assert isinstance(start, CallStart) and arguments == ArgumentsText(0, '{"a": 1}', "")


def test_an_opened_thought_is_told_before_its_text() -> None:
    parser = OutputParser(QWEN, opened="thought")
    assert parser.feed("Hm")[0] == SegmentStart("thought", "")
    assert parser.feed("\n</think>") == [SegmentEnd("thought", "\n</think>")]
    assert parser.feed("\n\nTwo.") == [TextEvent("Two.", "\n\nTwo.")]


def test_a_diagnostic_has_the_raw_text_that_no_other_event_has() -> None:
    events = OutputParser(QWEN).feed("a<tool_call>nothing</tool_call>b")
    assert events[1] == Diagnostic(
        "unreadable_call", "A call can't be read: it has no name.", "<tool_call>nothing</tool_call>"
    )


@pytest.mark.parametrize(
    ("output", "kind", "message"),
    [
        ("||call: now(", "cut_call", "output: The answer ends in the middle of the call of 'now'."),
        ("||call: no", "cut_call", "output: The answer ends in the middle of a call."),
        ("||call: g({})", "unknown_function", "output: There is no function 'g' to call."),
        ("||call: now({},", "missing_mark", "output: ')' is missing in the call of 'now'."),
        ("||call: a b({})", "unreadable_call", "output: '||call:' opens a call that has no name."),
        (
            "||call: now({'a': 1,})",
            "repaired_arguments",
            "output: The arguments of 'now' had to be repaired: a string stands between ' marks; "
            "a comma stands before no value.",
        ),
    ],
)
def test_a_strict_parser_raises(output: str, kind: str, message: str) -> None:
    with pytest.raises(OutputError) as error:
        parse(output, DEFAULT, functions=as_functions({"now": {}}), strict=True)
    assert (str(error.value), error.value.kind) == (message, kind)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("<think>\nHm", "output: The answer ends in a thought."),
        ("</think>", "output: '</think>' means nothing here."),
        (
            '<think>\n<tool_call>{"name": "f", "arguments": {}}</tool_call>',
            "output: A call stands in a thought.",
        ),
    ],
)
def test_a_strict_parser_raises_for_segments(output: str, message: str) -> None:
    with pytest.raises(OutputError) as error:
        parse(output, QWEN, strict=True)
    assert str(error.value) == message


def test_what_a_parser_cannot_do() -> None:
    with pytest.raises(ChatwrapError) as error:
        OutputParser(DEFAULT, opened="thought")
    assert str(error.value) == "opened: the format has no thought. Give None."
    parser = OutputParser(DEFAULT)
    assert parser.flush() == [] and parser.flush() == []
    with pytest.raises(ChatwrapError) as error:
        parser.feed("x")
    assert str(error.value) == "chunk: the answer has ended. Make a new parser for another answer."


def test_a_response_is_collected_from_events() -> None:
    parser = OutputParser(QWEN)
    output = '<think>\na</think>b<tool_call>{"name": "f", "arguments": {}}</tool_call>c'
    events = [event for char in output for event in parser.feed(char)]
    response = response_of(events + parser.flush())
    assert response.response == (
        ChatModelSegment(segment_type="thought", text="a"),
        "b",
        ChatModelFunctionCall(name="f", arguments={}),
        "c",
    )
    assert response.text == "bc"


THINKS = ChatWrapperSettings(
    segments=SegmentsSyntax(
        thought=SegmentSyntax(control("<think>\n"), control("\n</think>")),
        comment=SegmentSyntax(control("<note>"), control("</note>")),
    )
)


@pytest.mark.parametrize(
    ("context", "segment"),
    [
        ((control("model:"),), None),
        ((control("model:<think>\n"),), "thought"),
        ((control("model:<think>"),), "thought"),
        ((control("model:<think>\n"), "Well, "), "thought"),
        ((control("model:<think>\n\n</think>\n\n"),), None),
        ((control("<think>\n"), "a", control("</s>model:")), None),
        ((control("<think>\n"), "a", control("\n</think>"), "b"), None),
        ((control("model:"), "<think>\n"), None),
        ((control("model:<note>"), "</note>"), "comment"),
    ],
)
def test_the_segment_in_which_a_prompt_ends(context: tuple[Any, ...], segment: str | None) -> None:
    assert opened_segment(LlamaText(*context), THINKS) == segment


SHAPES = {
    "text": ("qwen-3", "", "Hello there, this is text. \n"),
    "white space": ("qwen-3", "", " "),
    "calls": ("qwen-3", "", '<tool_call>\n{"name": "f", "arguments": {"a": "b c"}}\n</tool_call>\n'),
    "one string": ("qwen-3", '<tool_call>{"name": "f", "arguments": {"a": "', "hello\\n wörld "),
    "brackets": ("qwen-3", '<tool_call>{"name": "f", "arguments": {"a": ', "["),
    "doubtful objects": ("llama-3.1", "", '{"name": "'),
    "tags": ("qwen3-coder", "<tool_call>\n<function=f>\n", "<parameter=s>"),
    "prefixes": ("chatml", "", "||call: "),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_cost_is_linear(shape: str) -> None:
    def cost_s(n: int) -> float:
        name, start, piece = SHAPES[shape]
        text = start + (piece * (n // len(piece)))
        parser = OutputParser(load_chat_wrapper(name).settings)
        begin = time.process_time()
        for at in range(0, len(text), 4):
            parser.feed(text[at : at + 4])
        parser.flush()
        return time.process_time() - begin

    small, large = min(cost_s(20_000) for _ in range(3)), cost_s(200_000)
    assert large < 12 * small or large < 12 * min(cost_s(20_000) for _ in range(5))
