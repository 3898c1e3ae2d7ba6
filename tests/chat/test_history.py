from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError

from chatwrap import (
    ChatHistory,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatModelSegment,
    ChatSystemMessage,
    ChatUserMessage,
    LlamaText,
    SpecialTokensText,
    as_history,
    history_to_json,
)
from chatwrap.errors import HistoryError
from tests.chat.strategies import histories

SAVED = [
    {"type": "system", "text": ["Be ", {"type": "specialTokensText", "value": "<b>"}]},
    {"type": "user", "text": "Hi"},
    {
        "type": "model",
        "response": [
            {
                "type": "segment",
                "ended": True,
                "segmentType": "thought",
                "text": "Hm",
                "startTime": "2025-01-01",
            },
            {"type": "functionCall", "name": "f", "params": None, "result": {"a": 1}, "rawCall": "f()"},
            {"type": "functionCall", "name": "g", "startsNewChunk": True, "description": "G."},
            "Hello",
        ],
    },
]


class TestJson:
    def test_histories_of_node_llama_cpp(self) -> None:
        history = as_history(SAVED)
        assert history == (
            ChatSystemMessage(text=LlamaText("Be ", SpecialTokensText("<b>"))),
            ChatUserMessage(text="Hi"),
            ChatModelResponse(
                response=(
                    ChatModelSegment(segment_type="thought", text="Hm", ended=True, start_time="2025-01-01"),
                    ChatModelFunctionCall(
                        name="f", arguments=None, result={"a": 1}, raw_call=LlamaText("f()")
                    ),
                    ChatModelFunctionCall(name="g", starts_new_chunk=True, description="G."),
                    "Hello",
                )
            ),
        )
        assert history_to_json(history) == SAVED
        assert as_history(json.dumps(SAVED)) == history

    @given(histories)
    def test_round_trip(self, history: ChatHistory) -> None:
        assert as_history(json.dumps(history_to_json(history))) == history
        assert as_history(history_to_json(history)) == history

    @given(histories)
    def test_whether_a_value_was_given_survives(self, history: ChatHistory) -> None:
        def given(history: ChatHistory) -> list[tuple[bool, bool]]:
            parts = [
                part for item in history if isinstance(item, ChatModelResponse) for part in item.response
            ]
            calls = [part for part in parts if isinstance(part, ChatModelFunctionCall)]
            return [(call.has_arguments, call.has_result) for call in calls]

        assert given(as_history(history_to_json(history))) == given(history)

    def test_both_spellings_of_keys(self) -> None:
        call = {"type": "functionCall", "name": "f", "arguments": {}, "raw_call": "f"}
        assert as_history([{"type": "model", "response": [call]}])[0].to_json()["response"] == [
            {"type": "functionCall", "name": "f", "params": {}, "rawCall": "f"}
        ]

    def test_items_and_dicts_may_be_mixed(self) -> None:
        user = ChatUserMessage(text="a")
        assert as_history([user, {"type": "user", "text": "a"}]) == (user, user)
        assert as_history(iter([user])) == (user,)  # type: ignore[arg-type]
        assert as_history([]) == as_history("[]") == ()


class TestValues:
    @given(histories)
    def test_copies_are_equal(self, history: ChatHistory) -> None:
        assert pickle.loads(pickle.dumps(history)) == copy.deepcopy(history) == history

    def test_frozen(self) -> None:
        with pytest.raises(ValidationError):
            ChatUserMessage(text="a").text = "b"  # type: ignore[misc]

    def test_text_of_a_response(self) -> None:
        response = as_history(SAVED)[2]
        assert isinstance(response, ChatModelResponse) and response.text == "Hello"

    def test_with_result(self) -> None:
        call = ChatModelFunctionCall(name="f")
        assert not call.has_result and not call.has_arguments
        assert call.with_result(None).has_result
        assert call.with_result(None).to_json() == {"type": "functionCall", "name": "f", "result": None}


