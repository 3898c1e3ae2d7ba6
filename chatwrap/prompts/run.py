"""Runs prompts on models: whole, piece by piece, and without blocking an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

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
from chatwrap.chat.history import ChatModelSegment
from chatwrap.chat.model import ChatRequest
from chatwrap.errors import AnswerError, ModelError
from chatwrap.prompts.answer import AnswerFormat
from chatwrap.prompts.contents import ToolRequest
from chatwrap.prompts.messages import Message
from chatwrap.prompts.models import ModelLike, as_model
from chatwrap.prompts.prompt import Prompt
from chatwrap.prompts.streaming import PartialReader

_END: Final = None


@dataclass(frozen=True)
class Completion:
    """A model's whole answer to a prompt.

    `message` is what the output parsers made of `raw_message`. `diagnostics` are what couldn't be read as
    the chat format means it.
    """

    prompt: Prompt = field(repr=False)
    message: Message
    raw_message: Message
    finish_reason: FinishReason
    n_prompt_tokens: int
    n_completion_tokens: int
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def content(self) -> str:
        """The text of the message."""
        return self.message.content

    @property
    def tool_requests(self) -> tuple[ToolRequest, ...]:
        """What the model wants to call."""
        return self.message.tool_requests or ()

    @cached_property
    def value(self) -> Any:
        """The answer in the response format, validated: an object of its type or a JSON value.

        Without a response format it is the text. Raises `AnswerError` for an answer that was cut short,
        that calls tools instead, or that isn't valid.
        """
        if self.prompt.answer_format is None:
            return self.content
        text = self.content
        if self.tool_requests:
            names = ", ".join(request.name for request in self.tool_requests)
            raise AnswerError(f"it calls {names}.", "Add the results and run it again.", text=text)
        try:
            return AnswerFormat.of(self.prompt.answer_format).value(text)
        except AnswerError as error:
            if self.finish_reason != "length":
                raise
            cut = f"it was cut after {self.n_completion_tokens} tokens, before it was complete."
            remedy = "Raise max_tokens, or load the model with a larger n_ctx."
            raise AnswerError(cut, remedy, text=text) from error


@dataclass(frozen=True, slots=True)
class StreamedPiece:
    """What came anew: a piece of the raw text, and the message if more of it is certain now."""

    text: str
    message: Message | None


@dataclass(slots=True)
class _Collector:
    """The message that events tell, so far."""

    text: list[str] = field(default_factory=list)
    segments: list[ChatModelSegment] = field(default_factory=list)
    requests: list[ToolRequest] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    end: ResponseEnd | None = None
    _call_ids: dict[int, str | None] = field(default_factory=dict)
    _open: SegmentStart | None = None
    _thought: list[str] = field(default_factory=list)

    def take(self, event: ResponseEvent) -> str:
        """Takes an event in; gives back the text that it adds to the answer."""
        match event:
            case TextEvent():
                self.text.append(event.text)
                return event.text
            case SegmentStart():
                self._open, self._thought = event, []
            case SegmentText():
                self._thought.append(event.text)
            case SegmentEnd():
                self.segments += self._open_segment(ended=True)
                self._open = None
            case CallStart():
                self._call_ids[event.index] = event.call_id
            case CallEnd():
                self._take_call(event)
            case Diagnostic():
                self.diagnostics.append(event)
            case ResponseEnd():
                self.end = event
            case ArgumentsText():
                pass
        return ""

    def _take_call(self, event: CallEnd) -> None:
        call = event.call
        arguments = call.arguments if call.has_arguments else {}
        call_id = self._call_ids.get(event.index)
        named = {"tool_request_id": call_id} if call_id else {}
        self.requests.append(ToolRequest(call.name, arguments, origin=call, **named))

    def _open_segment(self, *, ended: bool) -> list[ChatModelSegment]:
        if self._open is None:
            return []
        kind, text = self._open.segment_type, "".join(self._thought)
        return [ChatModelSegment(segment_type=kind, text=text, ended=ended)]

    def message(self) -> Message:
        text = "".join(self.text)
        return Message(
            text if text or not self.requests else None,
            role="assistant",
            tool_requests=self.requests or None,
            segments=[*self.segments, *self._open_segment(ended=False)],
        )


class PromptStream(Iterator[StreamedPiece]):
    """A model's answer to a prompt as it comes, piece by piece; `result` is there after the last.

    Output parsers read along: a piece's `message` is what can be said so far (thoughts, complete tool
    requests, JSON as far as it has come), and the last piece's is the whole. Closing it, which leaving
    a ``with`` block does too, aborts the answer. What is wrong with the prompt or the options is
    raised before the first piece.
    """

    def __init__(self, model: ModelLike, prompt: Prompt, options: dict[str, Any]) -> None:
        self._prompt = prompt
        self._events = as_model(model).respond(_request(prompt, options))
        self._pieces = self._read()
        self._result: Completion | None = None

    def __next__(self) -> StreamedPiece:
        return next(self._pieces)

    def __enter__(self) -> PromptStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Aborts the answer."""
        self._pieces.close()
        self._events.close()

    @property
    def result(self) -> Completion:
        """The whole answer. Raises `ModelError` while it is still coming."""
        if self._result is None:
            raise ModelError("stream: its answer isn't complete. Read all its pieces first.")
        return self._result

    def _read(self) -> Generator[StreamedPiece, None, None]:
        collector, reader = _Collector(), PartialReader(self._prompt.parsers)
        for event in self._events:
            text = collector.take(event)
            if collector.end is not None:
                continue
            message = reader.feed(collector.message())
            if text or message is not None:
                yield StreamedPiece(text, message)
        if collector.end is None:
            raise ModelError("stream: the model's answer has no end. Its events must end with a ResponseEnd.")
        raw, end = collector.message(), collector.end
        self._result = Completion(
            self._prompt,
            reader.flush(raw),
            raw,
            end.finish_reason,
            end.n_prompt_tokens,
            end.n_completion_tokens,
            tuple(collector.diagnostics),
        )
        yield StreamedPiece("", self._result.message)


