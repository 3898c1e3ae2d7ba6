"""Rendering and encoding a conversation of 51 messages, beside plain Jinja2 and llama.cpp.

Run: ``uv run pytest benchmarks/test_prompt.py``. Compare the rows of one run: each group has its yardstick.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jinja2
import pytest

from chatwrap import JinjaTemplateChatWrapper, as_history, encode, load_chat_wrapper, load_vocabulary
from chatwrap.models import default_model, locate

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
ASKED, ANSWERED = "What about this one? " * 10, "Here is what I know of it. " * 20
HISTORY: list[dict[str, Any]] = [
    item
    for _ in range(25)
    for item in ({"type": "user", "text": ASKED}, {"type": "model", "response": [ANSWERED]})
] + [{"type": "user", "text": ASKED}]
MESSAGES = [
    message
    for _ in range(25)
    for message in ({"role": "user", "content": ASKED}, {"role": "assistant", "content": ANSWERED})
] + [{"role": "user", "content": ASKED}]


@pytest.mark.benchmark(group="render")
@pytest.mark.parametrize("name", ["template strings", "jinja wrapper", "plain Jinja2"])
def test_render(benchmark: Any, name: str) -> None:
    compiled = jinja2.Environment().from_string(TEMPLATE)
    strings, jinja = load_chat_wrapper("chatml"), JinjaTemplateChatWrapper(TEMPLATE)
    items = as_history(HISTORY)
    ways: dict[str, Callable[[], object]] = {
        "template strings": lambda: strings.generate_context_state(items),
        "jinja wrapper": lambda: jinja.generate_context_state(items),
        "plain Jinja2": lambda: compiled.render(messages=MESSAGES, add_generation_prompt=True),
    }
    benchmark(ways[name])


@pytest.mark.benchmark(group="encode")
@pytest.mark.parametrize("name", ["encode", "llama_tokenize"])
def test_encode(benchmark: Any, name: str) -> None:
    vocabulary = load_vocabulary(locate(default_model()))
    wrapper = load_chat_wrapper("chatml")
    text = wrapper.generate_context_state(HISTORY).context_text
    prompt = str(text)
    ways: dict[str, Callable[[], list[int]]] = {
        "encode": lambda: encode(text, vocabulary, control_texts=wrapper.control_texts),
        "llama_tokenize": lambda: vocabulary.tokenize(prompt, special=True),
    }
    assert ways["encode"]() == ways["llama_tokenize"]()
    benchmark(ways[name])
