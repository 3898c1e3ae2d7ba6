"""What a format writes between the generation prompt and an answer is no part of the answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap import TemplateChatWrapper, load_chat_wrapper
from chatwrap.engine.model import load_model
from chatwrap.engine.reading import StartFilter
from chatwrap.engine.session import ChatSession

QUESTION = {"type": "user", "text": "Hi"}
BEGUN = {"type": "model", "response": ["Hel"]}


@pytest.mark.parametrize(
    ("name", "ignored"), [("llama-2", " "), ("mistral", " "), ("vicuna", " "), ("chatml", ""), ("gemma", "")]
)
def test_the_definitions_say_what_it_is(name: str, ignored: str) -> None:
    wrapper = load_chat_wrapper(name)
    assert wrapper.generate_context_state([QUESTION]).ignore_start_text == ignored
    assert wrapper.generate_context_state([QUESTION, BEGUN]).ignore_start_text == ""


@given(st.text("ab ", max_size=4), st.lists(st.text("ab ", max_size=3)))
def test_it_is_dropped_once_however_the_text_comes(ignored: str, chunks: list[str]) -> None:
    start = StartFilter(ignored)
    released = [*(piece for chunk in chunks for piece in start.feed([chunk])), *start.flush()]
    assert "".join(map(str, released)) == "".join(chunks).removeprefix(ignored)
    assert start.n_dropped == len("".join(chunks)) - len("".join(map(str, released)))


def test_an_answer_is_remembered_without_it(smollm_path: Path) -> None:
    wrapper = TemplateChatWrapper(
        "{{history}}<|im_start|>assistant{{completion}}<|im_end|>\n",
        {
            "system": "<|im_start|>system\n{{message}}<|im_end|>\n",
            "user": "<|im_start|>user\n{{message}}<|im_end|>\n",
            "model": "<|im_start|>assistant\n{{message}}<|im_end|>\n",
        },
    )
    with load_model(smollm_path, n_ctx=256, n_threads=1, chat_wrapper=wrapper) as model:
        session = ChatSession(model, system_prompt="")
        assert session.prompt("What is the capital of France?", temperature=0, max_tokens=12) == (
            "The capital of France is Paris."
        )
        assert model.vocabulary.piece(session.last_result.token_ids[0]) == b"\n"  # type: ignore[union-attr]
