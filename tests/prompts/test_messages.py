from __future__ import annotations

import base64
import pickle
import struct
from typing import Any

import pytest
from hypothesis import given

from chatwrap import ChatHistory, ChatModelFunctionCall, ChatModelResponse, ChatSystemMessage, ChatUserMessage
from chatwrap.errors import HistoryError
from chatwrap.prompts.contents import ImageContent, TextContent, ToolRequest, ToolResult
from chatwrap.prompts.conversation import as_conversation, as_messages
from chatwrap.prompts.messages import Message, MessageType, read_message
from tests.chat.strategies import histories


@given(histories)
def test_conversations_survive_being_messages(history: ChatHistory) -> None:
    kept = tuple(without_empty_texts(item) for item in history)
    assert as_conversation(as_messages(kept)) == kept
    assert as_messages([item.to_json() for item in kept]) == as_messages(kept)


def without_empty_texts(item: Any) -> Any:
    if not isinstance(item, ChatModelResponse):
        return item
    parts = [part for part in item.response if part != ""]
    joined: list[Any] = []
    for part in parts:
        if isinstance(part, ChatModelFunctionCall) and part.starts_new_chunk and not joined:
            part = part.model_copy(update={"starts_new_chunk": False})
        joined.append(part)
    return ChatModelResponse(response=tuple(joined))


def test_messages_know_what_they_are() -> None:
    request, result = ToolRequest("f", {"x": 1}, "1"), ToolResult({"r": 1}, "1")
    kinds = {
        MessageType.USER: Message("a"),
        MessageType.SYSTEM: Message("a", MessageType.SYSTEM),
        MessageType.AGENT: Message("a", role="model"),
        MessageType.TOOL_REQUEST: Message(tool_requests=[request]),
        MessageType.TOOL_RESULT: Message(tool_result=result),
    }
    assert {kind: message.message_type for kind, message in kinds.items()} == {kind: kind for kind in kinds}
    assert [message.role for message in kinds.values()] == [
        "user",
        "system",
        "assistant",
        "assistant",
        "user",
    ]
    assert kinds[MessageType.TOOL_RESULT].content == '{"r": 1}'
    assert Message(tool_result=ToolResult("text", "1")).content == "text"
    assert Message(contents=[TextContent("a"), ImageContent(""), TextContent("b")]).content == "a\nb"
    assert Message().content == ""
    for message in kinds.values():
        assert read_message(message.as_dict(), "m") == message
        assert pickle.loads(pickle.dumps(message)) == message
    assert Message("a", role="assistant").copy(content="b") == Message("b", role="assistant")


def test_every_fault_of_a_message_is_told() -> None:
    with pytest.raises(HistoryError) as caught:
        Message(3, contents=["x"], role="tool")  # type: ignore[arg-type, list-item]
    assert str(caught.value) == (
        "message.content: of type int, no text. Give a string.\n"
        "message.contents: given together with content. Give one of them.\n"
        "message.contents[0]: can't hold a str. Give a TextContent or an ImageContent.\n"
        "message.role: no role 'tool'. Use one of user, assistant, system."
    )
    with pytest.raises(HistoryError) as caught:
        Message("a", "USER", role="user", tool_requests=[1], tool_result=2)  # type: ignore[list-item, arg-type]
    assert str(caught.value) == (
        "message.role: given together with message_type. Give one of them.\n"
        "message.tool_requests[0]: of type int, no ToolRequest. Give ToolRequest(name, args).\n"
        "message.tool_result: of type int, no ToolResult. Give ToolResult(content, tool_request_id).\n"
        "message.tool_requests: only an assistant requests tools, not a user. Leave the role out.\n"
        "message.tool_result: given together with tool_requests. Make two messages of it."
    )
    with pytest.raises(HistoryError) as caught:
        as_messages([{"content": 3, "x": 1, "tool_requests": [{"name": "f"}], "tool_result": 1}])
    assert str(caught.value) == (
        "messages[0].role: no role. Use one of user, assistant, system.\n"
        "messages[0].x: unknown key. Known are role, content, tool_requests, tool_result.\n"
        "messages[0].content: of type int, no text. Give a string.\n"
        "messages[0].tool_requests[0]: not a dict with the keys name, args, tool_request_id: "
        "{'name': 'f'}. Give these keys.\n"
        "messages[0].tool_result: not a dict with the keys content, tool_request_id: 1. Give these keys."
    )
    with pytest.raises(HistoryError) as caught:
        as_messages("hi")
    assert str(caught.value) == "messages: a str, not a list of messages. Put it in a list."


def test_messages_of_a_turn_become_one_item() -> None:
    messages = as_messages(
        [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": "hm",
                "tool_requests": [
                    {"name": "f", "args": {"x": 1}, "tool_request_id": "1"},
                    {"name": "g", "args": {}, "tool_request_id": "2"},
                ],
            },
            {"role": "user", "content": "", "tool_result": {"content": "b", "tool_request_id": "2"}},
            {"role": "assistant", "content": "", "tool_result": {"content": [1], "tool_request_id": "1"}},
            {"role": "assistant", "content": "done"},
            {"role": "assistant", "content": "more"},
        ]
    )
    assert as_conversation(messages) == (
        ChatSystemMessage(text="s"),  # type: ignore[arg-type]
        ChatUserMessage(text="q"),
        ChatModelResponse(
            response=(
                "hm",
                ChatModelFunctionCall(name="f", arguments={"x": 1}, result=[1]),
                ChatModelFunctionCall(name="g", arguments={}, result="b"),
                "done",
            )
        ),
        ChatModelResponse(response=("more",)),
    )


def test_what_a_conversation_cant_hold_is_told() -> None:
    messages = [
        Message(contents=[ImageContent("AAAA")]),
        Message(tool_result=ToolResult(1, "1")),
        Message("text", tool_result=ToolResult(1, "2")),
    ]
    with pytest.raises(HistoryError) as caught:
        as_conversation(messages)
    assert str(caught.value) == (
        "messages[0].contents[0]: a text model can't see an image. "
        "Remove it, or use a model that sees images elsewhere.\n"
        "messages[1].tool_result: a result for '1', but no such request waits for one. "
        "Put it once, behind the message with that request.\n"
        "messages[2]: a text beside a tool's result. Make two messages of it.\n"
        "messages[2].tool_result: a result for '2', but no such request waits for one. "
        "Put it once, behind the message with that request."
    )


def test_images_are_measured_by_their_pixels() -> None:
    png = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 33, 16) + b"\x08\x02\x00\x00\x00"
    assert ImageContent.from_bytes(png).n_tokens == 3
    assert ImageContent.from_bytes(b"GIF89a").n_tokens == 128 * 128
    assert ImageContent.from_bytes(b"\x89PNG\r\n\x1a\n").n_tokens == 128 * 128
    assert base64.b64decode(ImageContent.from_bytes(b"ab").base64_content) == b"ab"
    with pytest.raises(HistoryError) as caught:
        _ = ImageContent("no base64!").n_tokens
    assert str(caught.value) == "image: not base64. Use ImageContent.from_bytes(data)."
