"""`chatwrap serve` and OpenAI's own client, its streaming helpers included."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from .conftest import CAPITAL

ANSWER = "The capital of France is Paris."
START_LIMIT_S = 90
KEY = "sesame"
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"enum": ["c", "f"]}},
    "required": ["city"],
    "additionalProperties": False,
}
ZONE = {"type": "object", "properties": {"zone": {"enum": ["UTC", "CET"]}}, "required": ["zone"]}
SCHEMAS = {"get_weather": CITY, "get_time": ZONE}
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "description": f"{name}.", "parameters": schema}}
    for name, schema in SCHEMAS.items()
]
NAMED = {"type": "function", "function": {"name": "get_time"}}
QUESTION = "What is the weather in Paris?"


@pytest.fixture(scope="module", params=["chatml"])
def server(
    request: pytest.FixtureRequest, smollm_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    log = tmp_path_factory.mktemp("serve") / "log"
    arguments = ["--port=0", "--alias=smollm", "--n-ctx=700", "--threads=1", f"--api-key={KEY}", "--seed=1"]
    command = [
        sys.executable,
        "-c",
        "from chatwrap.cli import main; main()",
        "serve",
        str(smollm_path),
        f"--format={request.param}",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *arguments], stdout=output, stderr=output)
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        process.wait(timeout=30)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(r"running on (http://[\d.:]+)", log.read_text("utf-8", "replace")):
            return found[1]
        time.sleep(0.2)
    pytest.fail(f"the server didn't start: {log.read_text('utf-8', 'replace')[-2000:]}")


@pytest.fixture(scope="module")
def client(server: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server}/v1", api_key=KEY, max_retries=0) as opened:
        yield opened


def ask(client: openai.OpenAI, content: Any = CAPITAL, **arguments: Any) -> Any:
    messages: Any = [{"role": "user", "content": content}]
    settings = {"temperature": 0, "max_tokens": 70, **arguments}
    return client.chat.completions.create(model="smollm", messages=messages, **settings)


def check_calls(calls: Any, names: set[str]) -> None:
    assert calls and len({call.id for call in calls}) == len(calls)
    for call in calls:
        assert call.type == "function" and call.function.name in names
        Draft202012Validator(SCHEMAS[call.function.name]).validate(json.loads(call.function.arguments))


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["smollm"]
    assert client.models.retrieve("smollm").owned_by == "chatwrap"
    with pytest.raises(openai.NotFoundError, match="no model 'other'"):
        client.models.retrieve("other")


def test_chat_whole_and_streamed(client: openai.OpenAI) -> None:
    answer = ask(client)
    assert answer.model == "smollm" and answer.choices[0].finish_reason == "stop"
    text = answer.choices[0].message.content
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    assert (chunks[-1].choices, chunks[-1].usage) == ([], answer.usage)
    assert [c.choices[0].finish_reason for c in chunks[-3:-1]] == [None, "stop"]
    assert ask(client, max_tokens=None, max_completion_tokens=2).choices[0].finish_reason == "length"
    parts = [{"type": "text", "text": CAPITAL[:9]}, {"type": "text", "text": CAPITAL[9:]}]
    assert ask(client, parts).choices[0].message.content == text


@pytest.mark.parametrize(
    "choice", ["auto", "none", "required", NAMED], ids=["auto", "none", "required", "named"]
)
def test_tools_in_all_four_choices(client: openai.OpenAI, choice: Any) -> None:
    (whole,) = ask(client, QUESTION, tools=TOOLS, tool_choice=choice, stop=["."]).choices
    messages: Any = [{"role": "user", "content": QUESTION}]
    with client.chat.completions.stream(
        model="smollm",
        messages=messages,
        tools=TOOLS,
        tool_choice=choice,
        temperature=0,
        max_tokens=70,
        stop=["."],
    ) as stream:
        for _ in stream:
            pass
        (streamed,) = stream.get_final_completion().choices
    is_forced = choice not in ("auto", "none")
    for answer in (whole, streamed):
        assert answer.finish_reason == ("tool_calls" if answer.message.tool_calls else "stop")
        assert bool(answer.message.tool_calls) or not is_forced
        assert not answer.message.tool_calls or choice != "none"
    assert streamed.message.content == whole.message.content
    if is_forced:
        names = {"get_time"} if choice == NAMED else set(SCHEMAS)
        check_calls(whole.message.tool_calls, names)
        check_calls(streamed.message.tool_calls, names)
        arguments = [[call.function.arguments for call in a.message.tool_calls] for a in (whole, streamed)]
        assert arguments[0] == arguments[1]


def test_deltas_of_calls(client: openai.OpenAI) -> None:
    chunks = list(ask(client, QUESTION, tools=TOOLS, tool_choice="required", stream=True))
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[0].choices[0].delta.content is None
    seen: dict[int, list[str]] = {}
    for chunk in chunks:
        for entry in chunk.choices[0].delta.tool_calls or ():
            is_first = entry.index not in seen
            assert (entry.id is not None, entry.type is not None) == (is_first, is_first)
            assert (entry.function.name is not None) == is_first
            seen.setdefault(entry.index, []).append(entry.function.arguments)
    assert list(seen) == list(range(len(seen))) and all(len(pieces) > 2 for pieces in seen.values())
    assert all(json.loads("".join(pieces)) for pieces in seen.values())
    assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == ["tool_calls"]


def test_calls_made_together(client: openai.OpenAI) -> None:
    options: dict[str, Any] = {"tools": TOOLS, "tool_choice": "required", "max_tokens": 300}
    calls = ask(client, "The weather in Paris and in Rome?", **options).choices[0].message.tool_calls
    check_calls(calls, set(SCHEMAS))
    one = ask(client, "The weather in Paris and in Rome?", parallel_tool_calls=False, **options)
    assert len(one.choices[0].message.tool_calls) == 1


def test_results_are_read(client: openai.OpenAI) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "get_time", "arguments": '{"zone":"UTC"}'}}
    messages: Any = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "What time is it?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "12:00"},
    ]
    answer = client.chat.completions.create(
        model="any", messages=messages, tools=TOOLS, max_tokens=10, temperature=0
    )
    assert answer.choices[0].message.role == "assistant"


def test_schemas(client: openai.OpenAI) -> None:
    class Person(BaseModel):
        name: str
        age: int

    messages: Any = [{"role": "user", "content": "Invent a person."}]
    parsed = client.chat.completions.parse(
        model="smollm", messages=messages, response_format=Person, temperature=0, max_tokens=200
    )
    assert isinstance(parsed.choices[0].message.parsed, Person)
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}
    answer = ask(client, "Name a city.", response_format=form)
    Draft202012Validator(CITY).validate(json.loads(answer.choices[0].message.content))
    both = ask(client, QUESTION, response_format=form, tools=TOOLS).choices[0].message
    if both.tool_calls:
        check_calls(both.tool_calls, set(SCHEMAS))
    else:
        Draft202012Validator(CITY).validate(json.loads(both.content))


def test_the_last_message_of_the_assistant_is_continued(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": CAPITAL}, {"role": "assistant", "content": "The capital of"}]
    options: dict[str, Any] = {"model": "smollm", "messages": messages, "temperature": 0, "max_tokens": 8}
    answer = client.chat.completions.create(**options, extra_body={"continue_final_message": True})
    assert answer.choices[0].message.content == " France is Paris."
    with pytest.raises(openai.BadRequestError, match="the last message is the assistant's"):
        client.chat.completions.create(**options, extra_body={"add_generation_prompt": True})


def test_likelihoods(client: openai.OpenAI) -> None:
    whole = ask(client, logprobs=True, top_logprobs=2, max_tokens=4).choices[0].logprobs.content
    assert len(whole) == 4
    for entry in whole:
        assert entry.logprob <= 0 and entry.token.encode() == bytes(entry.bytes)
        first, second = entry.top_logprobs
        assert first.token == entry.token and first.logprob == entry.logprob >= second.logprob
    chunks = ask(client, logprobs=True, max_tokens=4, stream=True)
    streamed = [e for c in chunks if c.choices[0].logprobs for e in c.choices[0].logprobs.content]
    assert [(e.token, round(e.logprob, 3)) for e in streamed] == [
        (e.token, round(e.logprob, 3)) for e in whole
    ]


def test_older_functions(client: openai.OpenAI) -> None:
    functions = [tool["function"] for tool in TOOLS]
    choice = ask(client, QUESTION, functions=functions, function_call={"name": "get_time"}).choices[0]
    assert choice.finish_reason == "function_call" and choice.message.function_call.name == "get_time"
    Draft202012Validator(ZONE).validate(json.loads(choice.message.function_call.arguments))


def test_a_stream_that_is_left_frees_the_model(client: openai.OpenAI) -> None:
    with ask(client, "Count to one hundred.", stream=True, max_tokens=600) as stream:
        next(stream)
    started = time.monotonic()
    assert ask(client, max_tokens=3).choices[0].message.content
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 2}, "n: 2 can't be followed. There is one answer at a time. Ask once more for another."),
        ({"temperature": -1}, "temperature: must be a number from 0 to 3.4e+38, not -1."),
        ({"tool_choice": "required"}, "tool_choice: 'required' can't be followed. Give tools."),
        ({"extra_body": {"top_n": 1}}, "No chat completion argument named 'top_n'. Did you mean 'top_p'?"),
        (
            {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}},
            "chat_template_kwargs: 'enable_thinking', but the format",
        ),
        ({"messages": [{"role": "user", "content": "word " * 800}]}, "Requested tokens (810) exceed"),
    ],
)
def test_faults_are_refused(client: openai.OpenAI, arguments: dict[str, Any], message: str) -> None:
    settings = {"model": "smollm", "messages": [{"role": "user", "content": "Hi"}], **arguments}
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as error:
            client.chat.completions.create(**settings, stream=stream)
        assert error.value.body["message"].startswith(message)  # type: ignore[index,call-overload]
    assert error.value.type == "invalid_request_error"


def test_what_is_no_request(server: str) -> None:
    def answer(path: str, data: bytes | None = None, key: str = KEY) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {key}"}
        try:
            with urllib.request.urlopen(urllib.request.Request(server + path, data, headers)) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())["error"]["message"]

    completions = "/v1/chat/completions"
    assert answer("/health") == (200, '{"status": "ok"}')
    assert answer("/v1/nothing") == (404, "GET /v1/nothing: Not Found.")
    assert answer(completions) == (405, "GET /v1/chat/completions: Method Not Allowed.")
    assert answer(completions, b"[]") == (400, "body: must be an object, not [].")
    assert answer(completions, b"{")[0] == answer(completions, b"\xff")[0] == 400
    assert answer(completions, b"{}") == (
        400,
        "messages: a NoneType, not a list of messages. Put it in a list.",
    )
    assert answer(completions, b'{"messages": [], "stream": 1}') == (
        400,
        "stream: must be true or false, not 1.",
    )
    assert answer("/v1/models", key="open") == (401, "no valid API key. Send it as a bearer token.")
    assert answer(completions, b"{}", key="")[0] == 401
