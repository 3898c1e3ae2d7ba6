"""Functions in a conversation: called, run, and their results read."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from chatwrap.chat.functions import as_functions
from chatwrap.chat.history import ChatModelFunctionCall, ChatModelResponse, as_history, history_to_json
from chatwrap.engine.handlers import FunctionCallOutcome, HandlerRunner
from chatwrap.engine.model import Model, load_model
from chatwrap.engine.session import ChatSession
from chatwrap.errors import ArgumentsError, ChatwrapError, OptionError, UnknownNameError

QUESTION = "What is the weather in Paris?"


def get_weather(city: str) -> dict[str, str]:
    """The weather of a city."""
    return {"city": city, "sky": "clear"}


async def get_time(zone: str) -> str:
    """The time in a zone."""
    await asyncio.sleep(0)
    return "12:00"


@pytest.fixture
def session(model: Model) -> ChatSession:
    return ChatSession(model, system_prompt="")


def calls_of(session: ChatSession) -> list[ChatModelFunctionCall]:
    last = session.history[-1]
    assert isinstance(last, ChatModelResponse)
    return [part for part in last.response if isinstance(part, ChatModelFunctionCall)]


def test_a_demanded_call_is_run_and_the_model_goes_on(session: ChatSession) -> None:
    seen: list[FunctionCallOutcome] = []
    text = session.prompt(
        QUESTION,
        functions=[get_weather, get_time],
        tool_choice="get_weather",
        on_function_call=seen.append,
        temperature=0,
        max_tokens=30,
    )
    (outcome,) = seen
    assert (outcome.name, outcome.arguments, outcome.error) == ("get_weather", {"city": "Paris"}, None)
    assert outcome.result == {"city": "Paris", "sky": "clear"}
    assert (outcome.round, outcome.index) == (0, 0) and 0 <= outcome.duration_s < 5
    (call,) = calls_of(session)
    assert call == outcome.call and str(call.raw_call).lstrip().startswith("||call: get_weather({")
    assert session.history[-1].text == text  # type: ignore[union-attr]
    assert as_history(json.dumps(history_to_json(session.history))) == session.history


@pytest.mark.parametrize("chat_format", ["chatml", "qwen-2.5"])
def test_ten_turns_evaluate_each_token_once(
    smollm_path: Path, monkeypatch: pytest.MonkeyPatch, chat_format: str
) -> None:
    """Of each turn only the new tokens are evaluated: what is in the context at its end is what was
    there before and what was evaluated.
    """
    model = load_model(smollm_path, n_ctx=1500, chat_wrapper=chat_format, n_threads=1, n_threads_batch=1)
    session = ChatSession(model, system_prompt="", context_strategy="error")
    evaluated: list[int] = []
    evaluate = model.llama.eval
    monkeypatch.setattr(model.llama, "eval", lambda ids: (evaluated.append(len(ids)), evaluate(ids)))
    n_before = 0
    for n_turn in range(10):
        evaluated.clear()
        session.prompt(
            f"And in {['Rome', 'Oslo', 'Bern', 'Kyiv', 'Lima'][n_turn % 5]}?",
            functions=[get_weather],
            tool_choice="required" if n_turn % 2 else "auto",
            max_parallel_function_calls=1,
            temperature=0,
            max_tokens=40,
        )
        if n_turn:
            # A stop cut out of the answer, and a token that reaches over its border, are no part of it.
            assert sum(evaluated) <= model.llama.n_tokens - n_before + 4, n_turn
        n_before = model.llama.n_tokens


def test_a_failing_handler_is_told_to_the_model_and_the_caller(session: ChatSession) -> None:
    def get_weather(city: str) -> str:
        """The weather of a city."""
        raise LookupError(f"no station in {city}")

    events = list(
        session.events(
            QUESTION, functions=[get_weather], tool_choice="required", temperature=0, max_tokens=30
        )
    )
    (outcome,) = (event for event in events if isinstance(event, FunctionCallOutcome))
    assert isinstance(outcome.error, LookupError)
    assert outcome.result == {"error": "LookupError: no station in Paris"}
    assert calls_of(session)[0].result == outcome.result


def test_rounds_are_limited(session: ChatSession) -> None:
    endless: dict[str, Any] = {"functions": [get_weather], "temperature": 0, "max_tokens": 40}
    with pytest.MonkeyPatch.context() as patch:
        from chatwrap.engine.request import AnswerRequest

        patch.setattr(AnswerRequest, "without_forced_call", lambda self: self)
        session.prompt(QUESTION, tool_choice="required", max_rounds=2, **endless)
    assert len(calls_of(session)) == 2 and calls_of(session)[1].starts_new_chunk
    session.prompt(QUESTION, tool_choice="required", max_rounds=0, **endless)
    assert calls_of(session) == []


def test_async_handlers_run_on_the_callers_loop(session: ChatSession) -> None:
    loops: list[Any] = []

    async def get_time(zone: str) -> str:
        """The time in a zone."""
        loops.append(asyncio.get_running_loop())
        return "12:00"

    async def ask() -> Any:
        await session.aprompt("Time in UTC?", functions=[get_time], tool_choice="required", max_tokens=30)
        return asyncio.get_running_loop()

    assert loops == [asyncio.run(ask())] or loops[0] is not None
    assert calls_of(session)[0].result == "12:00"


def test_what_cannot_be_run_is_refused_before_the_first_token(
    session: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.model.llama, "eval", lambda _: pytest.fail("evaluated"))

    def refused(kind: type[ChatwrapError], **options: Any) -> str:
        with pytest.raises(kind) as error:
            session.prompt("Hi", **options)
        return str(error.value)

    described = {"now": {"description": "The time."}}
    assert refused(OptionError, functions=described) == (
        "functions.now: nothing runs it. Give it a handler, or use Model.generate."
    )
    assert refused(OptionError, tool_choice="required") == (
        "tool_choice: 'required', but there are no functions. Give some."
    )
    assert refused(UnknownNameError, functions=[get_weather], tool_choice="get_wether") == (
        "No function named 'get_wether'. Did you mean 'get_weather'? `functions` lists all."
    )
    assert refused(OptionError, functions=[get_weather], max_rounds=-1, handler_timeout_s=0) == (
        "max_rounds: must be a whole number of at least 0, not -1.\n"
        "handler_timeout_s: must be a number above 0, not 0."
    )
    assert refused(OptionError, max_parallel_function_calls=0, thought_budget=-1, top_logprobs=True) == (
        "max_parallel_function_calls: must be a whole number of at least 1, not 0.\n"
        "thought_budget: must be a whole number of at least 0, not -1.\n"
        "top_logprobs: must be a whole number of at least 0, not True."
    )


def test_a_response_format_counts_for_the_answer_behind_the_calls(session: ChatSession) -> None:
    class Report(BaseModel):
        sky: str

    options: dict[str, Any] = {"temperature": 0, "max_tokens": 60}
    report = session.prompt(
        QUESTION,
        functions=[get_weather],
        tool_choice="required",
        max_rounds=1,
        response_format=Report,
        **options,
    )
    assert isinstance(report, Report) and len(calls_of(session)) == 1


def test_an_aborted_turn_keeps_no_call_without_a_result(session: ChatSession) -> None:
    stop = threading.Event()

    def get_weather(city: str) -> str:
        """The weather of a city."""
        stop.set()
        time.sleep(30)
        return "late"

    started = time.monotonic()
    session.prompt(QUESTION, functions=[get_weather], tool_choice="required", abort=stop, temperature=0)
    assert time.monotonic() - started < 15
    assert calls_of(session)[0].result == {"error": "InterruptedError: aborted"}


def run(functions: Any, *calls: tuple[str, Any], **options: Any) -> list[FunctionCallOutcome]:
    made = [ChatModelFunctionCall(name=name, arguments=arguments) for name, arguments in calls]
    return list(HandlerRunner(as_functions(functions), **options).run(made, lambda: False, 0))


def test_handlers_run_side_by_side() -> None:
    barrier = threading.Barrier(3)

    def meet(n: int) -> int:
        barrier.wait(10)
        return n

    async def meet_too(n: int) -> int:
        await asyncio.to_thread(barrier.wait, 10)
        return n

    outcomes = run([meet, meet_too], ("meet", {"n": 1}), ("meet_too", {"n": 2}), ("meet", {"n": 3}))
    assert [(outcome.result, outcome.index, outcome.error) for outcome in outcomes] == [
        (1, 0, None),
        (2, 1, None),
        (3, 2, None),
    ]


def test_slow_handlers_are_given_up() -> None:
    def sleeps() -> None:
        time.sleep(30)

    cancelled = threading.Event()

    async def waits() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    started = time.monotonic()
    outcomes = run([sleeps, waits], ("sleeps", {}), ("waits", {}), timeout_s=0.2)
    assert time.monotonic() - started < 5
    assert outcomes[0].result == {"error": "TimeoutError: no result after 0.2 s"}
    assert all(isinstance(outcome.error, TimeoutError) for outcome in outcomes)
    assert cancelled.wait(5)


def test_what_a_handler_returns_is_made_json() -> None:
    class Place(BaseModel):
        name: str

    values: dict[str, Any] = {
        "model": Place(name="Oslo"),
        "nan": float("nan"),
        "object": object(),
        "none": None,
    }
    functions = {name: {"handler": lambda value=value: value} for name, value in values.items()}
    model, nan, unknown, none = run(functions, *((name, {}) for name in values))
    assert (model.result, none.result) == ({"name": "Oslo"}, None) and none.call.has_result
    assert nan.error is not None and unknown.error is not None
    assert unknown.result == {
        "error": "PydanticSerializationError: Unable to serialize unknown type: <class 'object'>"
    }


def test_arguments_are_checked_before_a_handler_is_called() -> None:
    called: list[Any] = []
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    functions = {"f": {"params": schema, "handler": lambda **given: called.append(given)}}
    wrong, listed, missing, right = run(functions, ("f", {"n": "x"}), ("f", [1]), ("g", {}), ("f", {"n": 1}))
    assert [type(outcome.error) for outcome in (wrong, listed, missing)] == [ArgumentsError] * 3
    assert wrong.result == {"error": "arguments.n: 'x' is not of type 'integer'."}
    assert listed.result == {"error": "arguments: [1] isn't an object. Name each of them."}
    assert missing.result == {"error": "g: there is no such function. There are: f."}
    assert right.error is None and called == [{"n": 1}]


def test_what_is_no_exception_is_raised() -> None:
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        run([leave], ("leave", {}))
