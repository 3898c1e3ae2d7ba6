"""Messages, histories and OpenAI messages, each way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap import (
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatModelSegment,
    ChatSystemMessage,
    ChatUserMessage,
    LlamaText,
    as_history,
)
from chatwrap.dotprompt.conversion import from_history, from_openai, to_history, to_openai
from chatwrap.dotprompt.request import GenerateRequest, Media, Message, as_messages
from chatwrap.errors import DotpromptError

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": [{"text": "Be "}, {"text": "kind."}]},
    {"role": "user", "content": [{"text": "Time?"}]},
    {
        "role": "model",
        "content": [
            {"text": "hm", "metadata": {"purpose": "thought"}},
            {"text": "I look. "},
            {"toolRequest": {"name": "clock", "ref": "1", "input": {"city": "Rome"}}},
            {"toolRequest": {"name": "clock", "ref": "2", "input": {"city": "Oslo"}}},
        ],
    },
    {
        "role": "tool",
        "content": [
            {"toolResponse": {"name": "clock", "ref": "2", "output": "3:00"}},
            {"toolResponse": {"name": "clock", "ref": "1", "output": {"h": 2}}},
        ],
    },
    {"role": "model", "content": [{"text": "It is late."}]},
    {"role": "user", "content": [{"text": "Thanks"}, {"data": {"n": 1}}]},
    {"role": "model", "content": [{"text": "Bye"}]},
]
HISTORY = (
    ChatSystemMessage(text=LlamaText("Be kind.")),
    ChatUserMessage(text="Time?"),
    ChatModelResponse(
        response=(
            ChatModelSegment(segment_type="thought", text="hm"),
            "I look. ",
            ChatModelFunctionCall(name="clock", arguments={"city": "Rome"}, result={"h": 2}),
            ChatModelFunctionCall(name="clock", arguments={"city": "Oslo"}, result="3:00"),
            "It is late.",
        )
    ),
    ChatUserMessage(text='Thanks{"n": 1}'),
    ChatModelResponse(response=("Bye",)),
)


def test_messages_tell_a_history() -> None:
    assert to_history(MESSAGES) == HISTORY
    assert [message.to_json() for message in as_messages(MESSAGES)] == MESSAGES


def test_and_openai_messages() -> None:
    told = to_openai(MESSAGES)
    assert [message["role"] for message in told] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert to_history(from_openai(told)) == HISTORY


texts = st.text(min_size=1)
names = st.sampled_from(["f", "g"])
values = (
    st.none()
    | st.integers()
    | st.text()
    | st.lists(st.integers())
    | st.dictionaries(st.text(), st.integers())
)
calls = st.builds(
    lambda name, arguments, result: ChatModelFunctionCall(name=name, arguments=arguments, result=result),
    names,
    st.dictionaries(st.text(), st.integers()),
    values,
)
segments = st.builds(
    lambda kind, text: ChatModelSegment(segment_type=kind, text=text),
    st.sampled_from(["thought", "comment"]),
    texts,
)
pairs = st.tuples(texts, st.lists(segments | calls, max_size=3)).map(lambda pair: (*pair[1], pair[0]))
turns = st.lists(pairs, min_size=1, max_size=3).map(
    lambda groups: ChatModelResponse(response=tuple(part for group in groups for part in group))
)
histories = st.lists(st.tuples(st.builds(lambda text: ChatUserMessage(text=text), texts), turns), max_size=3)


@given(histories)
def test_a_history_comes_back(history: list[tuple[ChatUserMessage, ChatModelResponse]]) -> None:
    items = tuple(item for pair in history for item in pair)
    assert to_history(from_history(items)) == items
    as_json = [message.to_json() for message in from_history(items)]
    assert to_history(as_json) == items
    assert as_history([item.to_json() for item in items]) == items


def test_calls_after_results_start_a_new_chunk() -> None:
    items = (
        ChatUserMessage(text="x"),
        ChatModelResponse(
            response=(
                ChatModelFunctionCall(name="f", arguments={}, result=1),
                ChatModelFunctionCall(name="f", arguments={}, result=2, starts_new_chunk=True),
            )
        ),
    )
    assert to_history(from_history(items)) == items


FAULTS = [
    (
        [{"role": "user", "content": [{"media": {"url": "data:image/png;base64,AAAA"}}]}],
        "messages[0].content[0]: a medium, 'data:image/png;base64,AAAA'. "
        "A text model can't see it. Remove it.",
    ),
    (
        [{"role": "user", "content": [{"metadata": {"purpose": "output", "pending": True}}]}],
        "messages[0].content[0]: the section 'output', which nobody filled. Give its text.",
    ),
    (
        [{"role": "tool", "content": [{"toolResponse": {"name": "f", "output": 1}}]}],
        "messages[0].content[0]: a response of 'f', but no such call before. "
        "Put it behind the model's message with that call.",
    ),
    (
        [{"role": "tool", "content": "x"}, {"role": "user", "content": [{"toolRequest": {"name": "f"}}]}],
        "messages[0].content[0]: no tool's response. Put it in a message of another role.\n"
        "messages[1].content[0]: a tool's request or response. Put it in a message of model or tool.",
    ),
]


@pytest.mark.parametrize(("messages", "message"), FAULTS)
def test_what_no_history_can_hold(messages: Any, message: str) -> None:
    with pytest.raises(DotpromptError) as caught:
        to_history(messages)
    assert str(caught.value) == message


def test_the_request_of_the_reference() -> None:
    value = {
        "messages": MESSAGES,
        "config": {"temperature": 0.7, "stopSequences": ["User:"]},
        "tools": [
            {"name": "clock", "description": "C", "inputSchema": {"type": "object"}, "outputSchema": {}}
        ],
        "output": {"format": "json", "schema": {"type": "object"}},
        "context": [{"id": "d", "content": [{"text": "T"}], "metadata": {"source": "user"}}],
    }
    request = GenerateRequest.model_validate(value)
    assert request.to_json() == value
    assert GenerateRequest.model_validate_json(request.model_dump_json(exclude_unset=True)) == request


def test_a_medium_tells_its_type() -> None:
    assert Media(url="data:image/png;base64,AA").typed().content_type == "image/png"
    assert Media(url="data:image/png;base64,AA", content_type="x/y").typed().content_type == "x/y"
    assert Media(url="https://a/b.png").typed().content_type is None
    assert Media(url="data:,x").typed().content_type is None


def test_content_may_be_one_text() -> None:
    assert Message.model_validate({"role": "assistant", "content": "Hi"}).to_json() == {
        "role": "model",
        "content": [{"text": "Hi"}],
    }
