from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chatwrap.chat.history import ChatModelResponse, ChatSystemMessage, ChatUserMessage, history_to_json
from chatwrap.chat.text import LlamaText, control
from chatwrap.engine.evaluate import Evaluator
from chatwrap.engine.model import Model
from chatwrap.engine.session import ChatSession
from chatwrap.errors import (
    ChatwrapError,
    ContextOverflowError,
    FileError,
    HistoryError,
    ModelError,
    OptionError,
)

from .conftest import CAPITAL

ANSWER = "The capital of France is Paris."
EXCHANGE = (ChatUserMessage(text=CAPITAL), ChatModelResponse(response=(ANSWER,)))


@pytest.fixture
def session(model: Model) -> ChatSession:
    return ChatSession(model, system_prompt="", context_strategy="error")


def test_a_conversation_is_remembered(session: ChatSession) -> None:
    assert session.prompt(CAPITAL, temperature=0) == ANSWER
    assert session.history == EXCHANGE
    assert session.last_result is not None and session.last_result.finish_reason == "stop"
    assert "Rome" in session.prompt("And of Italy?", temperature=0, max_tokens=12)
    session.reset()
    assert session.history == ()


def test_streamed_pieces_joined_are_the_answer(session: ChatSession) -> None:
    pieces = list(session.stream(CAPITAL, temperature=0))
    assert "".join(pieces) == ANSWER and len(pieces) > 3
    assert session.history == EXCHANGE


def test_it_starts_with_a_system_prompt_or_a_history(model: Model) -> None:
    assert ChatSession(model).history == model.chat_wrapper.generate_initial_chat_history()
    assert ChatSession(model, system_prompt="Hi").history == (ChatSystemMessage(text=LlamaText("Hi")),)
    assert ChatSession(model, history=history_to_json(EXCHANGE)).history == EXCHANGE
    with pytest.raises(OptionError) as error:
        ChatSession(model, system_prompt="Hi", history=[])
    assert str(error.value) == (
        "system_prompt: given together with a history. Put the system prompt into the history."
    )


def test_what_is_no_model_no_text_and_no_plain_callback_is_refused(session: ChatSession) -> None:
    async def told(outcome: object) -> None:
        """Would never be awaited."""

    with pytest.raises(OptionError) as error:
        ChatSession("smollm2")  # type: ignore[arg-type]
    assert str(error.value) == "model: must be a Model, not 'smollm2'. Load one with load_model."
    with pytest.raises(HistoryError) as no_text:
        session.prompt(5)  # type: ignore[call-overload]
    assert str(no_text.value) == "text: must be a string, not 5."
    with pytest.raises(OptionError) as error:
        session.prompt("Hi", on_function_call=told)
    assert str(error.value) == (
        "on_function_call: is async, so it wouldn't be awaited. Give a plain function; it may start a task."
    )
    assert session.history == ()


def test_a_failing_prompt_leaves_the_history(session: ChatSession, monkeypatch: pytest.MonkeyPatch) -> None:
    session.history = EXCHANGE
    with pytest.raises(ContextOverflowError):
        session.prompt("word " * 1100)
    with pytest.raises(ContextOverflowError, match="at least"):
        session.prompt("word " * 600_000)
    with pytest.raises(ChatwrapError):
        session.prompt("a\ud800")
    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "_sampled", _two_tokens_and_a_failure)
        with pytest.raises(ModelError):
            session.prompt("And of Italy?")
    assert session.history == EXCHANGE


def _two_tokens_and_a_failure(*_: object, **__: object) -> Iterator[int]:
    yield from [504, 3575]
    raise RuntimeError("llama_decode returned 1")


def test_an_aborted_answer_stays_as_far_as_it_came(session: ChatSession) -> None:
    stream = session.stream(CAPITAL, temperature=0)
    text = next(stream) + next(stream)
    stream.close()
    assert session.history[-1] == ChatModelResponse(response=(text,))
    event = threading.Event()
    event.set()
    before = session.history
    assert session.prompt("More?", abort=event) == ""
    assert session.history == before


def test_histories_are_saved_and_loaded(session: ChatSession, tmp_path: Path) -> None:
    session.history = EXCHANGE
    session.save(tmp_path / "chat.json")
    assert (tmp_path / "chat.json").read_text("utf-8").splitlines() == [
        "[",
        '{"type": "user", "text": "What is the capital of France?"},',
        '{"type": "model", "response": ["The capital of France is Paris."]}',
        "]",
    ]
    session.reset()
    session.load(tmp_path / "chat.json")
    assert session.history == EXCHANGE
    session.reset()
    session.save(tmp_path / "empty.json")
    session.load(tmp_path / "empty.json")
    assert session.history == ()


