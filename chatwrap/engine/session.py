"""`ChatSession`: a conversation with a model, remembered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar, overload

from chatwrap.chat.events import TextEvent
from chatwrap.chat.history import (
    ChatHistory,
    ChatUserMessage,
    HistoryLike,
    as_history,
    history_to_json,
)
from chatwrap.chat.json_text import dump_json
from chatwrap.chat.text import LlamaText
from chatwrap.engine.context import ContextStrategyLike, as_strategy
from chatwrap.engine.generate import Abort, GenerationResult, is_aborted
from chatwrap.engine.handlers import HandlerRunner, check_handlers
from chatwrap.engine.model import Model
from chatwrap.engine.replay import Replay
from chatwrap.engine.request import AnswerRequest
from chatwrap.engine.response_format import ResponseFormatLike
from chatwrap.engine.sampling import NumberRange
from chatwrap.engine.turn import DEFAULT_MAX_ROUNDS, OnFunctionCall, Shortened, Turn, TurnEvent
from chatwrap.errors import HistoryError, OptionError
from chatwrap.files import read_text, write_text

_T = TypeVar("_T")
_END: Final = None


class ChatSession:
    """A conversation: every prompt is answered with all that was said before in view.

    It starts with `system_prompt` (None: the chat wrapper's own; "": none) or goes on from `history`.
    A prompt that fails leaves the history as it was; an answer that is aborted, or whose stream is
    closed, stays in it as far as it came. Many sessions may share a model; `prompt` may be called
    from many threads, which then wait for each other.

    Law: what was generated is evaluated once. The next prompt starts with the same token ids.
    """

    def __init__(
        self,
        model: Model,
        *,
        system_prompt: str | LlamaText | None = None,
        history: HistoryLike | None = None,
        context_strategy: ContextStrategyLike = "drop_oldest",
    ) -> None:
        if history is not None and system_prompt is not None:
            remedy = "Put the system prompt into the history."
            raise OptionError.of("system_prompt", "given together with a history.", remedy)
        if not isinstance(model, Model):
            raise OptionError.of("model", f"must be a Model, not {model!r}.", "Load one with load_model.")
        self.model = model
        self._strategy = as_strategy(context_strategy)
        self._initial = _initial_history(model, system_prompt) if history is None else as_history(history)
        self._history = self._initial
        self._replay: Replay | None = None
        self._shortened: Shortened | None = None
        self._last_result: GenerationResult | None = None
        self._lock = threading.RLock()

    @property
    def history(self) -> ChatHistory:
        """All that was said. Setting it (items or their JSON form) changes what the model sees."""
        return self._history

    @history.setter
    def history(self, history: HistoryLike) -> None:
        self._history = as_history(history)

    @property
    def last_result(self) -> GenerationResult | None:
        """How the last answer ended, and its tokens; None before the first."""
        return self._last_result

    def reset(self) -> None:
        """Goes back to the history that the session began with."""
        self._history = self._initial

    def save(self, path: str | Path) -> None:
        """Writes the history as node-llama-cpp's JSON, one item a line. Raises `FileError`."""
        lines = ",\n".join(dump_json(item) for item in history_to_json(self._history))
        write_text(path, f"[\n{lines}\n]\n")

    def load(self, path: str | Path) -> None:
        """Goes on from a saved history. Raises `FileError`, or `HistoryError` with every fault."""
        self._history = as_history(read_text(path), where=str(path))

    @overload
    def prompt(self, text: str, *, response_format: None = None, **options: Any) -> str: ...
    @overload
    def prompt(self, text: str, *, response_format: type[_T], **options: Any) -> _T: ...
    @overload
    def prompt(self, text: str, *, response_format: ResponseFormatLike, **options: Any) -> Any: ...
    def prompt(self, text: str, *, response_format: ResponseFormatLike | None = None, **options: Any) -> Any:
        """The model's answer to `text`; takes what `events` takes.

        With a `response_format` it is the validated value: an object of the type, or a JSON value.
        Raises `AnswerError` then for an answer that was cut short.
        """
        with self._lock:
            turn = self._turn(text, response_format=response_format, **options)
            answer = "".join(self._pieces(turn))
            return answer if response_format is None else turn.generation.result.value

    def stream(self, text: str, **options: Any) -> Generator[str, None, None]:
        """The text of the model's answer to `text`, piece by piece as it is certain; as `events`."""
        return self._pieces(self._turn(text, **options))

    def events(self, text: str, **options: Any) -> Generator[TurnEvent, None, None]:
        """All that happens while `text` is answered: texts, thoughts, function calls, and their outcomes.

        Takes what `Model.generate` takes behind the history, and raises what is wrong with it at once;
        see `Generation` for what may be raised later. With `functions` (callables, or a mapping with
        handlers) the model's calls are run, side by side, and it goes on with their results, at most
        `max_rounds` times; after that it has to answer. `on_function_call` is called with each
        `FunctionCallOutcome`. A handler that fails, or takes more than `handler_timeout_s` seconds, gives
        the model an error to read.
        """
        return self._events(self._turn(text, **options))

    def stream_values(
        self, text: str, *, response_format: ResponseFormatLike, **options: Any
    ) -> Generator[Any, None, None]:
        """The answer in a response format, as far as it has come, each time that has changed.

        The last value is the validated one, those before are plain JSON values, not validated; see
        `ResponseFormat.partial_value`. Takes what `events` takes.
        """
        return self._values(self._turn(text, response_format=response_format, **options))

    def _turn(
        self,
        text: str,
        *,
        abort: Abort | None = None,
        on_function_call: OnFunctionCall | None = None,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
        handler_timeout_s: float | None = None,
        handler_loop: asyncio.AbstractEventLoop | None = None,
        **options: Any,
    ) -> Turn:
        if not isinstance(text, str):
            raise HistoryError.of("text", f"must be a string, not {text!r}.")
        _check_limits(max_rounds, handler_timeout_s)
        request = AnswerRequest.of(**{"context_strategy": self._strategy, **options})
        check_handlers(request.offered)
        turn = Turn(
            self.model,
            self._history,
            ChatUserMessage(text=text),
            request if max_rounds else replace(request, tool_choice="none"),
            HandlerRunner(request.functions, handler_timeout_s, handler_loop),
            self._replay,
            self._shortened,
            on_function_call,
            max_rounds,
            abort,
        )
        turn.begin()
        return turn

    def _values(self, turn: Turn) -> Generator[Any, None, None]:
        last: Any = None
        for _ in self._pieces(turn):
            value = turn.generation.partial_value
            if value != last:
                yield value
            last = value
        yield turn.generation.result.value

    def _pieces(self, turn: Turn) -> Generator[str, None, None]:
        with closing(self._events(turn)) as events:
            for event in events:
                if isinstance(event, TextEvent) and event.text:
                    yield event.text

    def _events(self, turn: Turn) -> Generator[TurnEvent, None, None]:
        try:
            with closing(turn.events()) as events:
                yield from events
        except (GeneratorExit, KeyboardInterrupt):
            if self._history is turn.base:
                self._remember(turn)
            raise
        if self._history is not turn.base:
            remedy = "Use one session for one conversation."
            raise HistoryError.of("history", "changed while a prompt was being answered.", remedy)
        self._remember(turn)

    def _remember(self, turn: Turn) -> None:
        if turn.results:
            self._last_result = turn.results[-1]
        if turn.is_empty and turn.generation.result.finish_reason == "abort":
            return
        self._history = turn.history()
        self._replay, self._shortened = turn.replay, turn.shortened

    async def aprompt(self, text: str, *, abort: Abort | None = None, **options: Any) -> Any:
        """As `prompt`, on a worker thread. Cancelling the task aborts the answer and waits for that."""
        cancelled = threading.Event()
        stop = _either(cancelled, abort)
        loop = asyncio.get_running_loop()
        work = _started(lambda: self.prompt(text, abort=stop, handler_loop=loop, **options))
        try:
            return await asyncio.shield(work)
        finally:
            await _ended(work, cancelled)

    async def astream(
        self, text: str, *, abort: Abort | None = None, **options: Any
    ) -> AsyncGenerator[str, None]:
        """As `stream`, on a worker thread. Closing it, or cancelling the task, aborts the answer."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        cancelled = threading.Event()
        stop = _either(cancelled, abort)

        def produce() -> None:
            try:
                with self._lock:
                    for piece in self.stream(text, abort=stop, handler_loop=loop, **options):
                        loop.call_soon_threadsafe(pieces.put_nowait, piece)
            finally:
                loop.call_soon_threadsafe(pieces.put_nowait, _END)

        work = _started(produce)
        try:
            while (piece := await pieces.get()) is not _END:
                yield piece
            await work
        finally:
            await _ended(work, cancelled)


def _check_limits(max_rounds: Any, timeout_s: Any) -> None:
    """Raises `OptionError` for limits that can't be."""
    timeout = None if timeout_s is None else NumberRange(0, above=True).fault("handler_timeout_s", timeout_s)
    faults = [NumberRange(0, integral=True).fault("max_rounds", max_rounds), timeout]
    if any(faults):
        raise OptionError(filter(None, faults))


def _initial_history(model: Model, system_prompt: str | LlamaText | None) -> ChatHistory:
    if system_prompt is not None and not system_prompt:
        return ()
    return model.chat_wrapper.generate_initial_chat_history(system_prompt)


def _either(cancelled: threading.Event, abort: Abort | None) -> Callable[[], bool]:
    return lambda: cancelled.is_set() or is_aborted(abort)


def _started(work: Callable[[], _T]) -> asyncio.Future[_T]:
    return asyncio.get_running_loop().run_in_executor(None, work)


async def _ended(work: asyncio.Future[Any], cancelled: threading.Event) -> None:
    """Waits until a worker has let go of the model. Its error, if any, has been told or is moot."""
    cancelled.set()
    await asyncio.wait([work])
    work.exception()
