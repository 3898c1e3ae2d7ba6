"""What a conversation is: system, user and model items, and what stands in a model item.

The JSON form is node-llama-cpp's (camelCase keys), so histories saved by either load in the other.
Every function that takes a history takes `HistoryLike`: items, or their JSON form, or a mix.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    TypeAdapter,
    ValidationError,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from chatwrap.chat.json_text import parse_json
from chatwrap.chat.text import LlamaText
from chatwrap.errors import Fault, HistoryError

SegmentType: TypeAlias = Literal["thought", "comment"]


class _Value(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True
    )

    def to_json(self) -> dict[str, Any]:
        """The JSON form, keys in camelCase, what was never set left out."""
        return self.model_dump(mode="json", exclude_unset=True)


class ChatModelFunctionCall(_Value):
    """A function call by the model, and its result once there is one.

    Arguments and result may be any JSON value, null included; one that was never given is absent
    (`has_arguments`, `has_result`). `raw_call` is the call as the model wrote it, put back in place
    of a new rendering. `starts_new_chunk` keeps the call out of the parallel section before it.
    """

    type: Literal["functionCall"] = "functionCall"
    name: str
    description: str | None = None
    arguments: JsonValue = Field(
        default=None, validation_alias=AliasChoices("params", "arguments"), serialization_alias="params"
    )
    result: JsonValue = None
    raw_call: LlamaText | None = None
    starts_new_chunk: bool = False

    @property
    def has_arguments(self) -> bool:
        return "arguments" in self.model_fields_set

    @property
    def has_result(self) -> bool:
        return "result" in self.model_fields_set

    def with_result(self, result: JsonValue) -> Self:
        """This call with its result."""
        return self.model_copy(update={"result": result})

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type, **super().to_json()}


class ChatModelSegment(_Value):
    """A part of the model's response that isn't its answer: a thought or a comment.

    `ended` is False while the segment is open. `raw` is the segment as the model wrote it, markers
    included.
    """

    type: Literal["segment"] = "segment"
    segment_type: SegmentType
    text: str
    ended: bool = True
    raw: LlamaText | None = None
    start_time: str | None = None
    end_time: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type, "ended": self.ended, **super().to_json()}


def _tag(value: Any) -> Any:
    """Which kind of part or message `value` is: what the unions below are told apart by."""
    if isinstance(value, str):
        return "text"
    return value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)


ResponsePart: TypeAlias = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[ChatModelFunctionCall, Tag("functionCall")]
    | Annotated[ChatModelSegment, Tag("segment")],
    Discriminator(_tag),
]


class ChatSystemMessage(_Value):
    """Instructions to the model. The text may hold control text where chatwrap wrote it."""

    type: Literal["system"] = "system"
    text: LlamaText

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type, **super().to_json()}


class ChatUserMessage(_Value):
    """What the user said: content, never control text."""

    type: Literal["user"] = "user"
    text: str

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type, **super().to_json()}


class ChatModelResponse(_Value):
    """A turn of the model: texts, function calls and segments in the order they came."""

    type: Literal["model"] = "model"
    response: tuple[ResponsePart, ...] = ()

    @property
    def text(self) -> str:
        """The answer: all texts joined, without calls and segments."""
        return "".join(part for part in self.response if isinstance(part, str))

    def to_json(self) -> dict[str, Any]:
        parts = [part if isinstance(part, str) else part.to_json() for part in self.response]
        return {"type": self.type, "response": parts}


ChatHistoryItem: TypeAlias = ChatSystemMessage | ChatUserMessage | ChatModelResponse
ChatHistory: TypeAlias = tuple[ChatHistoryItem, ...]
HistoryLike: TypeAlias = Sequence[ChatHistoryItem | Mapping[str, Any]]

# Up to this many characters a message is worth keeping for the next time it is read.
_SHORT: Final = 2000
_ITEM_TYPES: Final = frozenset({ChatSystemMessage, ChatUserMessage, ChatModelResponse})
_ITEM: TypeAdapter[ChatHistoryItem] = TypeAdapter(
    Annotated[
        Annotated[ChatSystemMessage, Tag("system")]
        | Annotated[ChatUserMessage, Tag("user")]
        | Annotated[ChatModelResponse, Tag("model")],
        Discriminator(_tag),
    ]
)


def _said(value: Any) -> ChatHistoryItem | None:
    """The item that a short plain message stands for, the same object each time; None for any other."""
    if type(value) is not dict or len(value) != 2:
        return None
    kind = value.get("type")
    text: Any = None
    if kind == "user" or kind == "system":
        text = value.get("text")
    elif kind == "model":
        parts = value.get("response")
        text = parts[0] if type(parts) is list and len(parts) == 1 else None
    return _said_text(kind, text) if type(text) is str and len(text) <= _SHORT else None


@lru_cache(maxsize=4096)
def _said_text(kind: str, text: str) -> ChatHistoryItem:
    value = {"type": kind, "response": [text]} if kind == "model" else {"type": kind, "text": text}
    return _ITEM.validate_python(value)


def as_history(history: HistoryLike | str, *, where: str = "history") -> ChatHistory:
    """`history` as a tuple of items: items stay, dicts and JSON text are read.

    Raises `HistoryError` with every fault found, each with its path.
    """
    if type(history) is tuple and _ITEM_TYPES.issuperset(map(type, history)):
        return history
    values = parse_json(history, where=where) if isinstance(history, str) else history
    if isinstance(values, Mapping | str) or not isinstance(values, Iterable):
        raise HistoryError.of(
            where, f"a {type(values).__name__}, not a list of messages.", "Put it in a list."
        )
    items: list[ChatHistoryItem] = []
    faults: list[Fault] = []
    for index, value in enumerate(values):
        if isinstance(value, ChatSystemMessage | ChatUserMessage | ChatModelResponse):
            items.append(value)
            continue
        if (said := _said(value)) is not None:
            items.append(said)
            continue
        try:
            items.append(_ITEM.validate_python(value))
        except ValidationError as error:
            faults += [_fault(f"{where}[{index}]", detail) for detail in error.errors()]
    if faults:
        raise HistoryError(faults)
    return tuple(items)


def history_to_json(history: HistoryLike) -> list[dict[str, Any]]:
    """The JSON form of a history, readable by `as_history` and by node-llama-cpp."""
    return [item.to_json() for item in as_history(history)]


def _fault(where: str, detail: ErrorDetails) -> Fault:
    path = where + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in _steps(detail))
    given = detail["input"]
    match detail["type"]:
        case "union_tag_not_found" | "union_tag_invalid":
            return _wrong_kind(path, given, "system', 'user' or 'model", "functionCall' or 'segment")
        case "missing":
            return Fault(path, "missing.")
        case "extra_forbidden":
            return Fault(path, f"unknown key, with the value {_shown(given)}.", "Remove it.")
        case "value_error":
            return Fault(path, str(detail["ctx"]["error"]))
        case _:
            problem = detail["msg"].removeprefix("Input should be ").removeprefix("input was not ")
            problem = problem.removesuffix(", unable to interpret input")
            return Fault(path, f"must be {problem}, not {_shown(given)}.")


def _steps(detail: ErrorDetails) -> Iterator[int | str]:
    """The path of a fault, without the tags that pydantic puts in and without a way into a JSON value."""
    match detail["loc"]:
        case (_, "response", int(index), _, key, *_):
            yield from ("response", index, key)
        case (_, "response", int(index), *_):
            yield from ("response", index)
        case (_, key, *_):
            yield key


def _wrong_kind(path: str, given: Any, items: str, parts: str) -> Fault:
    kinds = parts if ".response[" in path else items
    if not isinstance(given, Mapping):
        return Fault(path, f"must be an object, not {_shown(given)}.", f"Its type is '{kinds}'.")
    if "role" in given and "type" not in given:
        remedy = "Convert the list with chatwrap.history_from_openai first."
        return Fault(path, f"an OpenAI message, role {given['role']!r}.", remedy)
    return Fault(path, f"no type {given.get('type')!r}.", f"Use '{kinds}'.")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
