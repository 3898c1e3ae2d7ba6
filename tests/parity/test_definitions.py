"""Built-in formats write what their vendors' templates write, byte for byte.

The vendors' Jinja templates, and for older families the formats that llama.cpp knows by name, are the
answers that we did not write. A text for BOS is left out on both sides: the vocabulary adds it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import llama_cpp
import pytest

from chatwrap import load_chat_wrapper
from chatwrap.chat.functions import as_functions
from chatwrap.chat.history import as_history
from chatwrap.chat.openai import functions_to_openai, history_to_openai
from chatwrap.chat.tokenizer import SpecialTokenEntry, Tokenizer
from chatwrap.wrapper.jinja_messages import MessageShape, messages_of
from chatwrap.wrapper.jinja_template import ChatTemplate

History = list[dict[str, Any]]

SYSTEM = {"type": "system", "text": "Sei kurz. 日本 <b>"}
LATE = {"type": "system", "text": "Now in rhyme."}
USER = {"type": "user", "text": "Grüße\n  an {{message}} 😀"}
USER2 = {"type": "user", "text": "1+1?"}
ANSWER = {"type": "model", "response": ["Zwei\n\nZeilen."]}
THOUGHT = {"type": "segment", "segmentType": "thought", "text": "Hm, é.", "ended": True}
CALL = {
    "type": "functionCall",
    "name": "get_weather",
    "params": {"city": "Łódź", "days": [1, {"k": None}]},
    "result": "sunny, 22°",
}
OTHER = {**CALL, "params": {}, "result": "rain\n"}
NUMBERS = {**CALL, "result": {"t": 22, "sky": "ясно"}}
FUNCTIONS = {
    "get_weather": {
        "description": 'The "weather" in a city.',
        "params": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Ein Ort, z. B. Łódź"}},
            "required": ["city"],
        },
    },
    "now": {"description": "The time."},
}
# Some templates write descriptions without escapes, and some fail on functions without parameters.
PLAIN_FUNCTIONS = {
    "get_weather": {
        "description": "The weather in a city.",
        "params": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Ein Ort, z. B. Łódź"},
                "days": {"type": "integer"},
                "units": {"type": "string", "enum": ["°C", "°F"], "description": "Degrees."},
                "tags": {"type": "array", "items": {"type": "string"}},
                "at": {
                    "type": "object",
                    "properties": {"hour": {"type": "number"}, "zone": {"type": "string"}},
                    "required": ["hour"],
                },
                "fast": {"type": "boolean"},
            },
            "required": ["city", "units"],
        },
    },
    "f": {
        "description": "  Padded. ",
        "params": {"type": "object", "properties": {"x": {"type": "string"}}, "required": []},
    },
}

PLAIN: Mapping[str, History] = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "turns": [SYSTEM, USER, ANSWER, USER2, ANSWER, USER],
    "turns without system": [USER, ANSWER, USER2],
}
MORE: Mapping[str, History] = {
    "late system": [SYSTEM, USER, ANSWER, LATE, USER2],
    "two users": [SYSTEM, USER, USER2],
}
SPACES: Mapping[str, History] = {
    "spaces": [
        {"type": "system", "text": " Sei kurz.\n"},
        {"type": "user", "text": "\n Hi "},
        {"type": "model", "response": [" Hallo. \n"]},
        {"type": "user", "text": "  1+1?\n\n"},
    ]
}
OLD_THOUGHTS: Mapping[str, History] = {
    "old thought": [SYSTEM, USER, {"type": "model", "response": [THOUGHT, "Ja."]}, USER2]
}
ONE_CALL: Mapping[str, History] = {
    "call": [SYSTEM, USER, {"type": "model", "response": [CALL]}],
    "call without system": [USER, {"type": "model", "response": [CALL]}],
    "answer after call": [SYSTEM, USER, {"type": "model", "response": [CALL, "Sonnig."]}, USER2],
    "call after call": [
        SYSTEM,
        USER,
        {"type": "model", "response": [CALL, {**OTHER, "startsNewChunk": True}, "Nass."]},
        USER2,
    ],
}
CALLS: Mapping[str, History] = {
    "text before call": [SYSTEM, USER, {"type": "model", "response": ["Moment.", CALL]}],
    "two calls": [SYSTEM, USER, {"type": "model", "response": [CALL, OTHER, "Gemischt."]}, USER2],
    "two calls open": [USER, ANSWER, USER2, {"type": "model", "response": ["So:", CALL, OTHER]}],
    "result as JSON": [SYSTEM, USER, {"type": "model", "response": [NUMBERS]}],
}
CALL_THEN_USER: Mapping[str, History] = {
    "user after call": [SYSTEM, USER, {"type": "model", "response": [CALL]}, USER2]
}
THOUGHTS_WITH_CALLS: Mapping[str, History] = {
    "thought before call": [SYSTEM, USER, {"type": "model", "response": [THOUGHT, CALL]}],
    "thought, text, call": [USER, {"type": "model", "response": [THOUGHT, "Moment.", CALL]}],
    "thoughts of old calls": [
        USER,
        {"type": "model", "response": [THOUGHT, CALL, THOUGHT, "Sonnig."]},
        USER2,
        {"type": "model", "response": [THOUGHT, CALL]},
    ],
}


@dataclass(frozen=True)
class Claim:
    """A definition, the vendor's template that it equals, and for which histories."""

    definition: str
    template: str
    histories: Mapping[str, History]
    with_functions: Mapping[str, History] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    eos: str = ""
    functions: Mapping[str, Any] = field(default_factory=lambda: FUNCTIONS)
    shape: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.definition} = {self.template}"


