from __future__ import annotations

import pytest

from .program import run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--chat-template-kwargs", "[1]"],
            "chatwrap: --chat-template-kwargs: must map names to values, not [1]. Give a JSON object.\n",
        ),
        (["missing.gguf"], "chatwrap: missing.gguf: no such file.\n"),
        (["--port", "70000"], "chatwrap: Invalid value for '--port'"),
    ],
)
def test_mistakes_are_told_before_anything_is_served(arguments: list[str], message: str) -> None:
    code, output, errors = run("serve", *arguments)
    assert (code, output) == (2, "") and errors.startswith(message)
