"""`response_format` through llama-cpp-python's own chat call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llama_cpp
import pytest

from chatwrap.engine.handler import llama_cpp_handler
from chatwrap.errors import ChatwrapError

MESSAGES = [{"role": "user", "content": "Tell me about Paris."}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "n": {"type": "integer", "minimum": 5, "maximum": 9}},
    "required": ["city", "n"],
}
TOOL = {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {}}}
ENVELOPE = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA, "strict": True}}


@pytest.fixture(scope="module")
def llama(smollm_path: Path) -> Iterator[llama_cpp.Llama]:
    loaded = llama_cpp.Llama(
        str(smollm_path),
        n_ctx=256,
        chat_handler=llama_cpp_handler("chatml"),
        n_threads=1,
        n_threads_batch=1,
        verbose=False,
    )
    yield loaded
    loaded.close()


def ask(llama: llama_cpp.Llama, **arguments: Any) -> Any:
    return llama.create_chat_completion(MESSAGES, **{"temperature": 0, "max_tokens": 60, **arguments})


@pytest.mark.parametrize("response_format", [{"type": "json_object", "schema": SCHEMA}, ENVELOPE])
def test_a_schema_is_followed_whole_and_streamed(llama: llama_cpp.Llama, response_format: Any) -> None:
    choice = ask(llama, response_format=response_format)["choices"][0]
    text = choice["message"]["content"]
    value = json.loads(text)
    assert choice["finish_reason"] == "stop"
    assert list(value) == ["city", "n"] and value["city"] in ("Paris", "Rome") and value["n"] in range(5, 10)
    chunks = ask(llama, response_format=response_format, stream=True)
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == text


def test_any_object(llama: llama_cpp.Llama) -> None:
    content = ask(llama, response_format={"type": "json_object"}, max_tokens=120)["choices"][0]["message"]
    assert content["content"].startswith("{")


def test_text_is_no_constraint(llama: llama_cpp.Llama) -> None:
    free = ask(llama, max_tokens=5)["choices"]
    for response_format in (None, {"type": "text"}, {"type": "text", "schema": None}):
        assert ask(llama, response_format=response_format, max_tokens=5)["choices"] == free


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"response_format": {"type": "xml"}},
            "response_format: {'type': 'xml'} can't be followed. "
            "Give the type 'text', 'json_object' or 'json_schema'.",
        ),
        (
            {"response_format": "json"},
            "response_format: 'json' can't be followed. "
            "Give the type 'text', 'json_object' or 'json_schema'.",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "response_format.json_schema.schema: None isn't a JSON Schema. Give an object.",
        ),
        (
            {"response_format": {"type": "json_object", "schema": 3}},
            "response_format.schema: 3 isn't a JSON Schema. Give an object.",
        ),
        (
            {"response_format": {"type": "json_object", "schema": {"type": "integer", "enum": ["a"]}}},
            "$: no value satisfies this schema. Loosen what excludes everything.",
        ),
        (
            {"response_format": ENVELOPE, "grammar": 'root ::= "a"'},
            "response_format: given together with a grammar. Give one of them.",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused_before_the_first_token(
    llama: llama_cpp.Llama, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(llama, "eval", lambda _: pytest.fail("evaluated"))
    for stream in (False, True):
        with pytest.raises(ChatwrapError) as error:
            ask(llama, stream=stream, **arguments)
        assert str(error.value) == message


def test_tools_that_may_not_be_called_do_no_harm(llama: llama_cpp.Llama) -> None:
    answer = ask(llama, response_format=ENVELOPE, tools=[TOOL], tool_choice="none")
    assert json.loads(answer["choices"][0]["message"]["content"])["city"] in ("Paris", "Rome")
