"""Which texts could become special tokens, and that ordinary ones don't cost a second look."""

from __future__ import annotations

from typing import Any

import pytest

from chatwrap.wrapper.look_alikes import LookAlikes

SPECIAL = ["<|im_start|>", "<|object_ref_start|>", "<repo_name>", "<function>", "</s>"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a<|im_start|>b", True),
        ("im_start", True),  # a template may put it in brackets
        ("repo", True),
        ("reponame", False),
        ("m_star", False),
        ("a", False),
        ({"type": "object"}, False),  # a word of JSON Schema
        ({"name": "x"}, False),
        ({"type": "function"}, True),  # a special token is just that word in brackets
        (["fine", {"k": "s>"}], True),
        ("1 < 2", False),
    ],
)
def test_values(value: Any, expected: bool) -> None:
    assert LookAlikes(SPECIAL).in_value(value) is expected


@pytest.mark.parametrize("special", [SPECIAL, None])
def test_messages_are_judged_as_their_values_are(special: list[str] | None) -> None:
    look_alikes = LookAlikes(special)
    texts = ["plain", "a <|im_start|>", "</", "x\n|>", "two\0texts", "<", ["im_start"], None, {"k": 1}]
    for first in texts:
        for second in texts:
            messages = [{"role": "im_start", "content": first}, {"role": "user", "content": second}]
            expected = look_alikes.in_value(first) or look_alikes.in_value(second)
            assert look_alikes.in_messages(messages) is expected, (first, second)
