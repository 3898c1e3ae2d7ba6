"""Thoughts in an answer: read apart, remembered, and ended at a budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatwrap import TemplateChatWrapper
from chatwrap.chat.events import ResponseEnd, SegmentText, TextEvent
from chatwrap.chat.history import ChatModelSegment, ChatUserMessage
from chatwrap.chat.model import ChatRequest
from chatwrap.engine.model import Model
from chatwrap.engine.session import ChatSession
from chatwrap.errors import OptionError


def thinking_wrapper(generation_prompt: str, suffix: str = "\n</think>\n\n") -> TemplateChatWrapper:
    return TemplateChatWrapper(
        "{{history}}<|im_start|>assistant\n" + generation_prompt + "{{completion}}<|im_end|>\n",
        {
            "system": "<|im_start|>system\n{{message}}<|im_end|>\n",
            "user": "<|im_start|>user\n{{message}}<|im_end|>\n",
            "model": "<|im_start|>assistant\n{{message}}<|im_end|>\n",
        },
        segments={"thought_template": "<think>\n{{content}}" + suffix},
    )


@pytest.fixture
def thinker(model: Model, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.setattr(model, "wrappers", model.wrappers)
    model.chat_wrapper = thinking_wrapper("<think>\n")
    return model


@pytest.mark.parametrize("budget", [0, 1, 5])
def test_a_thought_ends_at_its_budget(thinker: Model, budget: int) -> None:
    question = [ChatUserMessage(text="Name an emoji 🐍 and the capital of France.")]
    result = thinker.complete(question, thought_budget=budget, temperature=0, max_tokens=24)
    thought, *_ = result.response.response
    assert isinstance(thought, ChatModelSegment) and thought.ended
    assert thought.raw is not None and str(thought.raw).startswith("<think>\n")
    assert str(thought.raw).rstrip().endswith("</think>")
    assert len(thinker.vocabulary.tokenize(thought.text)) <= budget + 3 and "�" not in thought.text
    assert "think>" not in result.text and result.text
    end_ids = thinker.vocabulary.tokenize("\n</think>\n\n")
    assert any(list(result.token_ids[n : n + len(end_ids)]) == end_ids for n in range(budget + 4))


def test_a_thought_without_a_budget_stays_apart(thinker: Model) -> None:
    result = thinker.complete([ChatUserMessage(text="Hi")], temperature=0, max_tokens=6)
    assert result.text == "" and result.response.response[0].text  # type: ignore[union-attr]
    assert [diagnostic.kind for diagnostic in result.diagnostics] == ["unended_segment"]


def test_thoughts_are_remembered_and_replayed(thinker: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    session = ChatSession(thinker, system_prompt="")
    session.prompt("What is the capital of France?", thought_budget=3, temperature=0, max_tokens=20)
    evaluated: list[int] = []
    evaluate = thinker.llama.eval
    monkeypatch.setattr(thinker.llama, "eval", lambda ids: (evaluated.append(len(ids)), evaluate(ids)))
    session.prompt("And of Italy?", thought_budget=3, temperature=0, max_tokens=5)
    assert evaluated[0] < 25
    assert isinstance(session.history[1].response[0], ChatModelSegment)  # type: ignore[union-attr]


def test_a_model_answers_requests_with_events(thinker: Model) -> None:
    request = ChatRequest(
        (ChatUserMessage(text="Hi"),), options={"temperature": 0, "max_tokens": 12, "thought_budget": 2}
    )
    events = list(thinker.respond(request))
    assert isinstance(events[-1], ResponseEnd) and events[-1].n_completion_tokens == 12
    assert any(isinstance(event, SegmentText) for event in events)
    assert any(isinstance(event, TextEvent) and event.text for event in events)


def test_likelihoods_are_those_of_all_tokens(model: Model) -> None:
    generation = model.generate(
        [ChatUserMessage(text="What is the capital of France?")], temperature=0, top_logprobs=1, max_tokens=5
    )
    entries = [entry for chunk in generation for entry in chunk.logprobs]
    assert [entry.sampled.token_id for entry in entries] == list(generation.result.token_ids)
    assert all(entry.top[0] == entry.sampled and entry.sampled.logprob <= 0 for entry in entries)


def test_a_long_conversation_is_shortened_and_goes_on_from_that(smollm_path: Path, model: Model) -> None:
    session = ChatSession(model, system_prompt="Be brief.")
    for number in range(9):
        session.prompt(f"{number}: " + "word " * 110, temperature=0, max_tokens=4)
        assert session.last_result is not None
    shortenings = session.last_result
    assert shortenings is not None and len(session.history) == 19
    assert shortenings.n_prompt_tokens < model.n_ctx
    shown = model.prompt_ids(session.history)
    assert len(shown) > model.n_ctx
    with pytest.raises(OptionError):
        ChatSession(model, context_strategy="forget")  # type: ignore[arg-type]
