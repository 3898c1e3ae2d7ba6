from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chatwrap.errors import PromptError
from chatwrap.prompts.canonical import CanonicalizationMessageTransform
from chatwrap.prompts.contents import ImageContent, TextContent, ToolRequest, ToolResult
from chatwrap.prompts.messages import Message
from chatwrap.prompts.transforms import (
    AppendTrailingSystemMessageToUserMessageTransform,
    CallableMessageTransform,
    CoalesceSystemMessagesTransform,
    MessageTransform,
    RemoveEmptyNonUserMessageTransform,
    SplitPromptOnMarkerMessageTransform,
)

IMAGE = ImageContent("AAAA")
COALESCE = CoalesceSystemMessagesTransform()
REMOVE = RemoveEmptyNonUserMessageTransform()
APPEND = AppendTrailingSystemMessageToUserMessageTransform()
SPLIT = SplitPromptOnMarkerMessageTransform()
CANON = CanonicalizationMessageTransform()


def messages(*pairs: str) -> list[Message]:
    """``"s:text"`` is a system message, ``u`` a user's, ``a`` an assistant's."""
    roles = {"s": "system", "u": "user", "a": "assistant"}
    return [Message(pair[2:], role=roles[pair[0]]) for pair in pairs]


def shown(found: list[Message]) -> list[str]:
    return [f"{message.role[0]}:{message.content}" for message in found]


@pytest.mark.parametrize(
    ("transform", "given", "expected"),
    [
        (COALESCE, ["s:\na\n", "s:b", "u:u", "s:c"], ["s:a\n\nb", "u:u", "s:c"]),
        (COALESCE, ["s:\na\n", "u:u"], ["s:a", "u:u"]),
        (COALESCE, ["u:u", "s:a", "s:b"], ["u:u", "s:a", "s:b"]),
        (COALESCE, [], []),
        (REMOVE, ["u:", "s:", "a:", "a: ", "s:x"], ["u:", "a: ", "s:x"]),
        (APPEND, ["u:u", "s:c"], ["u:u\nc"]),
        (APPEND, ["a:a", "s:c"], ["a:a", "s:c"]),
        (APPEND, ["s:c"], ["s:c"]),
        (SPLIT, ["u:a\n---\nb\n--- c\n---", "s:x---y"], ["u:a", "u:b", "u:c", "s:x---y"]),
        (SPLIT, ["u: spaces stay ", "u:\n---"], ["u: spaces stay "]),
        (SplitPromptOnMarkerMessageTransform("@@"), ["a:@@", "u:a@@ b "], ["u:a", "u:b"]),
        (CANON, ["a:a", "s:s", "u:u", "u:v", "s:t"], ["s:s\nt", "u:begin", "a:a", "u:u\nv"]),
        (CANON, ["s:s"], ["s:s", "u:begin"]),
        (CANON, ["u:a", "a:b", "a:c"], ["u:a", "a:b\nc"]),
    ],
)
def test_what_transforms_make_of_texts(
    transform: MessageTransform, given: list[str], expected: list[str]
) -> None:
    before = messages(*given)
    assert shown(transform(before)) == expected
    assert shown(asyncio.run(transform.call_async(before))) == expected
    assert before == messages(*given)


def test_parts_that_are_no_text_are_kept() -> None:
    picture = Message(contents=[IMAGE], role="assistant")
    assert REMOVE([picture]) == [picture]
    merged = COALESCE([Message(contents=[TextContent("a"), IMAGE], role="system"), *messages("s:b")])
    assert [IMAGE in message.contents for message in merged] == [True] and merged[0].content == "a\n\nb"
    pieces = SPLIT([Message(contents=[TextContent("a\n---b"), IMAGE])])
    assert [piece.contents for piece in pieces] == [(TextContent("a"),), (TextContent("b"), IMAGE)]
    assert APPEND([Message(contents=[IMAGE]), *messages("s:c")])[0].contents == (IMAGE, TextContent("c"))


def test_tool_data_is_left_alone() -> None:
    request = Message("x\n---y", tool_requests=[ToolRequest("f", {}, "1")])
    result = Message(tool_result=ToolResult("a\n---b", "1"))
    for transform in (SPLIT, REMOVE, COALESCE):
        assert transform([request, result]) == [request, result]
    assert APPEND([result, *messages("s:c")]) == [result, *messages("s:c")]


def test_requests_made_together_are_followed_by_their_results() -> None:
    first, second = ToolRequest("f", {}, "1"), ToolRequest("g", {}, "2")
    given = [
        *messages("u:q"),
        Message("t", tool_requests=[first, second]),
        Message(tool_result=ToolResult("r2", "2"), role="assistant"),
        Message(tool_result=ToolResult("r1", "1")),
        *messages("a:done"),
    ]
    assert CANON(given) == [
        *messages("u:q"),
        Message("t", tool_requests=[first]),
        Message(tool_result=ToolResult("r1", "1")),
        Message(tool_requests=[second]),
        Message(tool_result=ToolResult("r2", "2")),
        *messages("a:done"),
    ]
    with pytest.raises(PromptError) as caught:
        CANON([Message(tool_requests=[first]), Message(tool_result=ToolResult("r", "9"))])
    assert str(caught.value) == (
        "messages[0]: the request '1' of 'f' has no result. Add a message with its result.\n"
        "messages[1]: a result for '9', which nothing requested. Put it behind its request."
    )


def test_functions_are_transforms_and_must_give_messages() -> None:
    assert CallableMessageTransform(lambda found: tuple(found[:1]))(messages("u:a", "u:b")) == messages("u:a")
    for function in (lambda found: None, lambda found: "text", lambda found: ["x"]):
        with pytest.raises(PromptError) as caught:
            CallableMessageTransform(function)(messages("u:a"))  # type: ignore[arg-type]
        value = function(None)  # type: ignore[no-untyped-call]
        assert str(caught.value) == f"transform <lambda>: it gave {value!r}. Return a list of messages."


class OnlyAsync(MessageTransform):
    async def call_async(self, messages: list[Message]) -> list[Message]:
        await asyncio.sleep(0)
        return messages[:1]


class Neither(MessageTransform):
    pass


def test_a_transform_needs_one_of_its_two_methods() -> None:
    given = messages("u:a", "u:b")
    assert OnlyAsync()(given) == messages("u:a")
    with pytest.raises(PromptError) as caught:
        Neither()(given)
    assert str(caught.value) == "Neither: it has neither __call__ nor call_async. Write one of them."

    async def fails(found: list[Message]) -> Any:
        raise ValueError("inside")

    async def in_a_loop() -> list[Message]:
        return CallableMessageTransform(fails)(given)

    with pytest.raises(ValueError, match=r"^inside$"):
        asyncio.run(in_a_loop())
