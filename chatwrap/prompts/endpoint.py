"""`OpenAICompatibleModel`: a model behind an OpenAI-compatible URL (extra ``openai``)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from chatwrap.chat.events import (
    ArgumentsText,
    CallEnd,
    CallStart,
    FinishReason,
    ResponseEnd,
    ResponseEvent,
    SegmentEnd,
    SegmentStart,
    SegmentText,
    TextEvent,
)
from chatwrap.chat.history import ChatModelFunctionCall
from chatwrap.chat.json_text import parse_json
from chatwrap.chat.model import ChatRequest, NamedFunction
from chatwrap.chat.openai import functions_to_openai, history_to_openai
from chatwrap.errors import AnswerError, ChatwrapError, MissingExtraError, ModelError

_PARAMETERS: Final = frozenset(
    {"frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "presence_penalty"}
    | {"reasoning_effort", "seed", "stop", "temperature", "top_logprobs", "top_p"}
)
_REASONS: Final[Mapping[str, FinishReason]] = {"length": "length"}


@dataclass(slots=True)
class _OpenCall:
    """A tool call whose arguments are still coming."""

    call_id: str | None
    name: str
    arguments: list[str] = field(default_factory=list)


class OpenAICompatibleModel:
    """A model that answers requests over HTTP, by the API of OpenAI's chat completions, streamed.

    Without a `model` it is the first that the endpoint lists. Sampling options that the API doesn't know
    are sent along as extra fields. Raises `MissingExtraError` without the package `openai`, and
    `ModelError` for what the endpoint refuses.
    """

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        *,
        api_key: str = "none",
        timeout_s: float = 600.0,
        client: Any = None,
    ) -> None:
        self.base_url, self._model = base_url, model
        self._client = client if client is not None else _client(base_url, api_key, timeout_s)

    def respond(self, request: ChatRequest) -> Generator[ResponseEvent, None, None]:
        """The events of the answer; see `ChatModel`."""
        sent = self._arguments(request)
        return self._events(sent)

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        options = {name: value for name, value in request.options.items() if value is not None}
        arguments: dict[str, Any] = {
            "messages": history_to_openai(request.history),
            "stream": True,
            "stream_options": {"include_usage": True},
            **{name: value for name, value in options.items() if name in _PARAMETERS},
        }
        if request.functions:
            arguments |= {"tools": functions_to_openai(request.functions), "tool_choice": _choice(request)}
            if request.max_parallel_calls == 1:
                arguments["parallel_tool_calls"] = False
        if request.response_schema is not None:
            envelope = {"name": "answer", "schema": request.response_schema, "strict": True}
            arguments["response_format"] = {"type": "json_schema", "json_schema": envelope}
        extra = {name: value for name, value in options.items() if name not in _PARAMETERS}
        return {**arguments, "extra_body": extra} if extra else arguments

    def _events(self, arguments: dict[str, Any]) -> Generator[ResponseEvent, None, None]:
        import openai

        try:
            model = self._model or self._first_model()
            stream = self._client.chat.completions.create(model=model, **arguments)
            with stream:
                yield from _Reader().read(stream)
        except openai.OpenAIError as error:
            raise ModelError(f"{self.base_url}: {error}") from error

    def _first_model(self) -> str:
        listed = [model.id for model in self._client.models.list()]
        if not listed:
            raise ModelError(f"{self.base_url}: it lists no models. Name one.")
        self._model = str(listed[0])
        return self._model


def _client(base_url: str, api_key: str, timeout_s: float) -> Any:
    try:
        import openai
    except ImportError:
        remedy = 'Install it with pip install "chatwrap[openai]".'
        raise MissingExtraError(f"An endpoint needs the package openai. {remedy}") from None
    return openai.OpenAI(base_url=base_url, api_key=api_key, timeout=timeout_s)


def _choice(request: ChatRequest) -> Any:
    choice = request.tool_choice
    if isinstance(choice, NamedFunction):
        return {"type": "function", "function": {"name": choice.name}}
    return choice


@dataclass(slots=True)
class _Reader:
    """Turns the chunks of a streamed completion into events."""

    _calls: dict[int, _OpenCall] = field(default_factory=dict)
    _thinks: bool = False
    _reason: FinishReason = "stop"
    _n_prompt: int = 0
    _n_completion: int = 0

    def read(self, chunks: Iterable[Any]) -> Generator[ResponseEvent, None, None]:
        for chunk in chunks:
            if chunk.usage is not None:
                self._n_prompt, self._n_completion = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
            for choice in chunk.choices[:1]:
                yield from self._delta(choice.delta)
                if choice.finish_reason:
                    self._reason = _REASONS.get(choice.finish_reason, "stop")
        yield from self._end_thought()
        yield from self._end_calls()
        yield ResponseEnd(self._reason, self._n_prompt, self._n_completion)

    def _delta(self, delta: Any) -> Generator[ResponseEvent, None, None]:
        thought = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)
        if thought:
            if not self._thinks:
                self._thinks = True
                yield SegmentStart("thought", "")
            yield SegmentText("thought", thought, thought)
        if delta.content:
            yield from self._end_thought()
            yield TextEvent(delta.content, delta.content)
        for piece in delta.tool_calls or ():
            yield from self._end_thought()
            yield from self._call_piece(piece)

    def _call_piece(self, piece: Any) -> Generator[ResponseEvent, None, None]:
        function = piece.function
        call = self._calls.get(piece.index)
        if call is None:
            call = self._calls[piece.index] = _OpenCall(piece.id, function.name or "")
            yield CallStart(piece.index, call.name, call.call_id, "")
        if function is not None and function.arguments:
            call.arguments.append(function.arguments)
            yield ArgumentsText(piece.index, function.arguments, function.arguments)

    def _end_thought(self) -> Generator[ResponseEvent, None, None]:
        if self._thinks:
            self._thinks = False
            yield SegmentEnd("thought", "")

    def _end_calls(self) -> Generator[ResponseEvent, None, None]:
        for index, call in self._calls.items():
            text = "".join(call.arguments)
            try:
                arguments = parse_json(text, where="arguments") if text else {}
            except ChatwrapError as error:
                problem = f"the call of {call.name!r} has arguments that can't be read: {error}"
                raise AnswerError(problem, "Raise max_tokens.", text=text) from None
            yield CallEnd(index, ChatModelFunctionCall(name=call.name, arguments=arguments), "")
