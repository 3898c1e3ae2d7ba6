from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llama_cpp
import pytest
from llama_cpp.llama_chat_format import LlamaChatCompletionHandlerRegistry

from chatwrap.engine.handler import llama_cpp_handler, register
from chatwrap.engine.model import Model
from chatwrap.engine.session import ChatSession
from chatwrap.errors import ChatwrapError, ContextOverflowError, OptionError, UnknownNameError

from .conftest import CAPITAL

ANSWER = "The capital of France is Paris."
MESSAGES = [{"role": "user", "content": CAPITAL}]
TOOL = {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {}}}


@pytest.fixture(scope="module")
def llama(smollm_path: Path) -> Iterator[llama_cpp.Llama]:
    loaded = llama_cpp.Llama(
        str(smollm_path),
        n_ctx=512,
        chat_handler=llama_cpp_handler("chatml"),
        n_threads=1,
        n_threads_batch=1,
        verbose=False,
    )
    yield loaded
    loaded.close()


def ask(llama: llama_cpp.Llama, messages: Any = MESSAGES, **arguments: Any) -> Any:
    return llama.create_chat_completion(messages, **{"temperature": 0, **arguments})


def test_a_whole_answer(llama: llama_cpp.Llama) -> None:
    answer = ask(llama, model="mine")
    assert answer.pop("id").startswith("chatcmpl-") and answer.pop("created") > 1_700_000_000
    assert answer == {
        "object": "chat.completion",
        "model": "mine",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": ANSWER},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 16, "completion_tokens": 8, "total_tokens": 24},
    }
    assert ask(llama, max_tokens=2)["choices"][0]["finish_reason"] == "length"


def test_a_streamed_answer(llama: llama_cpp.Llama) -> None:
    chunks = list(ask(llama, stream=True))
    choices = [chunk["choices"][0] for chunk in chunks]
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(choice["delta"]["content"] for choice in choices[1:-1]) == ANSWER
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
    assert choices[-1]["delta"] == {}
    assert chunks[-1]["usage"] == {"prompt_tokens": 16, "completion_tokens": 8, "total_tokens": 24}


def test_same_text_as_the_session(llama: llama_cpp.Llama, model: Model) -> None:
    session = ChatSession(model, system_prompt="Answer in one word.")
    text = session.prompt("Name a colour.", temperature=0, max_tokens=12)
    messages = [
        {"role": "system", "content": "Answer in one word."},
        {"role": "user", "content": "Name a colour."},
    ]
    assert ask(llama, messages, max_tokens=12)["choices"][0]["message"]["content"] == text


def test_a_registered_format_is_found_by_its_name(smollm_path: Path) -> None:
    register("chatwrap-test", "chatml")
    try:
        with pytest.raises(OptionError) as error:
            register("chatwrap-test", "chatml")
        assert str(error.value) == (
            "name: llama-cpp-python has a chat format 'chatwrap-test' already. "
            "Choose another name, or pass overwrite=True."
        )
        register("chatwrap-test", "auto", overwrite=True)
        llama = llama_cpp.Llama(str(smollm_path), n_ctx=128, chat_format="chatwrap-test", verbose=False)
        assert ask(llama)["choices"][0]["message"]["content"] == ANSWER
        llama.close()
    finally:
        LlamaChatCompletionHandlerRegistry().unregister_chat_handler("chatwrap-test")


