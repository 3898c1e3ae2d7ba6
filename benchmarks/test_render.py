"""Rendering a conversation of growing length, beside a join, plain Jinja2 and the peers' template engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jinja2
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from chatwrap import JinjaTemplateChatWrapper, load_chat_wrapper
from chatwrap.chat.history import ChatHistory
from chatwrap.engine.bench import conversation

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
ROLES = {"system": "system", "user": "user", "model": "assistant"}


def messages_of(history: ChatHistory) -> list[dict[str, str]]:
    return [{"role": ROLES[item.type], "content": str(item.text)} for item in history]


def join(history: ChatHistory) -> Callable[[], object]:
    messages = messages_of(history)
    return lambda: "".join(
        f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in messages
    )


def template_strings(history: ChatHistory) -> Callable[[], object]:
    wrapper = load_chat_wrapper("chatml")
    return lambda: wrapper.generate_context_state(history)


def jinja_wrapper(history: ChatHistory) -> Callable[[], object]:
    wrapper = JinjaTemplateChatWrapper(TEMPLATE)
    return lambda: wrapper.generate_context_state(history)


def plain_jinja2(history: ChatHistory) -> Callable[[], object]:
    template, messages = jinja2.Environment().from_string(TEMPLATE), messages_of(history)
    return lambda: template.render(messages=messages, add_generation_prompt=True)


def llama_cpp_python(history: ChatHistory) -> Callable[[], object]:
    from llama_cpp.llama_chat_format import Jinja2ChatFormatter

    formats: Any = Jinja2ChatFormatter(template=TEMPLATE, eos_token="", bos_token="")
    messages = messages_of(history)
    return lambda: formats(messages=messages)


def minijinja(history: ChatHistory) -> Callable[[], object]:
    peer, messages = pytest.importorskip("minijinja"), messages_of(history)
    environment = peer.Environment(templates={"chat": TEMPLATE})
    return lambda: environment.render_template("chat", messages=messages, add_generation_prompt=True)


def transformers(history: ChatHistory) -> Callable[[], object]:
    peer = pytest.importorskip("transformers.utils.chat_template_utils")
    messages = messages_of(history)
    return lambda: peer.render_jinja_template([messages], chat_template=TEMPLATE, add_generation_prompt=True)


def harmony(history: ChatHistory) -> Callable[[], object]:
    """Its own format, of which loading needs the vocabulary from the network."""
    peer = pytest.importorskip("openai_harmony")
    try:
        encoding = peer.load_harmony_encoding(peer.HarmonyEncodingName.HARMONY_GPT_OSS)
    except Exception as error:  # Rust's own kinds, by what the network says
        pytest.skip(f"openai-harmony has no vocabulary: {error}")
    roles = {"system": peer.Role.SYSTEM, "user": peer.Role.USER, "model": peer.Role.ASSISTANT}
    made = [peer.Message.from_role_and_content(roles[item.type], str(item.text)) for item in history]
    talk = peer.Conversation.from_messages(made)
    return lambda: encoding.render_conversation_for_completion(talk, peer.Role.ASSISTANT)


WAYS = (
    *(join, template_strings, jinja_wrapper, plain_jinja2, llama_cpp_python),
    *(minijinja, transformers, harmony),
)


@pytest.mark.parametrize("n_messages", [10, 50, 200, 500])
@pytest.mark.parametrize("way", WAYS)
def test_render(
    benchmark: BenchmarkFixture, n_messages: int, way: Callable[[ChatHistory], Callable[[], object]]
) -> None:
    benchmark.group = f"render {n_messages} messages"
    benchmark(way(conversation(n_messages)))
