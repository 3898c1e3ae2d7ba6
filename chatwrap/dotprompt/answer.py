"""Running a rendered prompt on a model: options, sections, tools, and an answer that is checked."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, assert_never

from pydantic import JsonValue
from pydantic.alias_generators import to_camel

from chatwrap.chat.events import (
    ArgumentsText,
    CallEnd,
    CallStart,
    Diagnostic,
    FinishReason,
    ResponseEnd,
    ResponseEvent,
    SegmentEnd,
    SegmentStart,
    SegmentText,
    TextEvent,
)
from chatwrap.chat.functions import ChatModelFunction
from chatwrap.chat.history import (
    ChatHistory,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatModelSegment,
    ResponsePart,
)
from chatwrap.chat.json_text import dump_json
from chatwrap.chat.model import ChatModel, ChatRequest
from chatwrap.dotprompt.conversion import from_history, to_history
from chatwrap.dotprompt.document import RenderedPrompt
from chatwrap.dotprompt.request import Message, PendingPart, TextPart
from chatwrap.dotprompt.validation import faults_by_schema
from chatwrap.errors import AnswerError, ArgumentsError, DotpromptError, Fault, OptionError

MAX_ROUNDS: Final = 20
"""How often a model may call tools before it has to answer."""

_OPTION_NAMES: Final = {"maxOutputTokens": "max_tokens", "stopSequences": "stop"}
_FORMATS: Final = ("json", "text")


@dataclass(frozen=True, slots=True)
class PromptAnswer:
    """What a model answered to a prompt.

    `value` is the JSON value of an answer in JSON, else None. `messages` are the prompt's and the
    answer's, `history` is the same as a chatwrap history. `calls` are those that nobody here can run.
    """

    text: str
    value: JsonValue
    messages: tuple[Message, ...]
    history: ChatHistory
    calls: tuple[ChatModelFunctionCall, ...]
    finish_reason: FinishReason
    n_prompt_tokens: int
    n_completion_tokens: int


def to_request(
    rendered: RenderedPrompt,
    functions: Mapping[str, ChatModelFunction],
    sections: Mapping[str, str] | None = None,
) -> ChatRequest:
    """What a model is asked to answer a rendered prompt, whose tools are `functions`.

    Raises `DotpromptError` for sections without a text, media, and output formats that nobody knows.
    """
    return ChatRequest(
        history=to_history(filled(rendered, sections or {})),
        functions=functions,
        response_schema=_response_schema(rendered),
        options=sampling_options(rendered.config),
    )


class PromptStream:
    """The pieces of an answer's text as they come; `answer` once they have come to their end.

    Nothing is sampled before the first piece is asked for. Raises what is wrong with the request then,
    and `AnswerError` for an answer that isn't what the prompt's ``output`` asks for.
    """

    def __init__(self, model: ChatModel, request: ChatRequest) -> None:
        self._model = model
        self._asked = request
        self._turn = _Turn()
        self._pieces = self._run()
        self._answer: PromptAnswer | None = None

    def __iter__(self) -> Iterator[str]:
        return self._pieces

    def close(self) -> None:
        """Ends the answer where it is."""
        self._pieces.close()

    @property
    def answer(self) -> PromptAnswer:
        """The whole answer. Reads on to its end first."""
        for _ in self._pieces:
            pass
        if self._answer is None:
            raise AnswerError("ended before it was complete.", "Run it again.", text=self._turn.text)
        return self._answer

    def _run(self) -> Generator[str, None, None]:
        for _ in range(MAX_ROUNDS):
            try:
                with closing(self._model.respond(self._request())) as events:
                    yield from self._turn.read(events)
            except OptionError as error:
                raise DotpromptError(map(in_config, error.faults)) from None
            if not self._turn.run_calls(self._asked.functions):
                self._answer = self._complete()
                return
        raise AnswerError(
            f"still calls tools after {MAX_ROUNDS} rounds.", "Name fewer tools.", text=self._turn.text
        )

    def _request(self) -> ChatRequest:
        turn = (ChatModelResponse(response=tuple(self._turn.parts)),) if self._turn.parts else ()
        return replace(self._asked, history=(*self._asked.history, *turn))

    def _complete(self) -> PromptAnswer:
        turn, end = self._turn, self._turn.end
        assert end is not None
        item = ChatModelResponse(response=tuple(turn.parts))
        calls = tuple(part for part in turn.calls() if not part.has_result)
        history = (*self._asked.history, item)
        schema = self._asked.response_schema
        value = None if schema is None or calls else _checked(item.text, schema, end.finish_reason)
        return PromptAnswer(
            item.text,
            value,
            from_history(history),
            history,
            calls,
            end.finish_reason,
            turn.n_prompt_tokens,
            turn.n_completion_tokens,
        )


@dataclass(slots=True)
class _Turn:
    """The model's turn as far as it has come: its texts, thoughts, and calls with their results."""

    parts: list[ResponsePart] = field(default_factory=list)
    end: ResponseEnd | None = None
    n_prompt_tokens: int = 0
    n_completion_tokens: int = 0

    @property
    def text(self) -> str:
        return "".join(part for part in self.parts if isinstance(part, str))

    def read(self, events: Generator[ResponseEvent, None, None]) -> Iterator[str]:
        """Takes an answer's events in; gives the pieces of its text on."""
        is_new = True
        for event in events:
            match event:
                case TextEvent():
                    self._add_text(event.text)
                    yield event.text
                case SegmentStart():
                    segment = ChatModelSegment(segment_type=event.segment_type, text="", ended=False)
                    self.parts.append(segment)
                case SegmentText() | SegmentEnd():
                    self._add_to_segment(event)
                case CallEnd():
                    call = event.call
                    starts = is_new and bool(self.parts) and isinstance(self.parts[-1], ChatModelFunctionCall)
                    self.parts.append(call.model_copy(update={"starts_new_chunk": True}) if starts else call)
                    is_new = False
                case ResponseEnd():
                    self.end = event
                    self.n_prompt_tokens += event.n_prompt_tokens
                    self.n_completion_tokens += event.n_completion_tokens
                case CallStart() | ArgumentsText():
                    pass  # the call's end tells them all
                case Diagnostic():
                    self._add_text(event.raw)
                case _:
                    assert_never(event)

    def calls(self) -> Iterator[ChatModelFunctionCall]:
        return (part for part in self.parts if isinstance(part, ChatModelFunctionCall))

    def run_calls(self, functions: Mapping[str, ChatModelFunction]) -> bool:
        """Runs what was called and has no result yet. False if nothing was, or nobody here can run it."""
        waiting = [
            (index, part)
            for index, part in enumerate(self.parts)
            if isinstance(part, ChatModelFunctionCall) and not part.has_result
        ]
        if not waiting or any(_handler(functions, call.name) is None for _, call in waiting):
            return False
        for index, call in waiting:
            self.parts[index] = call.with_result(_result(functions, call))
        return True

    def _add_text(self, text: str) -> None:
        if self.parts and isinstance(last := self.parts[-1], str):
            self.parts[-1] = last + text
        elif text:
            self.parts.append(text)

    def _add_to_segment(self, event: SegmentText | SegmentEnd) -> None:
        segment = self.parts[-1]
        assert isinstance(segment, ChatModelSegment)
        update = {"text": segment.text + event.text} if isinstance(event, SegmentText) else {"ended": True}
        self.parts[-1] = segment.model_copy(update=update)


