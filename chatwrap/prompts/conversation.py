"""Messages and conversations, both ways: `as_messages` and `as_conversation`.

Law: ``as_conversation(as_messages(history)) == history`` for every history without empty texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from chatwrap.chat.history import (
    ChatHistory,
    ChatHistoryItem,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatModelSegment,
    ChatSystemMessage,
    ChatUserMessage,
    ResponsePart,
    as_history,
)
from chatwrap.chat.text import LlamaText
from chatwrap.errors import Fault, HistoryError
from chatwrap.prompts.contents import ImageContent, MessageContent, TextContent, ToolRequest, ToolResult
from chatwrap.prompts.messages import Message, MessageAsDict, read_message, text_of

MessageLike: TypeAlias = Message | MessageAsDict | ChatHistoryItem | Mapping[str, Any]
"""A `Message` or its dict form, or an item of a conversation or its JSON form."""


def as_messages(messages: Iterable[MessageLike], *, where: str = "messages") -> list[Message]:
    """`messages` as `Message` objects, in one pass. Raises `HistoryError` with every fault."""
    if isinstance(messages, str | Mapping | Message) or not isinstance(messages, Iterable):
        kind = type(messages).__name__
        raise HistoryError.of(where, f"a {kind}, not a list of messages.", "Put it in a list.")
    read: list[Message] = []
    faults: list[Fault] = []
    for index, message in enumerate(messages):
        if isinstance(message, Message):
            read.append(message)
            continue
        try:
            read += _read(message, f"{where}[{index}]")
        except HistoryError as error:
            faults += error.faults
    if faults:
        raise HistoryError(faults)
    return read


def _read(message: Any, where: str) -> Iterable[Message]:
    if isinstance(message, Mapping) and "type" not in message:
        return [read_message(message, where)]
    try:
        item = as_history([message], where="")[0]
    except HistoryError as error:
        raise HistoryError(
            Fault(where + fault.where.removeprefix("[0]"), fault.problem, fault.remedy)
            for fault in error.faults
        ) from None
    match item:
        case ChatSystemMessage():
            return [Message(role="system", contents=[_content(item.text)])]
        case ChatUserMessage():
            return [Message(item.text)]
        case ChatModelResponse():
            return _ResponseReader().messages(item)
        case _:
            assert_never(item)


def _content(text: LlamaText) -> MessageContent:
    """Plain content as a text that a template may render, control text as it is."""
    is_plain = all(isinstance(value, str) for value in text.values)
    return TextContent(str(text)) if is_plain else text


@dataclass(slots=True)
class _ResponseReader:
    """Cuts a model's turn into messages, each with segments, then a text, then calls."""

    _segments: list[ChatModelSegment] = field(default_factory=list)
    _text: str | None = None
    _requests: list[ToolRequest] = field(default_factory=list)
    _results: list[ToolResult] = field(default_factory=list)
    _messages: list[Message] = field(default_factory=list)
    _n_calls: int = 0

    def messages(self, item: ChatModelResponse) -> list[Message]:
        for part in item.response:
            self._read(part)
        if self._is_open or not self._messages:
            self._close()
        return self._messages

    @property
    def _is_open(self) -> bool:
        return bool(self._segments or self._text is not None or self._requests)

    def _read(self, part: ResponsePart) -> None:
        match part:
            case str():
                if self._text is not None or self._requests:
                    self._close()
                self._text = part
            case ChatModelSegment():
                if self._text is not None or self._requests:
                    self._close()
                self._segments.append(part)
            case ChatModelFunctionCall():
                if part.starts_new_chunk and self._is_open:
                    self._close()
                self._read_call(part)
            case _:
                assert_never(part)

    def _read_call(self, call: ChatModelFunctionCall) -> None:
        request_id = f"call{self._n_calls:05d}"
        self._n_calls += 1
        given = {name: getattr(call, name) for name in call.model_fields_set - {"result"}}
        origin = ChatModelFunctionCall(**given)
        arguments = call.arguments if call.has_arguments else {}
        self._requests.append(ToolRequest(call.name, arguments, request_id, origin))
        if call.has_result:
            self._results.append(ToolResult(call.result, request_id))

    def _close(self) -> None:
        message = Message(
            role="assistant",
            contents=() if self._text is None else (TextContent(self._text),),
            tool_requests=self._requests or None,
            segments=self._segments,
            continues=bool(self._messages),
        )
        self._messages += [message, *(Message(tool_result=result) for result in self._results)]
        self._segments, self._text, self._requests, self._results = [], None, [], []