MODEL = {"type": "model", "response": []}
KINDS = "Use 'system', 'user' or 'model'."


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ({"type": "user"}, "history: a dict, not a list of messages. Put it in a list."),
        (None, "history: a NoneType, not a list of messages. Put it in a list."),
        (3, "history: a int, not a list of messages. Put it in a list."),
        ("[", "history:1:2: not JSON: Expecting value.\n  [\n   ^"),
        ("{}", "history: a dict, not a list of messages. Put it in a list."),
        ('"Hi"', "history: a str, not a list of messages. Put it in a list."),
        ("[" * 100_000, "history: JSON nested too deep to read. Flatten it."),
        (["Hi"], "history[0]: must be an object, not 'Hi'. Its type is 'system', 'user' or 'model'."),
        ([None], "history[0]: must be an object, not None. Its type is 'system', 'user' or 'model'."),
        ([{}], f"history[0]: no type None. {KINDS}"),
        ([{"type": "tool"}], f"history[0]: no type 'tool'. {KINDS}"),
        ([{"type": []}], f"history[0]: no type []. {KINDS}"),
        (
            [{"role": "user", "content": "Hi"}],
            "history[0]: an OpenAI message, role 'user'. "
            "Convert the list with chatwrap.history_from_openai first.",
        ),
        ([{"type": "user"}], "history[0].text: missing."),
        ([{"type": "user", "text": 3}], "history[0].text: must be a valid string, not 3."),
        ([{"type": "user", "text": None}], "history[0].text: must be a valid string, not None."),
        (
            [{"type": "user", "text": "a", "name": "x" * 70}],
            f"history[0].name: unknown key, with the value '{'x' * 56}.... Remove it.",
        ),
        (
            [{"type": "system", "text": ["a", 3]}],
            "history[0].text: text[1]: 3 isn't a text value. "
            'Give a string, or {"type": T, "value": V} where T is "specialTokensText" or "specialToken".',
        ),
        ([{"type": "model", "response": "Hi"}], "history[0].response: must be a valid tuple, not 'Hi'."),
        (
            [{"type": "model", "response": ["a", 3]}],
            "history[0].response[1]: must be an object, not 3. Its type is 'functionCall' or 'segment'.",
        ),
        (
            [{"type": "model", "response": [{"type": "call"}]}],
            "history[0].response[0]: no type 'call'. Use 'functionCall' or 'segment'.",
        ),
        (
            [{"type": "model", "response": [{"type": "segment", "segmentType": "idea", "text": "a"}]}],
            "history[0].response[0].segmentType: must be 'thought' or 'comment', not 'idea'.",
        ),
        (
            [{"type": "model", "response": [{"type": "functionCall", "name": "f", "params": {1: 2}}]}],
            "history[0].response[0].params: must be a valid string, not 1.",
        ),
        (
            [{"type": "model", "response": [{"type": "functionCall", "name": "f", "result": object}]}],
            "history[0].response[0].result: must be a valid JSON value, not <class 'object'>.",
        ),
        (
            [{"type": "user", "text": "a", "user": 1, "model": 2}],
            "history[0].user: unknown key, with the value 1. Remove it.\n"
            "history[0].model: unknown key, with the value 2. Remove it.",
        ),
        (
            [{"type": "model", "response": [], "text": ""}],
            "history[0].text: unknown key, with the value ''. Remove it.",
        ),
        (
            [
                {
                    "type": "model",
                    "response": [{"type": "segment", "segmentType": "thought", "text": "", "ended": "maybe"}],
                }
            ],
            "history[0].response[0].ended: must be a valid boolean, not 'maybe'.",
        ),
        (
            [{"type": "model", "response": [{"type": "functionCall", "name": "f", "rawCall": 5}]}],
            "history[0].response[0].rawCall: text: a int, not a text. "
            "Give a string or a list of text values.",
        ),
        (
            [{"type": "user"}, MODEL, {"type": "user", "text": 1}, 5],
            "history[0].text: missing.\n"
            "history[2].text: must be a valid string, not 1.\n"
            "history[3]: must be an object, not 5. Its type is 'system', 'user' or 'model'.",
        ),
    ],
)
def test_what_is_no_history(history: Any, message: str) -> None:
    with pytest.raises(HistoryError) as caught:
        as_history(history)
    assert str(caught.value) == message
    assert "\n".join(map(str, caught.value.faults)) == message
    assert str(pickle.loads(pickle.dumps(caught.value))) == message
