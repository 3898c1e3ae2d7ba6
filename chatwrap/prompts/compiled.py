"""`CompiledMessages`: a template's messages, checked and compiled, and what they make of values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from chatwrap.chat.json_text import dump_json
from chatwrap.errors import Fault, PromptError
from chatwrap.prompts.contents import MessageContent, TextContent
from chatwrap.prompts.messages import Message
from chatwrap.prompts.rendering import TemplateText, compiled
from chatwrap.prompts.variables import Variable

HISTORY_NAME: Final = "__CHAT_HISTORY__"
TOOLS_NAME: Final = "__TOOLS__"
RESPONSE_FORMAT_NAME: Final = "__RESPONSE_FORMAT__"
PLACEHOLDER: Final = Message("$$__CHAT_HISTORY_PLACEHOLDER__$$", role="system")


@dataclass(frozen=True, slots=True, eq=False)
class CompiledMessage:
    """A message whose texts are compiled; `where` is what errors call it."""

    message: Message
    where: str
    parts: tuple[TemplateText | MessageContent, ...]
    is_fixed: bool

    def render(self, values: dict[str, Any]) -> Message:
        """The message with each text rendered, its tool data and images as they are."""
        if self.is_fixed:
            return self.message
        contents = tuple(
            TextContent(part.render(values, self.where)) if isinstance(part, TemplateText) else part
            for part in self.parts
        )
        return self.message.copy(contents=contents)


@dataclass(frozen=True, slots=True, eq=False)
class CompiledMessages:
    """The messages before and after the place where the history is put in, if there is one."""

    before: tuple[CompiledMessage, ...]
    after: tuple[CompiledMessage, ...]
    has_placeholder: bool
    variables: tuple[Variable, ...]

    @classmethod
    def of(cls, messages: Sequence[Message], name: str) -> CompiledMessages:
        """The messages of the template `name`. Raises `PromptError` with every fault in them."""
        faults: list[Fault] = []
        places = [index for index, message in enumerate(messages) if message == PLACEHOLDER]
        for index in places[1:]:
            where = _where(name, index)
            faults.append(Fault(where, "a second placeholder for the chat history.", "Put it once."))
        read: list[CompiledMessage] = []
        for index, message in enumerate(messages):
            if index not in places:
                read.append(_compile(message, _where(name, index), faults))
        variables = tuple(variable for each in read for variable in _variables(each.parts))
        if places and any(variable.name == HISTORY_NAME for variable in variables):
            problem = f"it holds the chat history both as messages and as {{{{{HISTORY_NAME}}}}}."
            faults.append(Fault(title_of(name), problem, "Use one of the two."))
        if faults:
            raise PromptError(faults)
        n_before = places[0] if places else len(read)
        return cls(tuple(read[:n_before]), tuple(read[n_before:]), bool(places), variables)

    @property
    def reads_history(self) -> bool:
        """Whether the history is printed in a text, as values."""
        return self.reads(HISTORY_NAME)

    def reads(self, name: str) -> bool:
        return any(variable.name == name for variable in self.variables)

    def where_read(self, name: str) -> str:
        """What errors call the first message that reads the variable `name`."""
        reading = (each for each in (*self.before, *self.after) if name in _names(each.parts))
        return next(reading).where

    def render(self, values: dict[str, Any], history: Sequence[Message]) -> list[Message]:
        """The messages, rendered, with `history` in its place. Raises `PromptError` with every fault."""
        faults: list[Fault] = []
        before = [_rendered(message, values, faults) for message in self.before]
        after = [_rendered(message, values, faults) for message in self.after]
        if faults:
            raise PromptError(faults)
        return [*before, *history, *after] if self.has_placeholder else before


def _rendered(message: CompiledMessage, values: dict[str, Any], faults: list[Fault]) -> Message:
    try:
        return message.render(values)
    except PromptError as error:
        faults += error.faults
        return message.message


def title_of(name: str) -> str:
    return f"template {name!r}" if name else "template"


def _where(name: str, index: int) -> str:
    return f"{title_of(name)}, messages[{index}]"


def _compile(message: Message, where: str, faults: list[Fault]) -> CompiledMessage:
    parts: list[TemplateText | MessageContent] = []
    for part in message.contents:
        read = compiled(part.content) if isinstance(part, TextContent) else part
        if isinstance(read, tuple):
            faults += [
                Fault(", ".join(filter(None, (where, fault.where))), fault.problem, fault.remedy)
                for fault in read
            ]
            continue
        parts.append(read)
    texts = [part for part in parts if isinstance(part, TemplateText)]
    fixed = all(text.fixed is not None for text in texts)
    if fixed:
        contents = [
            TextContent(part.fixed or "") if isinstance(part, TemplateText) else part for part in parts
        ]
        message = message.copy(contents=contents)
    return CompiledMessage(message, where, tuple(parts), fixed)


def _variables(parts: Iterable[TemplateText | MessageContent]) -> Iterable[Variable]:
    for part in parts:
        if isinstance(part, TemplateText):
            yield from part.variables


def _names(parts: Iterable[TemplateText | MessageContent]) -> list[str]:
    return [variable.name for variable in _variables(parts)]


def history_values(history: Sequence[Message]) -> list[dict[str, Any]]:
    """The history as values for a text that prints it: role, type, text and tool data of each message."""
    return [_message_values(message) for message in history]


def _message_values(message: Message) -> dict[str, Any]:
    result: Mapping[str, Any] | None = None
    if message.tool_result is not None:
        found = message.tool_result
        content = found.content
        text = content if isinstance(content, str) else dump_json(content, where="tool_result")
        result = {"content": text, "tool_request_id": found.tool_request_id}
    return {
        "role": message.role,
        "message_type": message.message_type.value,
        "content": message.content,
        "tool_requests": [
            {"name": each.name, "args": each.args, "tool_request_id": each.tool_request_id}
            for each in message.tool_requests or ()
        ],
        "tool_result": result,
    }
