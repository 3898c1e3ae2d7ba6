from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap.chat.history import (
    ChatHistory,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatSystemMessage,
    ChatUserMessage,
    as_history,
)
from chatwrap.chat.text import LlamaText
from chatwrap.engine.context import DropOldest, Shortening, as_strategy, fitted
from chatwrap.errors import ContextOverflowError, HistoryError, OptionError


def system(text: str) -> ChatSystemMessage:
    return ChatSystemMessage(text=LlamaText(text))


def user(text: str) -> ChatUserMessage:
    return ChatUserMessage(text=text)


def answer(*parts: Any) -> ChatModelResponse:
    return ChatModelResponse(response=parts)


def count(history: ChatHistory) -> int:
    """A token a character, results included, and two an item."""
    return sum(2 + len("".join(texts(item))) for item in history)


def texts(item: Any) -> list[str]:
    if not isinstance(item, ChatModelResponse):
        return [str(item.text)]
    return [part if isinstance(part, str) else str(part.result) for part in item.response]


def fit(history: ChatHistory, n_ctx: int, strategy: Any = "drop_oldest", **options: Any) -> Any:
    return fitted(
        history, count, n_ctx=n_ctx, strategy=as_strategy(strategy), **{"max_tokens": None, **options}
    )


TALK: ChatHistory = (
    system("Be kind."),
    user("A" * 10),
    answer("B" * 10),
    user("C" * 10),
    system("Now!"),
    answer("D" * 10),
    user("E" * 10),
)


def test_what_fits_stays() -> None:
    assert count(TALK) == 76
    assert fit(TALK, 88) == (TALK, None)
    assert fit(TALK, 77, max_tokens=1) == (TALK, None)
    assert fit(TALK, 77, "error") == (TALK, None)


def test_the_oldest_exchanges_go_first() -> None:
    assert fit(TALK, 80) == ((TALK[0], *TALK[3:]), Shortening(2, 20, 76, 52))
    assert fit(TALK, 60) == ((TALK[0], TALK[6]), Shortening(5, 44, 76, 22))


def test_no_more_goes_than_has_to_where_the_target_cannot_be_reached() -> None:
    history = (user("A"), answer("B"), user("C"), answer("D"), user("E" * 70))
    kept, report = fit(history, 90, max_tokens=10)
    assert kept == history[2:] and report == Shortening(2, 2, 84, 78)


def test_texts_are_cut_in_the_middle_when_nothing_whole_is_left() -> None:
    history = (system("S"), user("A"), answer("B"), user("C" * 50 + "D" * 50))
    kept, report = fit(history, 64)
    assert kept[0] == history[0] and count(kept) == 56
    assert kept[1].text == "C" * 22 + "\n[...]\n" + "D" * 22
    assert report == Shortening(2, 51, 111, 56)


def test_results_are_cut_before_the_user_and_the_user_before_the_system() -> None:
    call = ChatModelFunctionCall(name="f", arguments={}, result="R" * 100)
    history = (system("S" * 20), user("U" * 20), answer(call))
    kept, _ = fit(history, 120)
    assert kept[:2] == history[:2] and kept[2].response[0].result == "R" * 26 + "\n[...]\n" + "R" * 26
    kept, _ = fit(history, 58)
    assert kept[0] == history[0] and kept[1].text == "U" * 5 + "\n[...]\n" + "U" * 6
    kept, _ = fit(history, 40)
    assert kept[1].text == "\n[...]\n" and str(kept[0].text) == "SSSS\n[...]\nSSSS"
    with pytest.raises(ContextOverflowError) as error:
        fit(history, 20)
    assert (error.value.n_tokens, error.value.n_ctx) == (27, 20)


def test_it_may_be_an_error() -> None:
    with pytest.raises(ContextOverflowError) as error:
        fit(TALK, 76, "error")
    assert str(error.value).startswith("prompt: 76 tokens, but the context holds 76")


def test_a_function_of_ones_own() -> None:
    seen = []

    def last_only(overflow: Any) -> Any:
        seen.append((overflow.n_tokens, overflow.n_most, overflow.n_ctx, overflow.count(overflow.history)))
        return [{"type": "user", "text": overflow.history[-1].text}]

    kept, report = fit(TALK, 80, last_only)
    assert kept == (TALK[-1],) and report == Shortening(6, 52, 76, 12)
    assert seen == [(76, 70, 80, 76)]
    with pytest.raises(ContextOverflowError):
        fit(TALK, 76, lambda overflow: overflow.history)
    with pytest.raises(HistoryError):
        fit(TALK, 76, lambda overflow: [{"type": "robot"}])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: as_strategy("drop"),  # type: ignore[arg-type]
            "context_strategy: 'drop' is none. "
            "Give 'drop_oldest', 'error', or a function of a ContextOverflow.",
        ),
        (
            lambda: as_strategy(3),  # type: ignore[arg-type]
            "context_strategy: 3 is none. Give 'drop_oldest', 'error', or a function of a ContextOverflow.",
        ),
        (lambda: DropOldest(target=0), "target: must be above 0 and at most 1, not 0."),
    ],
)
def test_what_is_no_strategy(make: Any, message: str) -> None:
    with pytest.raises(OptionError) as error:
        make()
    assert str(error.value) == message


@given(
    st.lists(st.tuples(st.sampled_from(["system", "user", "model"]), st.text("ab", max_size=30)), min_size=1),
    st.integers(20, 200),
)
def test_what_is_kept_fits_and_is_in_order(items: list[tuple[str, str]], n_ctx: int) -> None:
    history = as_history(
        [
            {"type": kind, "response": [text]} if kind == "model" else {"type": kind, "text": text}
            for kind, text in items
        ]
    )
    try:
        kept, report = fit(history, n_ctx)
    except ContextOverflowError as error:
        assert error.n_tokens > n_ctx - max(1, n_ctx // 8)
        return
    assert count(kept) < n_ctx and (report is None) == (kept == history)
    if history[0].type == "system":
        assert kept[0].type == "system"
    assert kept[-1].type == history[-1].type
    whole = iter(history)
    assert all(any(item == other for other in whole) for item in kept if "[...]" not in str(item))
