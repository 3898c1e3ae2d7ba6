"""`Message`: one message of a prompt, and the forms that it may be given in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, NotRequired, Self, TypeAlias, TypedDict, get_args

from chatwrap.chat.history import ChatModelSegment
from chatwrap.chat.json_text import dump_json
from chatwrap.chat.text import LlamaText
from chatwrap.errors import Fault, HistoryError
from chatwrap.prompts.contents import ImageContent, MessageContent, TextContent, ToolRequest, ToolResult

Role: TypeAlias = Literal["user", "assistant", "system"]
_ROLES: Final[tuple[str, ...]] = get_args(Role)


class MessageType(StrEnum):
    """What a message is, by its role and by what it holds."""

    SYSTEM = "SYSTEM"
    USER = "USER"
    AGENT = "AGENT"
    TOOL_REQUEST = "TOOL_REQUEST"
    TOOL_RESULT = "TOOL_RESULT"


_ROLE_OF_TYPE: Final[Mapping[str, Role]] = {
    MessageType.SYSTEM: "system",
    MessageType.USER: "user",
    MessageType.AGENT: "assistant",
    MessageType.TOOL_REQUEST: "assistant",
    MessageType.TOOL_RESULT: "user",
}


class ToolRequestAsDict(TypedDict):
    """The dict form of a `ToolRequest`."""

    name: str
    args: dict[str, Any]
    tool_request_id: str


class ToolResultAsDict(TypedDict):
    """The dict form of a `ToolResult`."""

    content: Any
    tool_request_id: str


class MessageAsDict(TypedDict):
    """The dict form of a `Message`."""

    role: Role
    content: str
    tool_requests: NotRequired[list[ToolRequestAsDict] | None]
    tool_result: NotRequired[ToolResultAsDict | None]


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """A message: a role, texts and images, requests to call tools or the result of one.

    The role is ``user`` unless given, ``assistant`` where tools are requested. `segments` are thoughts
    and comments before the text. `continues` says whether the message goes on with the turn of the one
    before, which it was cut from; None: if that is a tool's result. Raises `HistoryError` with every fault.

    >>> Message("Hi").role, Message(tool_requests=[ToolRequest("now")]).message_type.value
    ('user', 'TOOL_REQUEST')
    """

    role: Role
    contents: tuple[MessageContent, ...]
    tool_requests: tuple[ToolRequest, ...] | None
    tool_result: ToolResult | None
    segments: tuple[ChatModelSegment, ...]
    continues: bool | None

    def __init__(
        self,
        content: str | None = None,
        message_type: MessageType | str | None = None,
        tool_requests: Iterable[ToolRequest] | None = None,
        tool_result: ToolResult | None = None,
        *,
        role: str | None = None,
        contents: Iterable[MessageContent] | None = None,
        segments: Iterable[ChatModelSegment] = (),
        continues: bool | None = None,
    ) -> None:
        requests = tuple(tool_requests) if tool_requests is not None else None
        given = tuple(contents) if contents is not None else None
        role = "assistant" if role == "model" else role
        faults = list(_faults(content, given, role, message_type, requests, tool_result))
        if faults:
            raise HistoryError(faults)
        if message_type is not None:
            role = _ROLE_OF_TYPE[message_type]
        if given is None:
            given = () if content is None else (TextContent(content),)
        put = object.__setattr__
        put(self, "role", role or ("assistant" if requests else "user"))
        put(self, "contents", given)
        put(self, "tool_requests", requests or None)
        put(self, "tool_result", tool_result)
        put(self, "segments", tuple(segments))
        put(self, "continues", continues)

    @property
    def content(self) -> str:
        """The texts, one a line; without any the tool's result as text."""
        if len(self.contents) == 1 and isinstance(self.contents[0], TextContent):
            return self.contents[0].content
        texts = [text_of(part) for part in self.contents if not isinstance(part, ImageContent)]
        if texts or self.tool_result is None:
            return "\n".join(texts)
        result = self.tool_result.content
        return result if isinstance(result, str) else dump_json(result, where="tool_result")

    @property
    def thought(self) -> str:
        """What the model thought before it wrote the text."""
        return "".join(segment.text for segment in self.segments if segment.segment_type == "thought")

    @property
    def message_type(self) -> MessageType:
        if self.tool_requests:
            return MessageType.TOOL_REQUEST
        if self.tool_result is not None:
            return MessageType.TOOL_RESULT
        return {"system": MessageType.SYSTEM, "user": MessageType.USER, "assistant": MessageType.AGENT}[
            self.role
        ]

    @property
    def has_tool_data(self) -> bool:
        return bool(self.tool_requests) or self.tool_result is not None

    def copy(self, **changes: Any) -> Self:
        """This message with `changes`, fields by name; `content` replaces the contents."""
        fields = {
            "role": self.role,
            "contents": self.contents,
            "tool_requests": self.tool_requests,
            "tool_result": self.tool_result,
            "segments": self.segments,
            "continues": self.continues,
        }
        if "content" in changes:
            del fields["contents"]
        return type(self)(**{**fields, **changes})

    def as_dict(self) -> dict[str, Any]:
        """The dict form, readable by `read_message`. Images and segments have no place in it."""
        form: dict[str, Any] = {"role": self.role, "content": self.content if self.contents else ""}
        if self.tool_requests:
            form["tool_requests"] = [
                {"name": request.name, "args": request.args, "tool_request_id": request.tool_request_id}
                for request in self.tool_requests
            ]
        if self.tool_result is not None:
            result = self.tool_result
            form["tool_result"] = {
                "content": result.content,
                "tool_request_id": result.tool_request_id,
            }
        return form


