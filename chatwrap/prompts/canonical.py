"""`CanonicalizationMessageTransform`: any list of messages as the strictest chat formats want it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from chatwrap.errors import Fault, PromptError
from chatwrap.prompts.contents import MessageContent, ToolRequest
from chatwrap.prompts.messages import Message
from chatwrap.prompts.transforms import MessageTransform

_FIRST: Final = "begin"
_LATER: Final = "continue"


class CanonicalizationMessageTransform(MessageTransform):
    """One system message first, then user and assistant in turn, the user first.

    System messages and neighbours of one role are joined part by part. Where an assistant would come
    first, a user says ``begin``, or ``continue`` between two that can't be joined. A tool's result is a
    user's message; requests made together are followed by their results one by one. Raises
    `PromptError` for a request that has no result, and for a result without a request.
    """

    def __call__(self, messages: list[Message]) -> list[Message]:
        system = [message for message in messages if message.role == "system"]
        turns: list[Message] = []
        for message in _unrolled([message for message in messages if message.role != "system"]):
            _append(turns, message)
        if not turns:
            turns = [Message(_FIRST)]
        parts = [part for message in system for part in message.contents]
        return [Message(role="system", contents=parts), *turns] if system else turns

    async def call_async(self, messages: list[Message]) -> list[Message]:
        return self(messages)


def _append(turns: list[Message], message: Message) -> None:
    role = "assistant" if message.role == "assistant" else "user"
    last = turns[-1] if turns else None
    if last is None or last.role != role:
        if last is None and role == "assistant":
            turns.append(Message(_FIRST))
        turns.append(message.copy(role=role))
        return
    if last.has_tool_data or message.has_tool_data:
        turns += [_filler(role), message]
        return
    turns[-1] = last.copy(contents=_joined(last, message), segments=(*last.segments, *message.segments))


def _filler(role: str) -> Message:
    """What the other side says between two messages of one role."""
    return Message(_LATER, role="user" if role == "assistant" else "assistant")


def _joined(first: Message, second: Message) -> tuple[MessageContent, ...]:
    return (*first.contents, *second.contents)


def _unrolled(messages: list[Message]) -> Iterable[Message]:
    """The messages, with each request in a message of its own and its result behind it."""
    results, faults = _results(messages)
    asked = [request.tool_request_id for message in messages for request in message.tool_requests or ()]
    for index, message in enumerate(messages):
        found = message.tool_result
        if found is not None and found.tool_request_id not in asked:
            problem = f"a result for {found.tool_request_id!r}, which nothing requested."
            faults.append(Fault(f"messages[{index}]", problem, "Put it behind its request."))
        for request in message.tool_requests or ():
            if request.tool_request_id not in results:
                problem = f"the request {request.tool_request_id!r} of {request.name!r} has no result."
                faults.append(Fault(f"messages[{index}]", problem, "Add a message with its result."))
    if faults:
        raise PromptError(faults)
    for message in messages:
        if message.tool_requests:
            yield from _pairs(message, message.tool_requests, results)
        elif message.tool_result is None:
            yield message


def _results(messages: list[Message]) -> tuple[dict[str, Message], list[Fault]]:
    results: dict[str, Message] = {}
    faults: list[Fault] = []
    for index, message in enumerate(messages):
        if message.tool_result is None:
            continue
        request_id = message.tool_result.tool_request_id
        if request_id in results:
            problem = f"a second result for {request_id!r}."
            faults.append(Fault(f"messages[{index}]", problem, "Remove one."))
        results[request_id] = message.copy(role="user")
    return results, faults


def _pairs(
    message: Message, requests: Iterable[ToolRequest], results: Mapping[str, Message]
) -> Iterable[Message]:
    first = True
    for request in requests:
        whole = message if first else Message(role="assistant")
        yield whole.copy(tool_requests=[request])
        yield results[request.tool_request_id]
        first = False