ANSWERED_CALLS = {"answer after call": ONE_CALL["answer after call"], "two calls": CALLS["two calls"]}
ONE_CALL_WITHOUT_SYSTEM = {"call without system": ONE_CALL["call without system"]}
WITHOUT_TEXT_BEFORE = {
    "two calls": CALLS["two calls"],
    "result as JSON": CALLS["result as JSON"],
}
ALL_THOUGHTS = {**OLD_THOUGHTS, **THOUGHTS_WITH_CALLS}
HERMES_LIKE = {**ONE_CALL, **CALLS, **CALL_THEN_USER}
CLAIMS = (
    Claim("phi-3", "microsoft-Phi-3.5-mini-instruct", {**PLAIN, **MORE, **SPACES}),
    Claim("qwen-2.5", "Qwen-Qwen2.5-7B-Instruct", {**PLAIN, **MORE, **SPACES}, {**PLAIN, **HERMES_LIKE}),
    Claim(
        "qwen-3",
        "Qwen-Qwen3-0.6B",
        {**PLAIN, **MORE, **OLD_THOUGHTS},
        {**PLAIN, **HERMES_LIKE, **OLD_THOUGHTS, **THOUGHTS_WITH_CALLS},
    ),
    Claim("granite-4", "ibm-granite-granite-4.0", {**PLAIN, **MORE, **SPACES}, {**PLAIN, **HERMES_LIKE}),
    Claim(
        "qwen-3.5",
        "Qwen3.5-4B",
        {**PLAIN, **SPACES, **OLD_THOUGHTS, "two users": MORE["two users"]},
        {**PLAIN, **SPACES, **HERMES_LIKE, **ALL_THOUGHTS},
    ),
    Claim(
        "qwen3-coder",
        "Qwen3-Coder",
        {**PLAIN, **MORE, **SPACES},
        {**PLAIN, **HERMES_LIKE, **ALL_THOUGHTS},
    ),
    Claim("qwen3-coder", "Qwen3-Coder", {}, PLAIN, functions=PLAIN_FUNCTIONS),
    Claim(
        "gemma-4",
        "google-gemma-4-31B-it",
        {**PLAIN, **SPACES, **OLD_THOUGHTS, "two users": MORE["two users"]},
        {
            **PLAIN,
            **SPACES,
            **ONE_CALL,
            **WITHOUT_TEXT_BEFORE,
            **CALL_THEN_USER,
            **OLD_THOUGHTS,
            "thought before call": THOUGHTS_WITH_CALLS["thought before call"],
            "thoughts of old calls": THOUGHTS_WITH_CALLS["thoughts of old calls"],
        },
    ),
    Claim("gemma-4", "google-gemma-4-31B-it", {}, PLAIN, functions=PLAIN_FUNCTIONS),
    # Of parallel calls it writes the first alone, and a text before a call as a thought.
    Claim(
        "harmony",
        "openai-gpt-oss-120b",
        {**PLAIN, **SPACES, **OLD_THOUGHTS, "two users": MORE["two users"]},
        {
            **PLAIN,
            **ONE_CALL,
            **CALL_THEN_USER,
            **OLD_THOUGHTS,
            "result as JSON": CALLS["result as JSON"],
            "thought before call": THOUGHTS_WITH_CALLS["thought before call"],
            "thoughts of old calls": THOUGHTS_WITH_CALLS["thoughts of old calls"],
        },
    ),
    Claim("harmony", "openai-gpt-oss-120b", {}, PLAIN, functions=PLAIN_FUNCTIONS),
    Claim(
        "functionary-v3.2",
        "meetkai-functionary-medium-v3.2",
        {**PLAIN, **MORE, **SPACES, **OLD_THOUGHTS},
        {**PLAIN, **HERMES_LIKE, **ALL_THOUGHTS},
        shape={"arguments_as_text": True},
    ),
    Claim("functionary-v3.2", "meetkai-functionary-medium-v3.2", {}, PLAIN, functions=PLAIN_FUNCTIONS),
    # It writes no text before calls.
    Claim(
        "muse",
        "muse-glimmer",
        {**PLAIN, **MORE, **SPACES, **OLD_THOUGHTS},
        {
            **PLAIN,
            **ONE_CALL,
            **WITHOUT_TEXT_BEFORE,
            **CALL_THEN_USER,
            **OLD_THOUGHTS,
            "thought before call": THOUGHTS_WITH_CALLS["thought before call"],
            "thoughts of old calls": THOUGHTS_WITH_CALLS["thoughts of old calls"],
        },
        functions=PLAIN_FUNCTIONS,
    ),
    Claim("granite-3.3", "ibm-granite-granite-3.3-2B-Instruct", {**PLAIN, **MORE, **SPACES}, PLAIN),
    Claim(
        "llama-3.1",
        "meta-llama-Llama-3.1-8B-Instruct",
        {**PLAIN, **MORE, **SPACES},
        {**PLAIN, **SPACES, **ONE_CALL, **CALL_THEN_USER},
        {"date_string": "03 Feb 2026"},
    ),
    Claim(
        "llama-3.1",
        "meta-llama-Llama-3.3-70B-Instruct",
        {**PLAIN, **MORE, **SPACES},
        {**PLAIN, **SPACES, **ONE_CALL, **CALL_THEN_USER, "result as JSON": CALLS["result as JSON"]},
        {"date_string": "03 Feb 2026"},
    ),
    Claim(
        "llama-3.2-lightweight",
        "meta-llama-Llama-3.2-3B-Instruct",
        {**PLAIN, **MORE, **SPACES},
        {**PLAIN, **SPACES, **ONE_CALL, **CALL_THEN_USER},
    ),
    Claim("smollm3", "HuggingFaceTB-SmolLM3-3B", {"system": PLAIN["system"], "turns": PLAIN["turns"]}),
    Claim("lfm2", "LFM2-8B-A1B", {**PLAIN, **MORE, **SPACES, **OLD_THOUGHTS}, PLAIN),
    Claim("lfm2.5", "LFM2.5-Instruct", {**PLAIN, **MORE, **SPACES}, PLAIN),
    Claim(
        "lfm2.5",
        "LFM2.5-8B-A1B",
        {**PLAIN, **MORE, **SPACES, **OLD_THOUGHTS},
        {**PLAIN, **HERMES_LIKE, **ALL_THOUGHTS},
    ),
    Claim(
        "seed-oss",
        "ByteDance-Seed-OSS",
        {**PLAIN, **MORE, **SPACES, **OLD_THOUGHTS},
        {**PLAIN, **HERMES_LIKE, **ALL_THOUGHTS},
        functions=PLAIN_FUNCTIONS,
    ),
    Claim(
        "glm-4",
        "GLM-4.6",
        {**PLAIN, **MORE, **SPACES, **OLD_THOUGHTS},
        {**PLAIN, **HERMES_LIKE, **ALL_THOUGHTS},
    ),
    Claim(
        "kimi-k2",
        "Kimi-K2-Instruct",
        {**PLAIN, **MORE, **SPACES, **OLD_THOUGHTS},
        {**PLAIN, **HERMES_LIKE, **ALL_THOUGHTS},
    ),
    Claim("deepseek-v3.1", "deepseek-ai-DeepSeek-V3.1", {**PLAIN, **MORE, **OLD_THOUGHTS}),
    Claim(
        "deepseek-r1",
        "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
        {**PLAIN, "two users": MORE["two users"], **OLD_THOUGHTS},
        variables={"enable_thinking": True},
    ),
    Claim("gemma", "google-gemma-2-2b-it", {"user": [USER], "turns": PLAIN["turns without system"]}),
    # It writes no system message unless the user's message is last, and no text before calls.
    Claim(
        "mistral-v3-tekken",
        "mistralai-Mistral-Nemo-Instruct-2407",
        PLAIN,
        {
            "user": PLAIN["user"],
            "system": PLAIN["system"],
            "turns without system": PLAIN["turns without system"],
            **ONE_CALL_WITHOUT_SYSTEM,
            **ANSWERED_CALLS,
            "call after call": ONE_CALL["call after call"],
        },
        eos="</s>",
        functions=PLAIN_FUNCTIONS,
    ),
    Claim(
        "mistral-v7-tekken",
        "Mistral-Small-3.2-24B-Instruct-2506",
        {name: history for name, history in PLAIN.items() if history[0] is SYSTEM},
        {
            "system": PLAIN["system"],
            "call": ONE_CALL["call"],
            **ANSWERED_CALLS,
            "call after call": ONE_CALL["call after call"],
            "result as JSON": CALLS["result as JSON"],
        },
        eos="</s>",
    ),
)
# A call made without functions, so that nothing is said about their documentation.
CALLS_ALONE = (
    Claim(
        "deepseek-v3.1",
        "deepseek-ai-DeepSeek-V3.1",
        {**ONE_CALL, **CALLS, **CALL_THEN_USER, **ALL_THOUGHTS},
    ),
    # It writes the frame of calls once in a conversation, and no text before them.
    Claim(
        "deepseek-r1",
        "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
        {"call": ONE_CALL["call"], **ONE_CALL_WITHOUT_SYSTEM, **ANSWERED_CALLS},
        variables={"enable_thinking": True},
        shape={"null_content": True},
    ),
)