def text_of(part: TextContent | LlamaText) -> str:
    return part.content if isinstance(part, TextContent) else str(part)


def read_message(form: Mapping[str, Any], where: str) -> Message:
    """The message that a dict is. Raises `HistoryError`, which calls it `where`, with every fault."""
    faults = list(_dict_faults(form, where))
    if faults:
        raise HistoryError(faults)
    requests, result = form.get("tool_requests"), form.get("tool_result")
    content = form.get("content")
    has_no_text = not content and (result is not None or requests)
    return Message(
        role=form["role"],
        contents=() if content is None or has_no_text else (TextContent(content),),
        tool_requests=[ToolRequest(**request) for request in requests] if requests else None,
        tool_result=ToolResult(**result) if result is not None else None,
    )


def _dict_faults(form: Mapping[str, Any], where: str) -> Iterable[Fault]:
    role = form.get("role")
    if not isinstance(role, str) or role not in (*_ROLES, "model"):
        problem = f"no role {role!r}." if "role" in form else "no role."
        yield Fault(f"{where}.role", problem, f"Use one of {', '.join(_ROLES)}.")
    for key in form:
        if key not in ("role", "content", "tool_requests", "tool_result"):
            yield Fault(
                f"{where}.{key}", "unknown key.", "Known are role, content, tool_requests, tool_result."
            )
    content = form.get("content", "")
    if not isinstance(content, str | None):
        yield Fault(f"{where}.content", f"of type {type(content).__name__}, no text.", "Give a string.")
    requests = form.get("tool_requests") or ()
    if not isinstance(requests, Sequence) or isinstance(requests, str):
        yield Fault(f"{where}.tool_requests", f"of type {type(requests).__name__}, no list.", "Give a list.")
        return
    for index, request in enumerate(requests):
        yield from _part_faults(
            request, ("name", "args", "tool_request_id"), f"{where}.tool_requests[{index}]"
        )
    if (result := form.get("tool_result")) is not None:
        yield from _part_faults(result, ("content", "tool_request_id"), f"{where}.tool_result")


def _part_faults(part: Any, keys: tuple[str, ...], where: str) -> Iterable[Fault]:
    if not isinstance(part, Mapping) or set(part) != set(keys):
        yield Fault(where, f"not a dict with the keys {', '.join(keys)}: {part!r:.60}.", "Give these keys.")


def _faults(
    content: object,
    contents: tuple[Any, ...] | None,
    role: str | None,
    message_type: str | None,
    requests: tuple[Any, ...] | None,
    result: object,
) -> Iterable[Fault]:
    if not isinstance(content, str | None):
        yield Fault("message.content", f"of type {type(content).__name__}, no text.", "Give a string.")
    if content is not None and contents is not None:
        yield Fault("message.contents", "given together with content.", "Give one of them.")
    for index, part in enumerate(contents or ()):
        if not isinstance(part, MessageContent):
            problem = f"can't hold a {type(part).__name__}."
            yield Fault(f"message.contents[{index}]", problem, "Give a TextContent or an ImageContent.")
    if role is not None and message_type is not None:
        yield Fault("message.role", "given together with message_type.", "Give one of them.")
    if role is not None and role not in _ROLES:
        yield Fault("message.role", f"no role {role!r}.", f"Use one of {', '.join(_ROLES)}.")
    if message_type is not None and message_type not in _ROLE_OF_TYPE:
        yield Fault(
            "message.message_type", f"no type {message_type!r}.", f"Use one of {', '.join(_ROLE_OF_TYPE)}."
        )
        return
    yield from _tool_faults(role or _ROLE_OF_TYPE.get(message_type or ""), requests, result)


def _tool_faults(role: str | None, requests: tuple[Any, ...] | None, result: object) -> Iterable[Fault]:
    for index, request in enumerate(requests or ()):
        if not isinstance(request, ToolRequest):
            problem = f"of type {type(request).__name__}, no ToolRequest."
            yield Fault(f"message.tool_requests[{index}]", problem, "Give ToolRequest(name, args).")
    if not isinstance(result, ToolResult | None):
        problem = f"of type {type(result).__name__}, no ToolResult."
        yield Fault("message.tool_result", problem, "Give ToolResult(content, tool_request_id).")
    if requests and role not in (None, "assistant"):
        yield Fault(
            "message.tool_requests", f"only an assistant requests tools, not a {role}.", "Leave the role out."
        )
    if result is not None and role == "system":
        yield Fault(
            "message.tool_result", "a system message can't hold a tool's result.", "Use the role user."
        )
    if requests and result is not None:
        yield Fault("message.tool_result", "given together with tool_requests.", "Make two messages of it.")
