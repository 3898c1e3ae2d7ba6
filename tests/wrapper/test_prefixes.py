"""What was kept of an earlier turn changes nothing but the time that a turn takes."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatwrap import JinjaTemplateChatWrapper, chat_wrapper_names, load_chat_wrapper
from chatwrap.chat.history import ChatHistory, ChatUserMessage, as_history
from chatwrap.chat.text import control
from chatwrap.errors import HistoryError
from chatwrap.wrapper.prefixes import Prefix, Prefixes
from chatwrap.wrapper.template import TemplateChatWrapper
from tests.chat.strategies import histories

FUNCTIONS = {
    "f": {"description": "F.", "params": {"type": "object", "properties": {"a": {"type": "string"}}}}
}
WRAPPERS = {name: load_chat_wrapper(name) for name in chat_wrapper_names()}
TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content | trim }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def clock() -> datetime:
    return datetime(2026, 2, 3)


def outcome(
    wrapper: TemplateChatWrapper | JinjaTemplateChatWrapper, history: ChatHistory, functions: object
) -> object:
    try:
        return wrapper.generate_context_state(history, functions)  # type: ignore[arg-type]
    except HistoryError as error:
        return str(error)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(WRAPPERS)), histories, histories, st.booleans())
def test_turn_by_turn_equals_at_once(
    name: str, history: ChatHistory, other: ChatHistory, with_functions: bool
) -> None:
    """Law: a wrapper that rendered all beginnings of a history renders it as a new wrapper does."""
    functions = FUNCTIONS if with_functions else None
    used = WRAPPERS[name].with_clock(clock)
    for length in range(len(history) + 1):
        for given_history in (history[:length], (*history[:length], *other)):
            new = WRAPPERS[name].with_clock(clock)
            assert outcome(used, given_history, functions) == outcome(new, given_history, functions)


@settings(max_examples=100, deadline=None)
@given(histories, histories)
def test_turn_by_turn_in_a_jinja_template(history: ChatHistory, other: ChatHistory) -> None:
    used = JinjaTemplateChatWrapper(TEMPLATE)
    for length in range(len(history) + 1):
        for given_history in (history[:length], (*history[:length], *other)):
            new = JinjaTemplateChatWrapper(TEMPLATE)
            assert outcome(used, given_history, None) == outcome(new, given_history, None)


def test_other_circumstances_are_another_text() -> None:
    wrapper = load_chat_wrapper("llama-3.1").with_clock(clock)
    history = as_history(
        [
            {"type": "user", "text": "a"},
            {"type": "model", "response": ["b"]},
            {"type": "user", "text": "c"},
            {"type": "model", "response": ["d"]},
            {"type": "user", "text": "e"},
        ]
    )
    first = str(wrapper.generate_context_state(history).context_text)
    second = str(wrapper.generate_context_state(history, FUNCTIONS).context_text)
    third = str(wrapper.with_clock(lambda: datetime(2027, 1, 1)).generate_context_state(history).context_text)
    assert '"name": "f"' in second and '"name": "f"' not in first
    assert "03 Feb 2026" in first and "01 Jan 2027" in third
    assert str(wrapper.generate_context_state(history).context_text) == first


@pytest.mark.parametrize("n_items", [1, 3])
def test_at_most_eight_are_kept_and_the_longest_is_found(n_items: int) -> None:
    prefixes = Prefixes()
    conversations = [tuple(ChatUserMessage(text=f"{n}") for _ in range(4)) for n in range(10)]
    for items in conversations:
        prefixes.keep(Prefix((), items[:1], control("1")))
        prefixes.keep(Prefix((), items[:n_items], control(str(n_items))))
    found = [prefixes.find(items, ()) for items in conversations]
    assert [one is None for one in found] == [True] * 2 + [False] * 8
    assert str(found[-1] and found[-1].text) == str(n_items)
    assert prefixes.find(conversations[-1], ("other",)) is None
    assert prefixes.find(conversations[-1][:n_items], ()) is None
