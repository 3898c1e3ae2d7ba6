"""Whether all of a history stands in a prompt."""

from __future__ import annotations

import pytest

from chatwrap.chat.history import as_history
from chatwrap.errors import HistoryError
from chatwrap.wrapper.losses import Outline, check_losses

CALL = {"type": "functionCall", "name": "f", "params": {}, "result": "r"}


def test_an_outline() -> None:
    plain = as_history([{"type": "user", "text": "a"}])
    assert Outline.of(plain) == _outline()
    called = as_history([{"type": "system", "text": "s"}, {"type": "model", "response": [CALL, "x"]}])
    assert Outline.of(called) == _outline(has_system=True, has_calls=True)
    beside = as_history([{"type": "model", "response": ["x", CALL]}])
    assert Outline.of(beside) == _outline(has_calls=True, has_text_before_calls=True)
    parallel = as_history([{"type": "model", "response": [CALL, CALL]}])
    assert Outline.of(parallel) == _outline(has_calls=True, has_parallel_calls=True)
    in_turn = as_history([{"type": "model", "response": [CALL, {**CALL, "startsNewChunk": True}]}])
    assert Outline.of(in_turn) == _outline(has_calls=True)


def _outline(**features: bool) -> Outline:
    absent = dict.fromkeys(("has_system", "has_calls", "has_text_before_calls", "has_parallel_calls"), False)
    return Outline(**{**absent, **features})


@pytest.mark.parametrize("prompt", ["[a][b][a]", "[a][a][b]", "[ a ]b a", "a\nb\na"])
def test_texts_may_stand_in_any_order_but_each_as_often_as_it_was_said(prompt: str) -> None:
    history = as_history([{"type": "user", "text": text} for text in (" a", "b", "a ")])
    check_losses(history, None, prompt)


def test_a_text_that_was_said_twice_must_stand_there_twice() -> None:
    history = as_history([{"type": "user", "text": text} for text in ("same", "b", "same")])
    with pytest.raises(HistoryError) as caught:
        check_losses(history, [{"function": {"name": "gone"}}], "same b")
    assert str(caught.value) == (
        "functions.gone: the template drops or edits it. Use another format, or leave it out.\n"
        "history[2]: the template drops or edits it. Use another format, or leave it out."
    )