def _request(prompt: Prompt, options: dict[str, Any]) -> ChatRequest:
    choices = {name: options[name] for name in ("tool_choice", "max_parallel_calls") if name in options}
    sampling = {name: value for name, value in options.items() if name not in choices}
    return prompt.to_request(sampling, **choices)


def run(model: ModelLike, prompt: Prompt, **options: Any) -> Completion:
    """The model's whole answer to a prompt.

    `options` are sampling options, which win over the prompt's own, and ``tool_choice`` and
    ``max_parallel_calls`` (see `Prompt.to_request`).
    """
    collector = _Collector()
    for event in as_model(model).respond(_request(prompt, options)):
        collector.take(event)
    if collector.end is None:
        raise ModelError("run: the model's answer has no end. Its events must end with a ResponseEnd.")
    raw, end = collector.message(), collector.end
    return Completion(
        prompt,
        prompt.parse_output(raw),
        raw,
        end.finish_reason,
        end.n_prompt_tokens,
        end.n_completion_tokens,
        tuple(collector.diagnostics),
    )


async def run_async(model: ModelLike, prompt: Prompt, **options: Any) -> Completion:
    """As `run`, on a worker thread. Cancelling the task aborts the answer and waits for that."""
    stream = PromptStream(model, prompt, options)
    async for _ in _pumped(stream):
        pass
    return stream.result


def stream_async(model: ModelLike, prompt: Prompt, **options: Any) -> AsyncGenerator[StreamedPiece, None]:
    """The pieces of a `PromptStream`, made on a worker thread. Closing it aborts the answer."""
    return _pumped(PromptStream(model, prompt, options))


async def _pumped(stream: PromptStream) -> AsyncGenerator[StreamedPiece, None]:
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[StreamedPiece | None] = asyncio.Queue()
    cancelled = threading.Event()

    def produce() -> None:
        try:
            with stream:
                for piece in stream:
                    if cancelled.is_set():
                        return
                    loop.call_soon_threadsafe(pieces.put_nowait, piece)
        finally:
            loop.call_soon_threadsafe(pieces.put_nowait, _END)

    work = loop.run_in_executor(None, produce)
    try:
        while (piece := await pieces.get()) is not _END:
            yield piece
        await work
    finally:
        cancelled.set()
        await asyncio.wait([work])
        work.exception()
