"""What prompts need of a model: a request in, the events of its answer out."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from pydantic import JsonValue

from chatwrap.chat.events import ResponseEvent
from chatwrap.chat.functions import ChatModelFunctions
from chatwrap.chat.history import ChatHistory


@dataclass(frozen=True, slots=True)
class NamedFunction:
    """The tool choice that the model has to call this function."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedFunction


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation, and what the model may do about it.

    `response_schema` is a JSON Schema that the answer's text has to be valid by. `response_grammar` is
    GBNF for the answer's text, if there is no schema; models that can't be held to a grammar pass it
    over. `options` are the sampling options by the names of `SamplingOptions` (``temperature``,
    ``max_tokens``, ``stop``, ...).
    """

    history: ChatHistory
    functions: ChatModelFunctions = field(default_factory=dict)
    tool_choice: ToolChoice = "auto"
    max_parallel_calls: int | None = None
    response_schema: Mapping[str, JsonValue] | bool | None = None
    response_grammar: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class ChatModel(Protocol):
    """Whatever answers requests: a loaded GGUF model, or an endpoint."""

    def respond(self, request: ChatRequest) -> Generator[ResponseEvent, None, None]:
        """The events of the answer, `ResponseEnd` last. Closing the generator aborts the answer.

        What is wrong with the request is raised before the first event.
        """
        ...


Answer_co = TypeVar("Answer_co", covariant=True)
Stream_co = TypeVar("Stream_co", covariant=True)


class Runnable(Protocol[Answer_co, Stream_co]):
    """What a model can be asked to run: a prompt that makes requests of its own."""

    def run(self, model: ChatModel, **options: Any) -> Answer_co:
        """The whole answer."""
        ...

    def run_async(self, model: ChatModel, **options: Any) -> Awaitable[Answer_co]:
        """The whole answer, without blocking the event loop."""
        ...

    def stream(self, model: ChatModel, **options: Any) -> Stream_co:
        """The answer as it comes."""
        ...
