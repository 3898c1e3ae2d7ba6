"""Callers' helpers beside Dotprompt's own: whose names they may not take, whose marks they may not break."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap.dotprompt.dotprompt import Dotprompt
from chatwrap.errors import DotpromptError


@pytest.mark.parametrize(
    "name", ["role", "json", "history", "section", "media", "lookup", "log", "if", "ifEquals", "each", "with"]
)
def test_a_built_in_helper_is_not_replaced(name: str) -> None:
    def helper() -> int:
        return 1

    dotprompt = Dotprompt()
    for use in (lambda: dotprompt.define_helper(name, helper), lambda: Dotprompt(helpers={name: helper})):
        with pytest.raises(DotpromptError) as caught:
            use()
        assert str(caught.value) == f"helpers: {name!r} is built in. Choose another name."
    dotprompt.define_helper("own", helper).define_helper("own", lambda: 2)
    assert dotprompt.render("{{own}}").messages[0].text == "2"


def test_a_helper_needs_a_name() -> None:
    with pytest.raises(DotpromptError) as caught:
        Dotprompt(helpers={"": str})
    assert str(caught.value) == "helpers: a helper without a name. Give it one."


MARK_BREAKERS: dict[str, Callable[[str], str]] = {
    "the end cut": lambda text: text[:-1],
    "the start cut": lambda text: text[1:],
    "all but the first character cut": lambda text: text[:1],
    "all but the last character cut": lambda text: text[-1:],
    "reversed": lambda text: text[::-1],
    "sorted": lambda text: "".join(sorted(text)),
    "as JSON": json.dumps,
    "as JSON in capitals": lambda text: json.dumps(text).upper(),
}


@pytest.mark.parametrize("change", MARK_BREAKERS.values(), ids=MARK_BREAKERS)
@pytest.mark.parametrize("mark", ['{{role "system"}}', '{{media url="data:,"}}', "{{history}}"])
def test_a_helper_that_breaks_a_mark_is_told(change: Callable[[str], str], mark: str) -> None:
    dotprompt = Dotprompt(helpers={"box": lambda options: change(options.fn())})
    with pytest.raises(DotpromptError) as caught:
        dotprompt.render(f"Hi {{{{#box}}}}{mark}{{{{/box}}}}")
    assert str(caught.value) == (
        "prompt:1:4: the helper changed a mark in its block. Give its text back whole.\n"
        f"  Hi {{{{#box}}}}{mark}{{{{/box}}}}\n     ^"
    )


@given(st.text(st.characters(min_codepoint=0xFFFF0, max_codepoint=0x10FFFF)))
def test_a_helper_may_change_what_is_around_marks_and_leave_them_out(value: str) -> None:
    helpers = {"box": lambda options: f"[{options.fn().strip()}]", "gone": lambda options: options.fn()[:0]}
    rendered = Dotprompt(helpers=helpers).render(
        '{{#box}}{{v}}a{{role "model"}}b {{/box}}{{#gone}}{{role "system"}}x{{/gone}}',
        {"input": {"v": value}},
    )
    told = [(message.role, message.text) for message in rendered.messages]
    assert told == [("user", f"[{value}a"), ("model", "b]")]
