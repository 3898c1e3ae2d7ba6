"""Dotprompt's common model interface: messages and their parts, and the request they make up.

The JSON form is that of Dotprompt's reference implementation (camelCase keys, nothing for what isn't set).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, JsonValue, Tag, ValidationError
from pydantic.alias_generators import to_camel

from chatwrap.dotprompt.handlebars.values import shown
from chatwrap.errors import DotpromptError, Fault

_Kind = TypeVar("_Kind", bound=BaseModel)
Role: TypeAlias = Literal["system", "user", "model", "tool"]
ROLES: Final = ("system", "user", "model", "tool")


class Value(BaseModel):
    """A value with Dotprompt's JSON form."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True
    )

    def to_json(self) -> dict[str, Any]:
        """The JSON form; what was never set is left out."""
        return self.model_dump(mode="json", exclude_unset=True)


class TextPart(Value):
    """Text. Thoughts are told by ``{"purpose": "thought"}`` in `metadata`."""

    text: str
    metadata: dict[str, JsonValue] | None = None


class Media(Value):
    """An image or another medium at a ``data:`` or ``https:`` address."""

    url: str
    content_type: str | None = None

    def typed(self) -> Media:
        """This medium with the content type that a ``data:`` address tells, if it has none itself."""
        if self.content_type is not None or not self.url.startswith("data:"):
            return self
        told = self.url[5:].partition(",")[0].partition(";")[0]
        return Media(url=self.url, content_type=told) if "/" in told else self


class MediaPart(Value):
    media: Media
    metadata: dict[str, JsonValue] | None = None


class ToolRequest(Value):
    """A call of a tool; `ref` tells it from other calls."""

    name: str
    ref: str | None = None
    input: JsonValue = None


class ToolRequestPart(Value):
    tool_request: ToolRequest
    metadata: dict[str, JsonValue] | None = None


class ToolResponse(Value):
    """What a tool answered to the call with the same `ref`."""

    name: str
    ref: str | None = None
    output: JsonValue = None


class ToolResponsePart(Value):
    tool_response: ToolResponse
    metadata: dict[str, JsonValue] | None = None


class DataPart(Value):
    """A JSON value."""

    data: JsonValue
    metadata: dict[str, JsonValue] | None = None


class PendingPart(Value):
    """A place for a section: ``{"purpose": NAME, "pending": true}``."""

    metadata: dict[str, JsonValue]


_PART_KEYS: Final = {
    "text": "text",
    "media": "media",
    "toolRequest": "toolRequest",
    "tool_request": "toolRequest",
    "toolResponse": "toolResponse",
    "tool_response": "toolResponse",
    "data": "data",
}


def _part_kind(value: Any) -> str:
    """Which kind of part a value is: what the union below is told apart by."""
    keys = value if isinstance(value, Mapping) else getattr(type(value), "model_fields", ())
    return next((kind for key, kind in _PART_KEYS.items() if key in keys), "pending")


Part: TypeAlias = Annotated[
    Annotated[TextPart, Tag("text")]
    | Annotated[MediaPart, Tag("media")]
    | Annotated[ToolRequestPart, Tag("toolRequest")]
    | Annotated[ToolResponsePart, Tag("toolResponse")]
    | Annotated[DataPart, Tag("data")]
    | Annotated[PendingPart, Tag("pending")],
    Discriminator(_part_kind),
]


def _parts(value: Any) -> Any:
    return [{"text": value}] if isinstance(value, str) else value


def _role(value: Any) -> Any:
    return "model" if value == "assistant" else value


class Message(Value):
    """A turn of a conversation. Its content may be given as one string."""

    role: Annotated[Role, BeforeValidator(_role)]
    content: Annotated[tuple[Part, ...], BeforeValidator(_parts)]
    metadata: dict[str, JsonValue] | None = None

    @property
    def text(self) -> str:
        """All texts joined."""
        return "".join(part.text for part in self.content if isinstance(part, TextPart))


class Document(Value):
    """A document that grounds an answer. Its content may be given as one string."""

    content: Annotated[tuple[Part, ...], BeforeValidator(_parts)]
    id: str | None = None
    metadata: dict[str, JsonValue] | None = None


class ToolDefinition(Value):
    """A tool by name, with the JSON Schemas of what it takes and gives."""

    name: str
    description: str | None = None
    input_schema: dict[str, JsonValue] | None = None
    output_schema: dict[str, JsonValue] | None = None


class GenerateRequest(Value):
    """All that a model is asked. `output` is ``{"format": ..., "schema": ...}``."""

    messages: tuple[Message, ...]
    config: dict[str, JsonValue] | None = None
    tools: tuple[ToolDefinition, ...] | None = None
    output: dict[str, JsonValue] | None = None
    context: tuple[Document, ...] | None = None


def as_messages(
    values: Iterable[Message | Mapping[str, Any]], *, where: str = "messages"
) -> tuple[Message, ...]:
    """`values` as messages, read from their JSON form where they aren't yet.

    Raises `DotpromptError` with all faults, each with its path.
    """
    return _read(Message, values, where)


def as_documents(
    values: Iterable[Document | Mapping[str, Any]], *, where: str = "docs"
) -> tuple[Document, ...]:
    """`values` as documents; see `as_messages`."""
    return _read(Document, values, where)


def faults_of(error: ValidationError, where: str) -> list[Fault]:
    """What pydantic found wrong with the value that errors call `where`."""
    faults = []
    for detail in error.errors():
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in _steps(detail["loc"]))
        problem = detail["msg"].removeprefix("Input should be ")
        given = shown(detail["input"])
        match detail["type"]:
            case "missing":
                faults.append(Fault(where + path, "missing."))
            case "extra_forbidden":
                faults.append(Fault(where + path, f"unknown key, with the value {given}.", "Remove it."))
            case _:
                faults.append(Fault(where + path, f"must be {problem}, not {given}."))
    return faults


def _steps(loc: tuple[int | str, ...]) -> Iterator[int | str]:
    """A fault's path without the kinds of parts that pydantic puts in, and without a way into JSON."""
    kinds = {*_PART_KEYS.values(), "pending"}
    for index, step in enumerate(loc):
        if step in ("list", "dict"):
            return
        is_kind = index > 0 and isinstance(loc[index - 1], int) and step in kinds
        if not is_kind:
            yield step


def _read(kind: type[_Kind], values: Any, where: str) -> tuple[_Kind, ...]:
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise DotpromptError.of(where, f"a {type(values).__name__}, not a list.", "Put it in a list.")
    read: list[_Kind] = []
    faults: list[Fault] = []
    for index, value in enumerate(values):
        try:
            read.append(value if isinstance(value, kind) else kind.model_validate(value))
        except ValidationError as error:
            faults += faults_of(error, f"{where}[{index}]")
    if faults:
        raise DotpromptError(faults)
    return tuple(read)
