from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from chatwrap.errors import AnswerError, MissingExtraError, ModelError
from chatwrap.prompts import ready
from chatwrap.prompts.endpoint import OpenAICompatibleModel
from chatwrap.prompts.messages import Message
from chatwrap.prompts.prompt import Prompt
from chatwrap.prompts.template import PromptTemplate
from chatwrap.prompts.tools import Tool


class Endpoint(ThreadingHTTPServer):
    """An OpenAI-compatible server that streams `deltas` and remembers what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.deltas: list[dict[str, Any]] = []
        self.reason = "stop"
        self.models = ["first", "second"]
        self.requests: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send(
            200, {"object": "list", "data": [{"id": name, "object": "model"} for name in self.server.models]}
        )

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        if body["model"] == "second":
            self._send(400, {"error": {"message": "no such model"}})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for delta in self.server.deltas:
            self._chunk([{"index": 0, "delta": delta, "finish_reason": None}])
        self._chunk([{"index": 0, "delta": {}, "finish_reason": self.server.reason}])
        self._chunk([], {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11})
        self.wfile.write(b"data: [DONE]\n\n")

    def _chunk(self, choices: list[Any], usage: Any = None) -> None:
        chunk = {
            "id": "1",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": "m",
            "choices": choices,
            "usage": usage,
        }
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

    def _send(self, status: int, value: Any) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_an_endpoint_by_its_url_is_a_model(endpoint: Endpoint) -> None:
    endpoint.deltas = [
        {"reasoning_content": "h"},
        {"reasoning_content": "m"},
        {"content": '{"a"'},
        {"content": ": 1}"},
    ]
    template = PromptTemplate.from_string("q", response_format={"type": "object"})
    prompt = template.with_generation_config({"temperature": 0, "top_k": 3}).format()
    completion = prompt.run(endpoint.url, stop=["x"])
    assert (completion.value, completion.message.thought) == ({"a": 1}, "hm")
    assert (completion.n_prompt_tokens, completion.n_completion_tokens) == (5, 6)
    (sent,) = endpoint.requests
    assert sent["model"] == "first" and sent["messages"] == [{"role": "user", "content": "q"}]
    assert (sent["temperature"], sent["top_k"], sent["stop"]) == (0, 3, ["x"])
    assert sent["response_format"]["json_schema"]["schema"] == {"type": "object"}


def test_calls_come_in_pieces(endpoint: Endpoint) -> None:
    endpoint.deltas = [
        {
            "tool_calls": [
                {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
        {
            "tool_calls": [
                {"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": ""}}
            ]
        },
    ]
    endpoint.reason = "tool_calls"
    template = ready.NATIVE_CHAT_TEMPLATE.with_tools([Tool("f"), Tool("g")])
    completion = template.format(chat_history=[Message("q")]).run(
        endpoint.url, tool_choice="required", max_parallel_calls=1
    )
    found = [(each.name, each.args, each.tool_request_id) for each in completion.tool_requests]
    assert found == [("f", {"x": 1}, "a"), ("g", {}, "b")]
    sent = endpoint.requests[0]
    assert ([each["function"]["name"] for each in sent["tools"]], sent["tool_choice"]) == (
        ["f", "g"],
        "required",
    )
    assert sent["parallel_tool_calls"] is False
    endpoint.deltas = endpoint.deltas[:2]
    with pytest.raises(
        AnswerError, match=r"^answer: the call of 'f' has arguments that can't be read: arguments:1:5"
    ):
        template.format(chat_history=[Message("q")]).run(endpoint.url)


def test_what_an_endpoint_refuses_is_told(endpoint: Endpoint) -> None:
    prompt = Prompt([Message("q")])
    with pytest.raises(ModelError, match=rf"^{endpoint.url}: Error code: 400 - .*no such model"):
        prompt.run(OpenAICompatibleModel(endpoint.url, "second"))
    endpoint.models = []
    with pytest.raises(ModelError) as caught:
        prompt.run(OpenAICompatibleModel(endpoint.url))
    assert str(caught.value) == f"{endpoint.url}: it lists no models. Name one."
    endpoint.models, endpoint.reason, endpoint.deltas = ["m"], "length", [{"content": "a"}]
    assert prompt.run(endpoint.url).finish_reason == "length"


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtraError) as caught:
        OpenAICompatibleModel("http://localhost:1/v1")
    assert str(caught.value) == (
        'An endpoint needs the package openai. Install it with pip install "chatwrap[openai]".'
    )