# Definitions that equal a format which llama.cpp knows by name.
NAMED = {
    "phi-3": "phi3",
    "phi-4": "phi4",
    "command-r": "command-r",
    "chatglm3": "chatglm3",
    "chatml": "chatml",
    "llama-3": "llama3",
    "mistral-v7-tekken": "mistral-v7-tekken",
}


class OnlyEos(Tokenizer):
    """A vocabulary of which a template learns nothing but the text of EOS."""

    def __init__(self, eos: str) -> None:
        self._eos = eos

    @property
    def special_tokens(self) -> Mapping[int, SpecialTokenEntry]:
        return {1: SpecialTokenEntry(1, self._eos)} if self._eos else {}

    def role_id(self, role: str) -> int | None:
        return 1 if role == "EOS" else None


def clock() -> datetime:
    return datetime(2026, 2, 3)


def cases(claim: Claim) -> Iterator[tuple[str, History, dict[str, Any] | None]]:
    for name, history in claim.histories.items():
        yield name, history, None
    for name, history in claim.with_functions.items():
        yield f"{name}, with functions", history, dict(claim.functions)


@pytest.mark.parametrize("claim", (*CLAIMS, *CALLS_ALONE), ids=str)
def test_renders_what_the_vendors_template_renders(claim: Claim, template_folder: Path) -> None:
    source = (template_folder / f"{claim.template}.jinja").read_text(encoding="utf-8")
    template = ChatTemplate(source, OnlyEos(claim.eos), clock, name=claim.template)
    wrapper = load_chat_wrapper(claim.definition).with_clock(clock)
    for name, history, functions in cases(claim):
        shape = MessageShape("system", "user", "assistant", **claim.shape)
        messages = messages_of(as_history(history), shape)
        tools = functions_to_openai(as_functions(functions)) if functions else None
        expected = template.render(messages, tools, **claim.variables)
        assert str(wrapper.generate_context_state(history, functions).context_text) == expected, name


@pytest.mark.parametrize(("definition", "named"), NAMED.items())
def test_renders_what_llama_cpp_renders_by_name(definition: str, named: str) -> None:
    wrapper = load_chat_wrapper(definition)
    for name, history in PLAIN.items():
        expected = named_format(named, history)
        assert str(wrapper.generate_context_state(history).context_text) == expected, name


def named_format(named: str, history: History) -> str:
    """The prompt that llama.cpp writes in the format of this name."""
    texts = [
        (message["role"].encode(), message["content"].encode()) for message in history_to_openai(history)
    ]
    chat = (llama_cpp.llama_chat_message * len(texts))(
        *(llama_cpp.llama_chat_message(role=role, content=content) for role, content in texts)
    )
    buffer = ctypes.create_string_buffer(1 << 16)
    length = llama_cpp.llama_chat_apply_template(
        named.encode(),
        chat,
        len(texts),
        True,
        buffer,
        len(buffer),
    )
    assert 0 < length < len(buffer)
    return buffer.raw[:length].decode()
