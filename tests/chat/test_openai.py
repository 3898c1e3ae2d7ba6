from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap import (
    ChatHistory,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatModelSegment,
    ChatSystemMessage,
    ChatUserMessage,
    LlamaText,
    SpecialTokensText,
    functions_from_openai,
    functions_to_openai,
    history_from_openai,
    history_to_openai,
)
from chatwrap.errors import HistoryError
from tests.chat.strategies import json_objects, json_values, names, words

CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}


def model(*parts: Any) -> ChatModelResponse:
    return ChatModelResponse(response=parts)


def call(
    name: str, arguments: Any, result: Any = ..., *, starts_new_chunk: bool = False
) -> ChatModelFunctionCall:
    given: dict[str, Any] = {} if result is ... else {"result": result}
    if starts_new_chunk:
        given["starts_new_chunk"] = True
    return ChatModelFunctionCall(name=name, arguments=arguments, **given)


def assistant(*calls: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"role": "assistant", **keys, **({"tool_calls": list(calls)} if calls else {})}


def tool_call(call_id: str, name: str, arguments: Any = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(call_id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


class TestReading:
    @pytest.mark.parametrize(
        ("content", "text"),
        [
            ("Hi", "Hi"),
            ("", ""),
            (None, ""),
            ([], ""),
            ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
            (["a", {"type": "text", "text": "b"}], "ab"),
        ],
    )
    @pytest.mark.parametrize("role", ["system", "developer", "user"])
    def test_contents(self, role: str, content: Any, text: str) -> None:
        kind = ChatUserMessage if role == "user" else ChatSystemMessage
        assert history_from_openai([{"role": role, "content": content}]) == (kind(text=text),)  # type: ignore[arg-type]

    def test_a_message_without_content(self) -> None:
        assert history_from_openai([{"role": "user"}]) == (ChatUserMessage(text=""),)
        assert history_from_openai([{"role": "assistant"}]) == (model(),)

    @pytest.mark.parametrize(
        ("arguments", "value"),
        [
            ('{"a": 1}', {"a": 1}),
            ({"a": 1}, {"a": 1}),
            ("", {}),
            (None, {}),
            ("{}", {}),
            ("null", None),
            ("[1]", [1]),
            ('"a"', "a"),
            (' {"a": "é\\u00e9"} ', {"a": "éé"}),
        ],
    )
    def test_arguments(self, arguments: Any, value: Any) -> None:
        message = assistant(tool_call("1", "f", arguments))
        assert history_from_openai([message]) == (model(call("f", value)),)

    @pytest.mark.parametrize("content", ["", None, ...])
    def test_a_call_beside_no_content(self, content: Any) -> None:
        keys = {} if content is ... else {"content": content}
        assert history_from_openai([assistant(CALL, **keys)]) == (model(call("f", {"a": 1})),)

    def test_results_in_any_order(self) -> None:
        calls = [tool_call("1", "f"), tool_call("2", "f"), tool_call("3", "g")]
        messages = [
            assistant(*calls, content="Let me see."),
            tool("3", "3"),
            tool("1", "one"),
            tool("2", '"2"'),
        ]
        assert history_from_openai(messages) == (
            model("Let me see.", call("f", {}, "one"), call("f", {}, "2"), call("g", {}, 3)),
        )

    def test_a_result_that_never_came(self) -> None:
        messages = [
            assistant(tool_call("1", "f"), tool_call("2", "g")),
            tool("2", "2"),
            assistant(content="Done"),
        ]
        assert history_from_openai(messages) == (model(call("f", {}), call("g", {}, 2), "Done"),)

    @pytest.mark.parametrize(
        ("content", "result"),
        [
            ("text", "text"),
            ("", ""),
            (None, ""),
            ("null", None),
            ('{"a": [1]}', {"a": [1]}),
            ('"quoted"', "quoted"),
            ("3", 3),
            ("-0.5", -0.5),
            ("1.10", "1.10"),
            ("1e3", "1e3"),
            ("007", "007"),
            (" 3", " 3"),
            ('{"price":1.10}', {"price": 1.1}),
            ("{not json", "{not json"),
            ([{"type": "text", "text": "[1,"}, {"type": "text", "text": "2]"}], [1, 2]),
        ],
    )
    def test_results(self, content: Any, result: Any) -> None:
        assert history_from_openai([assistant(CALL), tool("1", content)]) == (
            model(call("f", {"a": 1}, result)),
        )

    @pytest.mark.parametrize("content", ["NaN", "Infinity", "-Infinity", '{"a": NaN}', "1e999", "[1e999]"])
    def test_a_result_that_only_python_takes_for_json(self, content: str) -> None:
        (item,) = history_from_openai([assistant(CALL), tool("1", content)])
        assert item == model(call("f", {"a": 1}, content))

    def test_calls_after_results_start_a_new_chunk_of_the_same_item(self) -> None:
        messages = [
            {"role": "user", "content": "q"},
            assistant(tool_call("1", "f")),
            tool("1", "1"),
            assistant(tool_call("1", "g"), tool_call("2", "h"), content="and"),
            tool("1", "2"),
            assistant(content="Done."),
            assistant(content="Next."),
        ]
        assert history_from_openai(messages) == (
            ChatUserMessage(text="q"),
            model(
                call("f", {}, 1),
                "and",
                call("g", {}, 2, starts_new_chunk=True),
                call("h", {}),
                "Done.",
            ),
            model("Next."),
        )

    def test_thoughts(self) -> None:
        thought = ChatModelSegment(segment_type="thought", text="Hm")
        for key in ("reasoning_content", "reasoning"):
            assert history_from_openai([assistant(content="a", **{key: "Hm"})]) == (model(thought, "a"),)
        assert history_from_openai([assistant(reasoning_content="Hm")]) == (model(thought),)

    def test_the_legacy_form(self) -> None:
        messages = [
            assistant(function_call={"name": "f", "arguments": "{}"}, content=None),
            {"role": "function", "name": "f", "content": "1"},
        ]
        assert history_from_openai(messages) == (model(call("f", {}, 1)),)

    def test_calls_without_ids_are_answered_by_name_in_turn(self) -> None:
        calls = [{"function": {"name": name, "arguments": {}}} for name in ("f", "g", "f")]
        results = [{"role": "tool", "name": name, "content": text} for name, text in ("f1", "f2", "g3")]
        assert history_from_openai([assistant(*calls), *results]) == (
            model(call("f", {}, 1), call("g", {}, 3), call("f", {}, 2)),
        )

    def test_what_clients_echo_is_ignored_where_it_is_empty(self) -> None:
        message = assistant(content="a", refusal=None, audio=None, annotations=[], tool_calls=None)
        assert history_from_openai([message]) == (model("a"),)

    def test_the_messages_stay_as_they_are(self) -> None:
        messages = [assistant(CALL, content=None), tool("1", "1")]
        before = copy.deepcopy(messages)
        history_from_openai(messages)
        assert messages == before

    def test_no_message(self) -> None:
        assert history_from_openai([]) == history_from_openai(()) == ()


class TestFaults:
    @pytest.mark.parametrize(
        ("messages", "message"),
        [
            ({"role": "user"}, "messages: a dict, not a list of messages. Put it in a list."),
            ("Hi", "messages: a str, not a list of messages. Read it with json.loads first."),
            (None, "messages: a NoneType, not a list of messages. Put it in a list."),
            (
                ["Hi", {}, {"role": "model"}, {"role": ["user"]}],
                "messages[0]: must be an object, not 'Hi'.\n"
                "messages[1].role: missing. Known are system, developer, user, assistant, tool, function.\n"
                "messages[2].role: no role 'model'. "
                "Known are system, developer, user, assistant, tool, function.\n"
                "messages[3].role: no role ['user']. "
                "Known are system, developer, user, assistant, tool, function.",
            ),
            (
                [{"role": "user", "content": 3}, {"role": "user", "content": {"type": "text"}}],
                "messages[0].content: a int. Give a string or a list of text parts.\n"
                "messages[1].content: a dict. Give a string or a list of text parts.",
            ),
            (
                [{"role": "user", "content": [{"type": "image_url", "image_url": {}}, 3, {"type": "text"}]}],
                "messages[0].content[0]: a part of type 'image_url'. Only text parts can be rendered.\n"
                "messages[0].content[1]: a part of type 'int'. Only text parts can be rendered.\n"
                "messages[0].content[2]: a part of type 'text' without a text. "
                "Only text parts can be rendered.",
            ),
            (
                [{"role": "user", "content": "a", "name": "Ann"}],
                "messages[0].name: 'Ann' can't be expressed in a chat history. Remove the key.",
            ),
            (
                [assistant(content="a", refusal="No.")],
                "messages[0].refusal: 'No.' can't be expressed in a chat history. Remove the key.",
            ),
            (
                [assistant(tool_call("1", "f", "{a"))],
                "messages[0].tool_calls[0].function.arguments: not JSON: Expecting property name enclosed "
                "in double quotes: line 1 column 2 (char 1). Give the arguments as JSON text.",
            ),
            (
                [assistant({"id": "1"}, {"id": "2", "function": {"name": 3}})],
                "messages[0].tool_calls[0]: not a function call: {'id': '1'}. Give it a function's name.\n"
                "messages[0].tool_calls[1]: not a function call: {'id': '2', 'function': {'name': 3}}. "
                "Give it a function's name.",
            ),
            (
                [assistant(tool_calls="f()")],
                "messages[0].tool_calls: a str, not a list of calls. Put it in a list.",
            ),
            (
                [assistant(function_call="auto")],
                "messages[0].function_call: not a function call: 'auto'. Give it a function's name.",
            ),
            (
                [assistant(CALL), {"role": "user", "content": "a"}, tool("1", "1")],
                "messages[2]: a result for '1', but no such call before. "
                "Put it behind the assistant message with that call.",
            ),
            (
                [assistant(CALL), {"role": "tool", "content": "1"}],
                "messages[1]: a result without a tool_call_id. Name the call that it answers.",
            ),
            (
                [assistant(CALL), tool("1", "1"), tool("1", "2")],
                "messages[2]: a second result for '1'. Remove one.",
            ),
            (
                [assistant(tool_call("1", "f"), tool_call("1", "g"))],
                "messages[0].tool_calls[1].id: a second call '1'. Give each call its own id.",
            ),
            (
                [assistant(content="a", reasoning_content=3)],
                "messages[0].reasoning_content: a int, not a text. Give a string.",
            ),
            (
                [assistant(tool_call("1", "f", "[NaN]"))],
                "messages[0].tool_calls[0].function.arguments: not JSON: '[NaN]'. "
                "Give the arguments as JSON text.",
            ),
            (
                [assistant(tool_call("1", "f", {"a": object}))],
                "messages[0].tool_calls[0].function.arguments: not JSON: {'a': <class 'object'>}. "
                "Give the arguments as JSON text.",
            ),
        ],
    )
    def test_whole_text(self, messages: Any, message: str) -> None:
        with pytest.raises(HistoryError) as caught:
            history_from_openai(messages)
        assert str(caught.value) == message


segments = words.filter(bool).map(lambda text: ChatModelSegment(segment_type="thought", text=text))


@st.composite
def exchanges(draw: st.DrawFn) -> ChatModelResponse:
    """Model items that OpenAI's messages tell whole: chunks of a thought, a text, and answered calls."""
    parts: list[Any] = []
    n_chunks = draw(st.integers(0, 3))
    for chunk in range(n_chunks + 1):
        if draw(st.booleans()):
            parts.append(draw(segments))
        if text := draw(words):
            parts.append(text)
        for index in range(draw(st.integers(1, 3)) if chunk < n_chunks else 0):
            starts = {"starts_new_chunk": True} if chunk and not index else {}
            parts.append(
                ChatModelFunctionCall(
                    name=draw(names), arguments=draw(json_objects), result=draw(json_values), **starts
                )
            )
    return ChatModelResponse(response=tuple(parts))


@st.composite
def told_histories(draw: st.DrawFn) -> ChatHistory:
    items: list[Any] = []
    for _ in range(draw(st.integers(0, 4))):
        items.append(draw(words.map(lambda text: ChatUserMessage(text=text))))
        if draw(st.booleans()):
            items.append(ChatSystemMessage(text=LlamaText(draw(words))))
        items.append(draw(exchanges()))
    return tuple(items)


class TestWriting:
    @given(told_histories())
    def test_round_trip(self, history: ChatHistory) -> None:
        messages = history_to_openai(history)
        assert history_from_openai(json.loads(json.dumps(messages))) == history

    @given(told_histories())
    def test_it_writes_what_it_reads(self, history: ChatHistory) -> None:
        messages = history_to_openai(history)
        assert history_to_openai(history_from_openai(messages)) == messages

    def test_keys(self) -> None:
        history = [
            ChatSystemMessage(text=LlamaText("Be ", SpecialTokensText("<b>"))),
            ChatUserMessage(text="q"),
            model(ChatModelSegment(segment_type="thought", text="Hm"), call("f", {"a": "é"}, "1"), "Done"),
        ]
        assert history_to_openai(history) == [
            {"role": "system", "content": "Be <b>"},
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": "",
                "reasoning_content": "Hm",
                "tool_calls": [
                    {
                        "id": "call00000",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"a": "é"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call00000", "content": '"1"'},
            {"role": "assistant", "content": "Done"},
        ]

    def test_a_result_may_be_missing(self) -> None:
        assert history_to_openai([model(call("f", {}))])[0]["tool_calls"][0]["id"] == "call00000"
        unanswered = [model(call("f", {}), call("g", {}, 1))]
        assert history_from_openai(history_to_openai(unanswered)) == tuple(unanswered)

    def test_text_behind_an_unanswered_call_stays_there(self) -> None:
        history = (model(call("f", {}), "said after"),)
        assert history_from_openai(history_to_openai(history)) == history

    def test_a_comment_is_refused(self) -> None:
        with pytest.raises(HistoryError) as caught:
            history_to_openai(
                [ChatUserMessage(text=""), model(ChatModelSegment(segment_type="comment", text="a"))]
            )
        assert str(caught.value) == "history[1]: a comment can't be an OpenAI message. Remove it."


SCHEMA = {"type": "object", "properties": {}}


class TestFunctions:
    def test_both_ways(self) -> None:
        tools = [
            {"type": "function", "function": {"name": "f", "description": "F.", "parameters": SCHEMA}},
            {"type": "function", "function": {"name": "g"}},
        ]
        functions = functions_from_openai(tools)
        assert functions_to_openai(functions) == tools
        assert {name: function.to_json() for name, function in functions.items()} == {
            "f": {"description": "F.", "params": SCHEMA},
            "g": {},
        }

    def test_the_legacy_form(self) -> None:
        assert list(functions_from_openai([{"name": "f", "parameters": SCHEMA}])) == ["f"]

    def test_strict_is_allowed(self) -> None:
        assert list(
            functions_from_openai([{"type": "function", "function": {"name": "f", "strict": True}}])
        ) == ["f"]

    def test_none(self) -> None:
        assert functions_from_openai(None) == functions_from_openai([]) == {}

    @pytest.mark.parametrize(
        ("tools", "message"),
        [
            ({"name": "f"}, "tools: a dict, not a list of tools. Put it in a list."),
            (
                ["f", {"type": "retrieval"}, {"type": "function", "function": {"name": 3}}],
                "tools[0]: not a function: 'f'. Give it a function's name.\n"
                "tools[1]: not a function: {'type': 'retrieval'}. Give it a function's name.\n"
                "tools[2]: not a function: {'type': 'function', 'function': {'name': 3}}. "
                "Give it a function's name.",
            ),
            ([{"name": "f"}, {"name": "f"}], "tools[1]: a second function 'f'. Rename one."),
            (
                [{"name": "f", "parameters": []}],
                "tools.f.parameters: Input should be a valid dictionary.",
            ),
        ],
    )
    def test_faults(self, tools: Any, message: str) -> None:
        with pytest.raises(HistoryError) as caught:
            functions_from_openai(tools)
        assert str(caught.value) == message
