"""Histories as the messages that a chat template reads, and how to adapt those that it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from chatwrap.chat.history import (
    ChatHistory,
    ChatHistoryItem,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatSystemMessage,
    ChatUserMessage,
    ResponsePart,
)
from chatwrap.chat.openai import history_to_openai
from chatwrap.chat.text import LlamaText


@dataclass(frozen=True, slots=True)
class MessageShape:
    """How messages are spelled where templates disagree.

    `content_parts`: texts as ``[{"type": "text", "text": ...}]``. `null_content`: no content beside
    calls is null, not empty. `arguments_as_text`: arguments as JSON text, not as an object.
    `named_call_ids`: calls are numbered in each message as Kimi K2 does it, ``functions.NAME:0``.
    """

    system: str
    user: str
    model: str
    content_parts: bool = False
    null_content: bool = False
    arguments_as_text: bool = False
    named_call_ids: bool = False


def messages_of(history: ChatHistory, shape: MessageShape, *, end_mark: str = "") -> list[dict[str, Any]]:
    """`history` as messages; `end_mark` is put behind the last message's text."""
    names = {"system": shape.system, "user": shape.user, "assistant": shape.model}
    messages = history_to_openai(history)
    if end_mark:
        messages[-1]["content"] += end_mark
    called: dict[str, tuple[str, str]] = {}
    for message in messages:
        message["role"] = names.get(message["role"], message["role"])
        _spell_calls(message, shape, called)
        if "tool_call_id" in message:
            message["tool_call_id"], message["name"] = called[message["tool_call_id"]]
        if "reasoning_content" in message:
            message["thinking"] = message["reasoning"] = message["reasoning_content"]
        if shape.content_parts and isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
    return messages


def _spell_calls(message: dict[str, Any], shape: MessageShape, called: dict[str, tuple[str, str]]) -> None:
    """Spells a message's calls, and notes the id and the name that their results go by."""
    for index, call in enumerate(message.get("tool_calls", ())):
        given_id, name = call["id"], call["function"]["name"]
        if shape.named_call_ids:
            call["id"] = f"functions.{name}:{index}"
        called[given_id] = (call["id"], name)
        if not shape.arguments_as_text:
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    if shape.null_content and "tool_calls" in message and not message["content"]:
        message["content"] = None


def fold_system(history: ChatHistory) -> ChatHistory:
    """`history` with each system text at the head of the user message behind it, or as one of its own."""
    folded: list[ChatHistoryItem] = []
    waiting: list[str] = []
    for item in history:
        if isinstance(item, ChatSystemMessage):
            waiting.append(str(item.text))
            continue
        if waiting and isinstance(item, ChatUserMessage):
            item = ChatUserMessage(text="\n\n".join([*waiting, item.text]))
        elif waiting:
            folded.append(ChatUserMessage(text="\n\n".join(waiting)))
        waiting = []
        folded.append(item)
    if waiting:
        folded.append(ChatUserMessage(text="\n\n".join(waiting)))
    return tuple(folded)


def split_calls(history: ChatHistory) -> ChatHistory:
    """`history` with calls made one after the other, each with its result before the next."""
    return _with_responses(history, lambda parts: [tuple(map(_in_own_chunk, parts))])


def set_text_apart(history: ChatHistory) -> ChatHistory:
    """`history` with the model's words before a call in an item of their own."""
    return _with_responses(history, _cut_before_calls)


def _in_own_chunk(part: ResponsePart) -> ResponsePart:
    if not isinstance(part, ChatModelFunctionCall):
        return part
    return part.model_copy(update={"starts_new_chunk": True})


def _cut_before_calls(parts: tuple[ResponsePart, ...]) -> list[tuple[ResponsePart, ...]]:
    cuts = [
        index
        for index in range(1, len(parts))
        if isinstance(parts[index], ChatModelFunctionCall) and isinstance(parts[index - 1], str)
    ]
    return [parts[start:end] for start, end in pairwise([0, *cuts, len(parts)])]


def _with_responses(
    history: ChatHistory, change: Callable[[tuple[ResponsePart, ...]], list[tuple[ResponsePart, ...]]]
) -> ChatHistory:
    changed: list[ChatHistoryItem] = []
    for item in history:
        if isinstance(item, ChatModelResponse):
            changed += [ChatModelResponse(response=parts) for parts in change(item.response)]
        else:
            changed.append(item)
    return tuple(changed)


def merge_neighbours(history: ChatHistory) -> ChatHistory:
    """`history` with neighbouring items of one role made one, a blank line between their texts."""
    merged: list[ChatHistoryItem] = []
    for item in history:
        previous = merged[-1] if merged else None
        if previous is None or previous.type != item.type:
            merged.append(item)
            continue
        merged[-1] = _MERGE[item.type](previous, item)
    return tuple(merged)


def _merge_system(first: Any, second: Any) -> ChatSystemMessage:
    return ChatSystemMessage(text=LlamaText.join_values("\n\n", [first.text, second.text]))


def _merge_user(first: Any, second: Any) -> ChatUserMessage:
    return ChatUserMessage(text=f"{first.text}\n\n{second.text}")


def _merge_model(first: Any, second: Any) -> ChatModelResponse:
    return ChatModelResponse(response=(*first.response, "\n\n", *second.response))


_MERGE: dict[str, Callable[[Any, Any], ChatHistoryItem]] = {
    "system": _merge_system,
    "user": _merge_user,
    "model": _merge_model,
}