def as_conversation(messages: Sequence[Message], *, where: str = "messages") -> ChatHistory:
    """The conversation that `messages` tell: results stand at their calls, a turn is one model item.

    What an assistant says right behind a tool's result belongs to the turn of the call. Raises
    `HistoryError` with every fault: images, results without a call, two results for one.
    """
    writer = _ConversationWriter()
    for index, message in enumerate(messages):
        writer.write(message, f"{where}[{index}]")
    if writer.faults:
        raise HistoryError(writer.faults)
    return writer.history()


@dataclass(slots=True)
class _ConversationWriter:
    faults: list[Fault] = field(default_factory=list)
    _items: list[ChatHistoryItem] = field(default_factory=list)
    _parts: list[ResponsePart] | None = None
    _places: dict[str, int] = field(default_factory=dict)
    _was_result: bool = False

    def history(self) -> ChatHistory:
        self._close()
        return tuple(self._items)

    def write(self, message: Message, where: str) -> None:
        for index, part in enumerate(message.contents):
            if isinstance(part, ImageContent):
                remedy = "Remove it, or use a model that sees images elsewhere."
                self.faults.append(
                    Fault(f"{where}.contents[{index}]", "a text model can't see an image.", remedy)
                )
        if message.tool_result is not None:
            if message.contents and message.content:
                problem = "a text beside a tool's result."
                self.faults.append(Fault(where, problem, "Make two messages of it."))
            self._write_result(message.tool_result, where)
        elif message.role == "assistant":
            self._write_assistant(message)
        else:
            self._close()
            self._items.append(_plain_item(message))
        self._was_result = message.tool_result is not None

    def _write_assistant(self, message: Message) -> None:
        wants = self._was_result if message.continues is None else message.continues
        continues = self._parts is not None and wants
        if not continues:
            self._close()
            self._parts = []
        assert self._parts is not None
        self._parts += message.segments
        if message.contents:
            self._parts.append(message.content)
        for request in message.tool_requests or ():
            starts_chunk = continues and request is (message.tool_requests or ())[0]
            call = request.origin or _call(request, starts_new_chunk=starts_chunk and bool(self._places))
            self._places[request.tool_request_id] = len(self._parts)
            self._parts.append(call)

    def _write_result(self, result: ToolResult, where: str) -> None:
        place = self._places.pop(result.tool_request_id, None)
        if place is None or self._parts is None:
            problem = f"a result for {result.tool_request_id!r}, but no such request waits for one."
            remedy = "Put it once, behind the message with that request."
            self.faults.append(Fault(f"{where}.tool_result", problem, remedy))
            return
        call = self._parts[place]
        assert isinstance(call, ChatModelFunctionCall)
        self._parts[place] = call.with_result(result.content)

    def _close(self) -> None:
        if self._parts is not None:
            self._items.append(ChatModelResponse(response=tuple(self._parts)))
        self._parts, self._places = None, {}


def _call(request: ToolRequest, *, starts_new_chunk: bool) -> ChatModelFunctionCall:
    call = ChatModelFunctionCall(name=request.name, arguments=request.args)
    return call.model_copy(update={"starts_new_chunk": True}) if starts_new_chunk else call


def _plain_item(message: Message) -> ChatHistoryItem:
    if message.role != "system":
        return ChatUserMessage(text=message.content)
    texts = [part for part in message.contents if not isinstance(part, ImageContent)]
    joined = LlamaText.join_values(
        "\n", [part if isinstance(part, LlamaText) else text_of(part) for part in texts]
    )
    return ChatSystemMessage(text=joined)
