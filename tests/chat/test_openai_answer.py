from __future__ import annotations

import json
from typing import Any

import pytest

from chatwrap.chat.events import (
    ArgumentsText,
    CallEnd,
    CallStart,
    Diagnostic,
    ParserEvent,
    SegmentEnd,
    SegmentStart,
    SegmentText,
    TextEvent,
)
from chatwrap.chat.history import ChatModelFunctionCall
from chatwrap.chat.openai_answer import DeltaWriter
from chatwrap.chat.openai_completion import AnswerEnd, AnswerPiece, CompletionWriter, logprob_entry
from chatwrap.chat.openai_request import (
    includes_usage_from_openai,
    max_tokens_from_openai,
    n_top_logprobs_from_openai,
    tools_from_openai,
)
from chatwrap.errors import OptionError


def call(index: int, name: str, *arguments: str, call_id: str | None = None) -> list[ParserEvent]:
    value = json.loads("".join(arguments) or "{}")
    made = ChatModelFunctionCall(name=name, arguments=value)
    pieces = [ArgumentsText(index, text, text) for text in arguments]
    return [CallStart(index, name, call_id, "<"), *pieces, CallEnd(index, made, ">")]


EVENTS: list[ParserEvent] = [
    SegmentStart("thought", "<think>"),
    SegmentText("thought", "hm", "hm"),
    SegmentEnd("thought", "</think>"),
    TextEvent("", "\n"),
    TextEvent("Wait.", "Wait."),
    *call(0, "f", '{"a"', ": 1}"),
    Diagnostic("unknown_function", "No g.", ""),
    *call(1, "g", call_id="abc"),
    Diagnostic("unreadable_call", "No name.", "<tool_call>"),
]


def test_deltas() -> None:
    deltas = list(DeltaWriter().deltas(EVENTS))
    call_id = deltas[2]["tool_calls"][0].pop("id")
    assert call_id.startswith("call_") and len(call_id) == 29
    assert deltas == [
        {"reasoning_content": "hm"},
        {"content": "Wait."},
        {"tool_calls": [{"index": 0, "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
        {
            "tool_calls": [
                {"index": 1, "id": "abc", "type": "function", "function": {"name": "g", "arguments": ""}}
            ]
        },
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {"content": "<tool_call>"},
    ]


def pieces(events: list[ParserEvent], reason: Any = "stop") -> list[Any]:
    return [*(AnswerPiece((event,)) for event in events), AnswerEnd(reason, 3, 4)]


def test_a_whole_answer_is_what_its_stream_says() -> None:
    (choice,) = CompletionWriter("m").whole(pieces(EVENTS))["choices"]
    message = choice["message"]
    assert choice["finish_reason"] == "tool_calls" and choice["logprobs"] is None
    assert (message["content"], message["reasoning_content"]) == ("Wait.<tool_call>", "hm")
    assert [(entry["type"], entry["function"]) for entry in message["tool_calls"]] == [
        ("function", {"name": "f", "arguments": '{"a": 1}'}),
        ("function", {"name": "g", "arguments": "{}"}),
    ]
    cut = CompletionWriter("m").whole(pieces(EVENTS[:-4], "length"))["choices"][0]
    assert cut["finish_reason"] == "length"
    (only,) = CompletionWriter("m").whole(pieces(call(0, "f")))["choices"]
    assert only["message"]["content"] is None


def test_the_older_shape_of_a_call() -> None:
    writer = CompletionWriter("m", is_legacy=True)
    (choice,) = writer.whole(pieces(call(0, "f", '{"a": 1}')))["choices"]
    assert choice["finish_reason"] == "function_call"
    assert choice["message"]["function_call"] == {"name": "f", "arguments": '{"a": 1}'}
    deltas = [chunk["choices"][0]["delta"] for chunk in writer.chunks(pieces(call(0, "f", "{}")))]
    assert deltas[1:-1] == [
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": "{}"}},
    ]


def test_usage_in_a_stream() -> None:
    def chunks(includes_usage: bool | None) -> list[Any]:
        return list(
            CompletionWriter("m", includes_usage=includes_usage).chunks(pieces([TextEvent("a", "a")]))
        )

    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert [chunk.get("usage") for chunk in chunks(None)] == [None, None, usage]
    assert all("usage" not in chunk for chunk in chunks(False))
    assert [chunk["usage"] for chunk in chunks(True)] == [None, None, None, usage]
    assert [len(chunk["choices"]) for chunk in chunks(True)] == [1, 1, 1, 0]


def test_likelihoods_wait_for_the_next_delta() -> None:
    entries = [logprob_entry(bytes([byte]), -1.0, [(b"x", -0.5)]) for byte in b"ab\xc3"]
    assert entries[2]["token"] == "�" and entries[2]["bytes"] == [0xC3]
    answer = [
        AnswerPiece((), (entries[0],)),
        AnswerPiece((TextEvent("ab", "ab"),), (entries[1],)),
        AnswerPiece((), (entries[2],)),
        AnswerEnd("stop", 1, 3),
    ]
    given = [chunk["choices"][0]["logprobs"] for chunk in CompletionWriter("m").chunks(answer)]
    assert [entry and len(entry["content"]) for entry in given] == [None, 2, 1]
    whole = CompletionWriter("m").whole(answer)["choices"][0]["logprobs"]
    assert whole == {"content": entries, "refusal": None}


TOOL = {"type": "function", "function": {"name": "now", "strict": True}}


def test_what_a_request_asks_for() -> None:
    assert tools_from_openai({}).functions == {}
    read = tools_from_openai({"tools": [TOOL], "parallel_tool_calls": False})
    assert (read.tool_choice, read.max_calls, read.is_legacy, read.is_strict) == ("auto", 1, False, True)
    older = tools_from_openai({"functions": [{"name": "now"}], "function_call": "none"})
    assert (older.tool_choice, older.max_calls, older.is_legacy, older.is_strict) == ("none", 1, True, False)
    assert max_tokens_from_openai({"max_tokens": 5, "max_completion_tokens": 5}) == 5
    assert max_tokens_from_openai({"max_tokens": 0}) is None
    assert n_top_logprobs_from_openai({"logprobs": True}) == 0
    assert includes_usage_from_openai({"stream_options": {"include_usage": True}}) is True


@pytest.mark.parametrize(
    ("read", "arguments", "message"),
    [
        (
            tools_from_openai,
            {"tools": [TOOL], "tool_choice": "any", "parallel_tool_calls": "yes"},
            "tool_choice: 'any' can't be followed. Give 'auto', 'none', 'required', or name one of 'now'.\n"
            "parallel_tool_calls: must be true or false, not 'yes'.",
        ),
        (
            max_tokens_from_openai,
            {"max_tokens": 5, "max_completion_tokens": 6},
            "max_completion_tokens: 6, but max_tokens is 5. Give one of them.",
        ),
        (
            includes_usage_from_openai,
            {"stream_options": {"include_usage": "yes"}},
            "stream_options: {'include_usage': 'yes'} can't be followed. Give {'include_usage': true}.",
        ),
    ],
)
def test_what_cannot_be_followed(read: Any, arguments: Any, message: str) -> None:
    with pytest.raises(OptionError) as error:
        read(arguments)
    assert str(error.value) == message
