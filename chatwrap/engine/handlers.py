"""Runs the functions that a model calls, side by side, and makes results of whatever comes of it."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

import pydantic_core
from pydantic import JsonValue

from chatwrap.chat.callables import ModelHandler, TypedHandler
from chatwrap.chat.functions import ChatModelFunction, ChatModelFunctions
from chatwrap.chat.history import ChatModelFunctionCall
from chatwrap.chat.json_text import dump_json
from chatwrap.errors import ArgumentsError, ChatwrapError, Fault, OptionError
from chatwrap.grammar.schema.validate import value_faults

_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class FunctionCallOutcome:
    """What came of a function call: the call with its result, and the error that became the result.

    `round` counts the rounds of a turn from 0, `index` the calls made together in one.
    """

    call: ChatModelFunctionCall
    error: BaseException | None = None
    round: int = 0
    index: int = 0
    duration_s: float = 0.0

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def arguments(self) -> JsonValue:
        return self.call.arguments

    @property
    def result(self) -> JsonValue:
        """What the model is told: what the function returned, or ``{"error": ...}``."""
        return self.call.result


def check_handlers(functions: ChatModelFunctions) -> None:
    """Raises `OptionError` for functions that nothing runs."""
    faults = [
        Fault(f"functions.{name}", "nothing runs it.", "Give it a handler, or use Model.generate.")
        for name, function in functions.items()
        if function.handler is None
    ]
    if faults:
        raise OptionError(faults)


@dataclass(frozen=True, slots=True)
class HandlerRunner:
    """Runs handlers, each on a thread of its own; what one returns to be awaited runs on `loop`.

    Without a `loop` each awaitable gets an event loop of its own. After `timeout_s` seconds a call is
    given up: an awaitable is cancelled, a thread is left to itself. Whatever goes wrong becomes a result
    that the model can read, but for what isn't an `Exception`, which is raised.
    """

    functions: ChatModelFunctions
    timeout_s: float | None = None
    loop: asyncio.AbstractEventLoop | None = None

    def run(
        self, calls: Sequence[ChatModelFunctionCall], aborted: Callable[[], bool], n_round: int
    ) -> Iterator[FunctionCallOutcome]:
        """The outcomes of calls made together, in their order, as soon as each is there."""
        runs = [_Run(self, call) for call in calls]
        for index, run in enumerate(runs):
            value, error = run.outcome(aborted)
            result: JsonValue = value if error is None else {"error": _told(error)}
            yield FunctionCallOutcome(
                run.call.with_result(result), error, n_round, index, time.monotonic() - run.started_s
            )

    def value(self, call: ChatModelFunctionCall) -> JsonValue:
        """What a call returns, as a JSON value. Raises `ArgumentsError`, or what the handler raises."""
        function = self.functions.get(call.name)
        if function is None or function.handler is None:
            known = ", ".join(self.functions) or "none"
            raise ArgumentsError.of(call.name, "there is no such function.", f"There are: {known}.")
        value = function.handler(**_checked(call, function))
        if inspect.isawaitable(value):
            value = self._awaited(value)
        jsonable: JsonValue = pydantic_core.to_jsonable_python(value)
        dump_json(jsonable, where=f"result of {call.name}")
        return jsonable

    def _awaited(self, awaitable: Any) -> Any:
        async def limited() -> Any:
            return await asyncio.wait_for(awaitable, self.timeout_s)

        if self.loop is None:
            return asyncio.run(limited())
        return asyncio.run_coroutine_threadsafe(limited(), self.loop).result()


@dataclass(slots=True)
class _Run:
    """A call being run."""

    runner: HandlerRunner
    call: ChatModelFunctionCall
    started_s: float = field(default_factory=time.monotonic)
    future: Future[JsonValue] = field(default_factory=Future)

    def __post_init__(self) -> None:
        context = contextvars.copy_context()
        name = f"chatwrap-call-{self.call.name}"
        threading.Thread(target=context.run, args=(self._work,), name=name, daemon=True).start()

    def _work(self) -> None:
        try:
            self.future.set_result(self.runner.value(self.call))
        except BaseException as error:  # handed on by `outcome`
            self.future.set_exception(error)

    def outcome(self, aborted: Callable[[], bool]) -> tuple[JsonValue, BaseException | None]:
        """The value, or the error in its place; waits for it as long as it may take."""
        timeout_s = self.runner.timeout_s
        while True:
            rest_s = _POLL_S if timeout_s is None else self.started_s + timeout_s - time.monotonic()
            try:
                error = self.future.exception(min(_POLL_S, max(0, rest_s)))
            except TimeoutError:
                if timeout_s is not None and rest_s <= 0:
                    return None, TimeoutError(f"no result after {timeout_s:g} s")
                if aborted():
                    return None, InterruptedError("aborted")
                continue
            if error is not None and not isinstance(error, Exception):
                raise error
            return (None, error) if error is not None else (self.future.result(), None)


def _checked(call: ChatModelFunctionCall, function: ChatModelFunction) -> Mapping[str, Any]:
    """The arguments by name. Raises `ArgumentsError` where they aren't valid by the function's schema."""
    arguments = call.arguments if call.has_arguments and call.arguments is not None else {}
    if not isinstance(arguments, dict):
        raise ArgumentsError.of("arguments", f"{arguments!r:.60} isn't an object.", "Name each of them.")
    if function.parameters is None or isinstance(function.handler, TypedHandler | ModelHandler):
        return arguments  # those check the arguments themselves
    faults = value_faults(arguments, function.parameters)
    if faults:
        raise ArgumentsError(Fault(f"arguments{f.where.removeprefix('$')}", f.problem) for f in faults)
    return arguments


def _told(error: BaseException) -> str:
    """An error in words for the model."""
    if isinstance(error, ChatwrapError):
        return str(error)
    name = "TimeoutError" if isinstance(error, TimeoutError) else type(error).__name__
    return f"{name}: {error}" if str(error) else name
