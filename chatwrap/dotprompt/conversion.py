"""Messages to chatwrap's histories and back, and by them to OpenAI messages and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, assert_never, get_args

from chatwrap.chat.history import (
    ChatHistory,
    ChatHistoryItem,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatModelSegment,
    ChatSystemMessage,
    ChatUserMessage,
    HistoryLike,
    ResponsePart,
    SegmentType,
    as_history,
)
from chatwrap.chat.json_text import dump_json
from chatwrap.chat.openai import history_from_openai, history_to_openai
from chatwrap.chat.text import LlamaText
from chatwrap.dotprompt.request import (
    DataPart,
    MediaPart,
    Message,
    Part,
    PendingPart,
    TextPart,
    ToolRequest,
    ToolRequestPart,
    ToolResponse,
    ToolResponsePart,
    as_messages,
)
from chatwrap.errors import DotpromptError, Fault

_SEGMENTS: Final = get_args(SegmentType)


def to_history(messages: Iterable[Message | Mapping[str, Any]]) -> ChatHistory:
    """The history that messages tell: a model's turn is one item, with its tools' answers in it.

    Raises `DotpromptError` with every part that a history can't hold, by path: media, sections that
    nobody filled, answers of tools that weren't called.
    """
    reader = _Reader()
    for index, message in enumerate(as_messages(messages)):
        reader.read(message, f"messages[{index}]")
    reader.end_turn()
    if reader.faults:
        raise DotpromptError(reader.faults)
    return tuple(reader.items)


def from_history(history: HistoryLike | str) -> tuple[Message, ...]:
    """The messages that a history tells. Calls have no `ref` but their place: ``call0``, ``call1``, ...

    Law: ``to_history(from_history(history)) == history``, but for empty texts, how a call was written
    and what a model's neighbouring turns were before they were joined.
    """
    messages: list[Message] = []
    n_calls = 0
    for item in as_history(history):
        match item:
            case ChatSystemMessage():
                messages.append(Message(role="system", content=(TextPart(text=str(item.text)),)))
            case ChatUserMessage():
                messages.append(Message(role="user", content=(TextPart(text=item.text),)))
            case ChatModelResponse():
                messages += _turn(item, n_calls)
                n_calls += sum(isinstance(part, ChatModelFunctionCall) for part in item.response)
            case _:
                assert_never(item)
    return tuple(messages)


def to_openai(messages: Iterable[Message | Mapping[str, Any]]) -> list[dict[str, Any]]:
    """OpenAI chat messages. Raises `DotpromptError` as `to_history` does."""
    return history_to_openai(to_history(messages))


def from_openai(messages: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    """The messages that OpenAI chat messages tell. Raises `HistoryError` for what is wrong with them."""
    return from_history(history_from_openai(messages))


@dataclass(slots=True)
class _Reader:
    """Reads messages into history items and collects faults."""

    items: list[ChatHistoryItem] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    _turn: list[ResponsePart] = field(default_factory=list)
    _waiting: dict[int, ToolRequest] = field(default_factory=dict)
    _answered: bool = False

    def read(self, message: Message, where: str) -> None:
        match message.role:
            case "system" | "user":
                self.end_turn()
                texts = [
                    self._text(part, f"{where}.content[{index}]")
                    for index, part in enumerate(message.content)
                ]
                is_system, text = message.role == "system", "".join(texts)
                item = ChatSystemMessage(text=LlamaText(text)) if is_system else ChatUserMessage(text=text)
                self.items.append(item)
            case "model":
                if not self._answered:
                    self.end_turn()
                self._answered = False
                for index, part in enumerate(message.content):
                    self._model_part(part, f"{where}.content[{index}]")
                if not self._turn:
                    self.items.append(ChatModelResponse())
            case "tool":
                for index, part in enumerate(message.content):
                    self._result(part, f"{where}.content[{index}]")
            case _:
                assert_never(message.role)

    def end_turn(self) -> None:
        if self._turn:
            self.items.append(ChatModelResponse(response=tuple(self._turn)))
        self._turn, self._answered = [], False
        self._waiting.clear()

    def _text(self, part: Part, where: str) -> str:
        match part:
            case TextPart():
                return part.text
            case DataPart():
                return dump_json(part.data)
            case MediaPart():
                self._fault(
                    where, f"a medium, {part.media.url[:40]!r}.", "A text model can't see it. Remove it."
                )
            case PendingPart():
                name = part.metadata.get("purpose")
                self._fault(where, f"the section {name!r}, which nobody filled.", "Give its text.")
            case ToolRequestPart() | ToolResponsePart():
                self._fault(where, "a tool's request or response.", "Put it in a message of model or tool.")
            case _:
                assert_never(part)
        return ""

    def _model_part(self, part: Part, where: str) -> None:
        if isinstance(part, ToolRequestPart):
            request = part.tool_request
            self._waiting[len(self._turn)] = request
            given: dict[str, Any] = (
                {"arguments": request.input} if "input" in request.model_fields_set else {}
            )
            is_first = not self._turn or not isinstance(self._turn[-1], ChatModelFunctionCall)
            call = ChatModelFunctionCall(name=request.name, **given)
            is_new = not is_first and self._is_answered(len(self._turn) - 1)
            self._turn.append(call.model_copy(update={"starts_new_chunk": True}) if is_new else call)
            return
        text = self._text(part, where)
        purpose = (part.metadata or {}).get("purpose")
        if purpose in _SEGMENTS:
            self._turn.append(ChatModelSegment(segment_type=purpose, text=text))  # type: ignore[arg-type]
        elif text:
            self._turn.append(text)

    def _is_answered(self, index: int) -> bool:
        part = self._turn[index]
        return isinstance(part, ChatModelFunctionCall) and part.has_result

    def _result(self, part: Part, where: str) -> None:
        if not isinstance(part, ToolResponsePart):
            self._fault(where, "no tool's response.", "Put it in a message of another role.")
            return
        response = part.tool_response
        key = response.ref or response.name
        index = next(
            (index for index, call in self._waiting.items() if key == (call.ref or call.name)),
            next((index for index, call in self._waiting.items() if response.name == call.name), None),
        )
        if index is None:
            remedy = "Put it behind the model's message with that call."
            self._fault(where, f"a response of {key!r}, but no such call before.", remedy)
            return
        del self._waiting[index]
        call = self._turn[index]
        assert isinstance(call, ChatModelFunctionCall)
        self._turn[index] = call.with_result(response.output)
        self._answered = True

    def _fault(self, where: str, problem: str, remedy: str) -> None:
        self.faults.append(Fault(where, problem, remedy))


def _turn(item: ChatModelResponse, n_calls: int) -> list[Message]:
    """A model's item as messages: texts and calls, then the tools' answers, and so on."""
    messages: list[Message] = []
    parts: list[Part] = []
    answers: list[Part] = []
    for part in item.response:
        if answers and (not isinstance(part, ChatModelFunctionCall) or part.starts_new_chunk):
            messages += [_message("model", parts), _message("tool", answers)]
            parts, answers = [], []
        if isinstance(part, str):
            parts.append(TextPart(text=part))
        elif isinstance(part, ChatModelSegment):
            parts.append(TextPart(text=part.text, metadata={"purpose": part.segment_type}))
        else:
            ref = f"call{n_calls}"
            n_calls += 1
            given = {"input": part.arguments} if part.has_arguments else {}
            parts.append(ToolRequestPart(tool_request=ToolRequest(name=part.name, ref=ref, **given)))
            if part.has_result:
                response = ToolResponse(name=part.name, ref=ref, output=part.result)
                answers.append(ToolResponsePart(tool_response=response))
    messages.append(_message("model", parts))
    return [*messages, _message("tool", answers)] if answers else messages


def _message(role: Any, parts: list[Part]) -> Message:
    return Message(role=role, content=tuple(parts))
