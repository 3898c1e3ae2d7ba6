"""llama-cpp-python's own server and OpenAI's own client, with a chat format of ours between them."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from .conftest import CAPITAL

ANSWER = "The capital of France is Paris."
SERVER = """
import runpy
from chatwrap.engine.handler import register
register("house", "chatml")
runpy.run_module("llama_cpp.server", run_name="__main__")
"""
START_LIMIT_S = 90


@pytest.fixture(scope="module")
def client(smollm_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {
        "model": smollm_path,
        "model_alias": "smollm",
        "chat_format": "house",
        "n_ctx": 512,
        "n_threads": 1,
    }
    arguments = [f"--{name}={value}" for name, value in {**options, "port": port}.items()]
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("wb") as output:
        server = subprocess.Popen([sys.executable, "-c", SERVER, *arguments], stdout=output, stderr=output)
    try:
        with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as opened:
            _wait(opened, server, log)
            yield opened
    finally:
        server.terminate()
        server.wait(timeout=30)


def _wait(client: openai.OpenAI, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            client.models.list()
        except openai.APIConnectionError:
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"the server didn't start: {log.read_text('utf-8', 'replace')[-2000:]}")


def ask(client: openai.OpenAI, content: str = CAPITAL, **arguments: Any) -> Any:
    messages: Any = [{"role": "user", "content": content}]
    settings = {"temperature": 0, "extra_body": {"repeat_penalty": 1.0}, **arguments}
    return client.chat.completions.create(model="smollm", messages=messages, **settings)


def test_whole_answers(client: openai.OpenAI) -> None:
    answer = ask(client)
    assert (answer.object, answer.model) == ("chat.completion", "smollm")
    assert (answer.choices[0].message.role, answer.choices[0].message.content) == ("assistant", ANSWER)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens == 24
    assert ask(client, max_tokens=2).choices[0].finish_reason == "length"
    assert ask(client, stop=[" is"]).choices[0].message.content == "The capital of France"


def test_streamed_answers(client: openai.OpenAI) -> None:
    chunks = list(ask(client, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == ANSWER
    assert [chunk.choices[0].finish_reason for chunk in chunks[-2:]] == [None, "stop"]


def test_a_stream_that_is_left_frees_the_model(client: openai.OpenAI) -> None:
    with ask(client, "Count to one hundred.", stream=True) as stream:
        next(stream)
    assert ask(client).choices[0].message.content == ANSWER


def test_a_schema_is_followed(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [7]}}, "required": ["n"]}
    answer = ask(client, response_format={"type": "json_object", "schema": schema})
    assert json.loads(answer.choices[0].message.content or "") == {"n": 7}


def test_faults_are_error_responses(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as overflow:
        ask(client, "word " * 600)
    assert overflow.value.code == "context_length_exceeded"
    unsatisfiable = {"type": "json_object", "schema": {"type": "integer", "enum": ["a"]}}
    with pytest.raises(openai.InternalServerError, match="no value satisfies this schema"):
        ask(client, response_format=unsatisfiable)
    assert ask(client).choices[0].message.content == ANSWER