def test_a_bad_file_leaves_the_history(session: ChatSession, tmp_path: Path) -> None:
    session.history = EXCHANGE
    with pytest.raises(FileError):
        session.load(tmp_path / "missing.json")
    (tmp_path / "bad.json").write_text('[{"type": "robot"}]')
    with pytest.raises(HistoryError) as error:
        session.load(tmp_path / "bad.json")
    assert str(error.value) == (
        f"{tmp_path / 'bad.json'}[0]: no type 'robot'. Use 'system', 'user' or 'model'."
    )
    with pytest.raises(HistoryError):
        session.history = [{"type": "robot"}]  # type: ignore[assignment]
    assert session.history == EXCHANGE


def test_what_was_sampled_is_replayed(session: ChatSession, monkeypatch: pytest.MonkeyPatch) -> None:
    odd_ids = [504, 42, 216, 28120]  # not what the tokenizer gives for their text
    tokens = iter([*odd_ids, 2])
    model = session.model
    text = b"".join(map(model.vocabulary.piece, odd_ids)).decode()
    assert model.vocabulary.tokenize(text) != odd_ids
    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "_sampled", lambda *_: tokens)
        assert session.prompt(CAPITAL) == text
    first = model.prompt_ids([ChatUserMessage(text=CAPITAL)])
    generation = _prompted(session, "And of Italy?")
    opening, closing = "<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"
    rest = model.encode(LlamaText(control(opening), "And of Italy?", control(closing)))
    assert generation == (*first, *odd_ids, *rest)
    session.history = [ChatUserMessage(text="Other"), *session.history[1:]]
    again = _prompted(session, "And of Italy?")
    assert list(again) == model.prompt_ids([*session.history, ChatUserMessage(text="And of Italy?")])


def _prompted(session: ChatSession, text: str) -> tuple[int, ...]:
    """The prompt ids that a session would have evaluated."""
    seen: list[Any] = []
    answer = session.model.answer
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            session.model, "answer", lambda *args, **kw: seen.append(args[0]) or answer(*args, **kw)
        )
        session.stream(text).close()
    return tuple(seen[0].token_ids)


def test_an_exact_retokenization_replays_too(session: ChatSession) -> None:
    session.prompt(CAPITAL, temperature=0)
    history = [*EXCHANGE, ChatUserMessage(text="Thanks")]
    assert list(_prompted(session, "Thanks")) == session.model.prompt_ids(history)


def test_a_changed_history_is_not_overwritten(session: ChatSession) -> None:
    stream = session.stream(CAPITAL, temperature=0)
    next(stream)
    session.history = EXCHANGE
    with pytest.raises(HistoryError) as error:
        list(stream)
    assert str(error.value) == (
        "history: changed while a prompt was being answered. Use one session for one conversation."
    )
    assert session.history == EXCHANGE


def test_async_prompts_do_not_block_the_loop(model: Model) -> None:
    sessions = [ChatSession(model, system_prompt="") for _ in range(2)]

    async def ask() -> list[str]:
        asked = asyncio.gather(*(session.aprompt(CAPITAL, temperature=0) for session in sessions))
        longest_gap_s, last = 0.0, time.monotonic()
        while not asked.done():
            await asyncio.sleep(0.001)
            longest_gap_s, last = max(longest_gap_s, time.monotonic() - last), time.monotonic()
        assert longest_gap_s < 0.5
        return await asked

    assert asyncio.run(ask()) == [ANSWER, ANSWER]


def test_async_streams_and_their_errors(session: ChatSession) -> None:
    async def stream() -> list[str]:
        return [piece async for piece in session.astream(CAPITAL, temperature=0)]

    async def overflow() -> None:
        async for _ in session.astream("word " * 1100):
            pytest.fail("a piece came")

    assert "".join(asyncio.run(stream())) == ANSWER
    with pytest.raises(ContextOverflowError):
        asyncio.run(overflow())
    assert session.history == EXCHANGE


def test_cancelling_aborts_and_keeps_what_came(session: ChatSession) -> None:
    endless = {"temperature": 0, "logit_bias": {2: -100, 0: -100}}

    async def cancel_a_stream() -> None:
        pieces = session.astream("Count to one hundred.", **endless)
        await anext(pieces)
        await pieces.aclose()

    async def cancel_a_prompt() -> None:
        task = asyncio.create_task(session.aprompt("Go on.", **endless))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_a_stream())
    assert session.last_result is not None and session.last_result.finish_reason == "abort"
    assert [item.type for item in session.history] == ["user", "model"]
    asyncio.run(cancel_a_prompt())
    assert session.last_result.finish_reason == "abort"
    assert [item.type for item in session.history] == ["user", "model"] * 2


def test_a_long_conversation_evaluates_only_what_is_new(
    session: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated: list[int] = []
    evaluate = session.model.llama.eval
    session.prompt("Name three fruits.", temperature=0, max_tokens=20)
    monkeypatch.setattr(session.model.llama, "eval", lambda ids: (evaluated.append(len(ids)), evaluate(ids)))
    for question in ("Name a fourth.", "And a fifth."):
        evaluated.clear()
        session.prompt(question, temperature=0, max_tokens=10)
        assert evaluated[0] < 25
