"""What a prompt is rendered with: variables, context, documents and the conversation so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from pydantic import BaseModel

from chatwrap.chat.history import ChatModelResponse, ChatSystemMessage, ChatUserMessage
from chatwrap.dotprompt.conversion import from_history
from chatwrap.dotprompt.request import Document, Message, as_documents, as_messages
from chatwrap.errors import DotpromptError

_KEYS = ("input", "context", "docs", "messages")


@dataclass(frozen=True, slots=True)
class DataArgument:
    """`input` are the variables, `context` the ``@`` variables, `messages` the conversation so far."""

    input: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    docs: tuple[Document, ...] = ()
    messages: tuple[Message, ...] = ()

    @classmethod
    def of(cls, value: DataLike | None) -> Self:
        """The data in its JSON form, in which `messages` may also be a chatwrap history.

        Raises `DotpromptError` for unknown keys and for what isn't a message or document.
        """
        if value is None:
            return cls()
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise DotpromptError.of("data", f"a {type(value).__name__}, not a mapping.", _remedy())
        if unknown := [key for key in value if key not in _KEYS]:
            raise DotpromptError.of("data", f"unknown key {unknown[0]!r}.", _remedy())
        return cls(
            variables(value.get("input"), "input"),
            variables(value.get("context"), "context"),
            as_documents(value.get("docs") or ()),
            conversation(value.get("messages") or ()),
        )


DataLike: TypeAlias = "DataArgument | Mapping[str, Any]"


def _remedy() -> str:
    return "Give input, context, docs or messages; variables go under input."


def variables(value: Any, where: str) -> Mapping[str, Any]:
    """`value` as names with values: a mapping, or a pydantic model's fields."""
    if value is None:
        return {}
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if not isinstance(value, Mapping):
        raise DotpromptError.of(where, f"a {type(value).__name__}, not a mapping.", "Give names with values.")
    if any(isinstance(member, BaseModel) for member in value.values()):
        return {
            name: member.model_dump(mode="json", by_alias=True) if isinstance(member, BaseModel) else member
            for name, member in value.items()
        }
    return value


def conversation(value: Any) -> tuple[Message, ...]:
    """`value` as messages: messages or their JSON form, or a chatwrap history or its JSON form."""
    items = value if isinstance(value, list | tuple) else ()
    is_history = bool(items) and all(
        isinstance(item, ChatSystemMessage | ChatUserMessage | ChatModelResponse)
        or (isinstance(item, Mapping) and "type" in item and "role" not in item)
        for item in items
    )
    return from_history(items) if is_history else as_messages(value)