def test_message_text_never_becomes_a_control_token(
    llama: llama_cpp.Llama, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    evaluate = llama.eval
    monkeypatch.setattr(llama, "eval", lambda ids: (seen.extend(ids), evaluate(ids)))
    llama.reset()
    ask(llama, [{"role": "user", "content": "a<|im_end|>b"}], max_tokens=1)
    assert seen[3:12] == [81, 44, 108, 306, 79, 486, 108, 46, 82]


def test_tools_are_documented_unless_they_are_not_to_be_used(llama: llama_cpp.Llama) -> None:
    plain = ask(llama, max_tokens=1)["usage"]["prompt_tokens"]
    documented = ask(llama, max_tokens=1, tools=[TOOL])["usage"]["prompt_tokens"]
    assert documented > plain + 40
    assert ask(llama, max_tokens=1, functions=[TOOL["function"]])["usage"]["prompt_tokens"] == documented
    assert ask(llama, max_tokens=1, tools=[TOOL], tool_choice="none")["usage"]["prompt_tokens"] == plain


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "then"}}},
            "tool_choice: {'type': 'function', 'function': {'name': 'then'}} can't be followed. "
            "Give 'auto', 'none', 'required', or name one of 'now'.",
        ),
        ({"tool_choice": "required"}, "tool_choice: 'required' can't be followed. Give tools."),
        (
            {"functions": [TOOL], "function_call": {"name": "then"}},
            "function_call: {'name': 'then'} can't be followed. Give 'auto', 'none', or name one of 'now'.",
        ),
        ({"tools": [TOOL], "functions": [TOOL]}, "functions: given together with tools. Give tools alone."),
        (
            {"logprobs": 3, "top_logprobs": 21},
            "logprobs: must be true or false, not 3.\n"
            "top_logprobs: must be a whole number from 0 to 20, not 21.",
        ),
        ({"top_logprobs": 2}, "top_logprobs: 2, but logprobs is None. Set logprobs to true."),
        (
            {"tfs_z": 0.5},
            "tfs_z: 0.5 can't be followed. llama.cpp has no tail-free sampling any more. Leave it out.",
        ),
        ({"temperature": -1}, "temperature: must be a number from 0 to 3.4e+38, not -1."),
        ({"logit_bias": {"x": 1}}, "logit_bias: must have token ids as keys, not 'x'."),
        ({"stop": [3]}, "stop: must be a string or a list of strings, not [3]."),
    ],
)
def test_what_cannot_be_followed_is_refused(
    llama: llama_cpp.Llama, arguments: dict[str, Any], message: str
) -> None:
    for stream in (False, True):
        with pytest.raises(ChatwrapError) as error:
            ask(llama, stream=stream, **arguments)
        assert str(error.value) == message


def test_what_is_no_argument_is_refused(llama: llama_cpp.Llama) -> None:
    with pytest.raises(UnknownNameError) as error:
        llama_cpp_handler("chatml")(llama=llama, messages=MESSAGES, enable_thinking=True)
    assert str(error.value).startswith("No chat completion argument named 'enable_thinking'.")
    with pytest.raises(UnknownNameError, match="Did you mean 'chatml'"):
        llama_cpp_handler("chatlm")


def test_what_can_be_followed_is(llama: llama_cpp.Llama) -> None:
    def text(**arguments: Any) -> str:
        content: str = ask(llama, **arguments)["choices"][0]["message"]["content"]
        return content

    assert text(stop=" is") == "The capital of France"
    assert text(stop=["capital", ""]) == "The "
    assert "Paris" not in text(logit_bias={"7042": -100}, max_tokens=9)
    assert text(grammar=llama_cpp.LlamaGrammar.from_string('root ::= "Oslo"')) == "Oslo"
    shortest = llama_cpp.LogitsProcessorList([llama_cpp.MinTokensLogitsProcessor(10, 2)])
    assert ask(llama, logits_processor=shortest, max_tokens=12)["usage"]["completion_tokens"] > 8
    assert text(response_format={"type": "text"}, max_tokens=0, seed=3, logprobs=False) == ANSWER


def test_overflow_is_said_in_the_servers_words(llama: llama_cpp.Llama) -> None:
    with pytest.raises(ContextOverflowError) as error:
        ask(llama, [{"role": "user", "content": "word " * 600}], stream=True)
    assert str(error.value) == (
        "Requested tokens (610) exceed context window of 512: "
        "prompt: 610 tokens, but the context holds 512 and needs one free to answer. "
        "Shorten the conversation, or load the model with a larger n_ctx."
    )


def test_a_new_request_ends_a_stream_that_nobody_reads(llama: llama_cpp.Llama) -> None:
    forgotten = ask(llama, stream=True)
    next(forgotten), next(forgotten)
    assert ask(llama)["choices"][0]["message"]["content"] == ANSWER
    with pytest.raises(ChatwrapError, match="the model has begun another one since"):
        next(forgotten)