Handler: TypeAlias = Any


def _handler(functions: Mapping[str, ChatModelFunction], name: str) -> Handler:
    function = functions.get(name)
    return function.handler if function else None


def _result(functions: Mapping[str, ChatModelFunction], call: ChatModelFunctionCall) -> JsonValue:
    """What a tool answers; arguments that it can't take are told to the model."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    try:
        result = _handler(functions, call.name)(**arguments)
    except ArgumentsError as error:
        return {"error": str(error)}
    if hasattr(result, "__await__"):
        result.close()
        raise DotpromptError.of("tools", f"{call.name!r} is async.", "Give a function that isn't.")
    dump_json(result, where=f"tools.{call.name}")
    return result  # type: ignore[no-any-return]


def sampling_options(config: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """A prompt's ``config`` by the names of `SamplingOptions`. ``version`` belongs to the model's name.

    >>> sampling_options({"maxOutputTokens": 9, "topK": 3, "version": "v2"})
    {'max_tokens': 9, 'top_k': 3}
    """
    return {
        _OPTION_NAMES.get(name) or re.sub(r"([A-Z])", r"_\1", name).lower(): value
        for name, value in config.items()
        if name != "version" and value is not None
    }


def in_config(fault: Fault) -> Fault:
    """A fault of a sampling option, by the name that it has in a prompt."""
    names = {option: name for name, option in _OPTION_NAMES.items()}
    name = names.get(fault.where) or to_camel(fault.where)
    return Fault(f"config.{name}", fault.problem, fault.remedy, fault.excerpt)


def filled(rendered: RenderedPrompt, sections: Mapping[str, str]) -> tuple[Message, ...]:
    """The messages with texts in the place of sections.

    The section ``output`` says which schema the answer has to be valid by, if there is one. Raises
    `DotpromptError` for a section that nobody gives.
    """
    schema = (rendered.output or {}).get("schema")
    told = f"Answer with JSON that is valid by this schema: {dump_json(schema)}" if schema else ""
    texts = {"output": told, **sections}
    faults: list[Fault] = []
    messages: list[Message] = []
    for index, message in enumerate(rendered.messages):
        parts: list[Any] = []
        for part in message.content:
            if not isinstance(part, PendingPart):
                parts.append(part)
                continue
            name = str(part.metadata.get("purpose"))
            if name not in texts:
                problem = f"the section {name!r} has no text."
                faults.append(Fault(f"messages[{index}]", problem, f"Give it: sections={{{name!r}: ...}}."))
            elif texts[name]:
                parts.append(TextPart(text=texts[name]))
        messages += [message.model_copy(update={"content": tuple(parts)})] if parts else []
    if faults:
        raise DotpromptError(faults)
    return tuple(messages)


def _response_schema(rendered: RenderedPrompt) -> Mapping[str, JsonValue] | bool | None:
    """The schema that the answer has to be valid by; True for any JSON, None for text."""
    output = rendered.output or {}
    form, schema = output.get("format"), output.get("schema")
    if form is not None and form not in _FORMATS:
        raise DotpromptError.of("output.format", f"{form!r} isn't known.", "Use json or text.")
    if form == "text":
        return None
    if isinstance(schema, dict):
        return schema
    return True if form == "json" else None


def _checked(text: str, schema: Mapping[str, JsonValue] | bool, finish_reason: FinishReason) -> JsonValue:  # noqa: FBT001
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        cut = finish_reason == "length"
        problem = "cut short before its JSON was complete." if cut else "not JSON."
        remedy = "Allow more maxOutputTokens." if cut else "Run it again."
        raise AnswerError(problem, remedy, text=text) from None
    if isinstance(schema, Mapping) and (faults := faults_by_schema(value, schema, "answer")):
        raise AnswerError(f"not valid by output.schema: {faults[0]}", text=text)
    return value
