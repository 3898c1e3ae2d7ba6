from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap.chat.events import ResponseEvent
from chatwrap.chat.model import ChatRequest
from chatwrap.errors import ContextOverflowError, OptionError, PromptError
from chatwrap.prompts.contents import ImageContent, TextContent, ToolRequest, ToolResult
from chatwrap.prompts.messages import Message
from chatwrap.prompts.store import Datastore
from chatwrap.prompts.summarization import ConversationSummarizationTransform, MessageSummarizationTransform
from chatwrap.prompts.template import PromptTemplate
from tests.prompts.scripted import ScriptedModel

LONG, SHORT = "b" * 41, "a" * 40


def contents(messages: list[Message]) -> list[str]:
    return [message.content for message in messages]


def conversation(n_messages: int) -> list[Message]:
    return [Message(f"m{i}", role="user" if i % 2 == 0 else "assistant") for i in range(n_messages)]


def asked(model: ScriptedModel, index: int) -> str:
    (message,) = model.requests[index].history
    return str(message.text)


def test_a_message_is_summed_up_when_it_is_too_long_and_only_once() -> None:
    model = ScriptedModel()
    transform = MessageSummarizationTransform(model, max_message_size=40)
    assert contents(transform([Message(SHORT), Message(LONG)])) == [SHORT, "Summarized message: summary 1"]
    assert contents(transform([Message(LONG), Message(SHORT)])) == ["Summarized message: summary 1", SHORT]
    assert model.n_requests == 1
    assert asked(model, 0).endswith(f"no introduction needed.\n\nText:\n{LONG}")


def test_an_edited_message_gets_a_summary_of_its_own() -> None:
    model = ScriptedModel()
    transform = MessageSummarizationTransform(model, 40, summarized_message_template="<{{ summary }}>")
    assert contents(transform([Message(LONG)])) == ["<summary 1>"]
    assert contents(transform([Message(LONG + "!")])) == ["<summary 2>"]
    assert contents(transform([Message(LONG)])) == ["<summary 1>"]
    assert model.n_requests == 2


def test_results_are_summed_up_apart_and_requests_are_kept() -> None:
    model = ScriptedModel()
    transform = MessageSummarizationTransform(model, 40)
    request, result = ToolRequest("f", {}, "1"), ToolResult([LONG], "1")
    made = transform([Message(LONG, tool_requests=[request]), Message(tool_result=result)])
    assert made == [
        Message("Summarized message: summary 1", tool_requests=[request]),
        Message(tool_result=ToolResult("Summarized message: summary 2", "1")),
    ]
    parts = [TextContent("x" * 30), TextContent("y" * 30)]
    assert asyncio.run(transform.summarize_if_needed(parts, "c", 3)) == [
        TextContent("Summarized message: summary 3")
    ]
    assert asyncio.run(transform.summarize_if_needed(parts[:1], "c", 3)) == parts[:1]
    with pytest.raises(PromptError) as caught:
        asyncio.run(transform.summarize_if_needed([ImageContent("AAAA")], "c", 3))
    assert str(caught.value) == (
        "conversation 'c', messages[3]: an image makes it too long, and can't be summarized. Remove it."
    )


def test_a_second_summary_goes_on_from_the_first_and_isnt_made_each_turn() -> None:
    model = ScriptedModel()
    transform = ConversationSummarizationTransform(model, max_num_messages=10, min_num_messages=4)
    calls = []
    for n_messages in range(8, 30):
        made = transform(conversation(n_messages))
        assert len(made) <= 10
        assert contents(made)[-4:] == contents(conversation(n_messages))[-4:]
        calls.append(model.n_requests)
    assert calls == [0, 0, 0, *[1] * 6, *[2] * 6, *[3] * 6, 4]
    assert asked(model, 0).endswith(
        "Text:\n" + "\n\n".join(f"{message.role}: {message.content}" for message in conversation(7))
    )
    assert "Summary of what came before:\nsummary 1\n\nText:\nassistant: m7" in asked(model, 1)
    assert made[0] == Message("Summarized conversation: summary 4")


def test_an_edited_conversation_gets_no_stale_summary() -> None:
    model = ScriptedModel()
    transform = ConversationSummarizationTransform(model, 5, 2)
    messages = conversation(8)
    transform(messages)
    edited = [Message("other"), *messages[1:]]
    assert contents(transform(edited))[0] == "Summarized conversation: summary 2"
    assert contents(transform(messages))[0] == "Summarized conversation: summary 1"
    assert contents(transform(messages[:5])) == contents(messages[:5])
    assert model.n_requests == 2


def test_nothing_need_be_kept_and_the_cache_can_be_left_out() -> None:
    model = ScriptedModel()
    transform = ConversationSummarizationTransform(model, 3, 0, datastore=None)
    for n_requests in (1, 2):
        assert contents(transform(conversation(4))) == [f"Summarized conversation: summary {n_requests}"]
    assert transform.cache is None


def test_a_result_stays_with_its_request() -> None:
    requests = [ToolRequest("f", {"x": 1}, "1"), ToolRequest("g", {}, "2")]
    messages = [
        *conversation(4),
        Message("t", tool_requests=requests),
        Message(tool_result=ToolResult("r", "1")),
        Message(tool_result=ToolResult("s", "2")),
        Message("done", role="assistant"),
    ]
    model = ScriptedModel()
    made = ConversationSummarizationTransform(model, 6, 2)(messages)
    assert made[1:] == messages[4:]
    made = ConversationSummarizationTransform(model, 6, 1)(messages)
    assert made[1:] == messages[7:]
    assert 'assistant: t\ncalls f with {"x": 1}\ncalls g with {}\n\ntool: r\n\ntool: s' in asked(model, 1)


@given(st.lists(st.sampled_from(["a", "b"]), max_size=14), st.integers(1, 6), st.integers(0, 6))
def test_the_last_messages_are_always_kept(texts: list[str], n_most: int, n_least: int) -> None:
    transform = ConversationSummarizationTransform(ScriptedModel(), max(n_most, n_least), n_least)
    messages = [Message(text) for text in texts]
    for end in range(len(messages) + 1):
        made = transform(messages[:end])
        n_kept = min(n_least, end)
        assert made[len(made) - n_kept :] == messages[end - n_kept : end]
        if end <= max(n_most, n_least):
            assert made == messages[:end]


class SmallModel(ScriptedModel):
    """A model whose context holds 3,000 characters."""

    def respond(self, request: ChatRequest) -> Generator[ResponseEvent, None, None]:
        text = "".join(str(item.to_json()) for item in request.history)
        if len(text) > 3000:
            raise ContextOverflowError(len(text) // 4, 750)
        return super().respond(request)


def test_texts_of_any_length_are_cut_until_they_fit_the_model() -> None:
    model = SmallModel()
    text = "word " * 4000
    made = MessageSummarizationTransform(model, 100)([Message(text)])
    assert made[0].content == f"Summarized message: summary {model.n_requests}"
    seen = " ".join(asked(model, index).split("Text:\n")[1] for index in range(model.n_requests))
    assert seen.split() == text.split()


def test_failures_name_the_message_and_leave_nothing_in_the_cache() -> None:
    transform = MessageSummarizationTransform(ScriptedModel("  ", "fine"), 40)
    with pytest.raises(PromptError) as caught:
        transform([Message("x"), Message(LONG)])
    assert str(caught.value) == (
        "messages[1]: it can't be summarized: answer: the summary is empty. "
        "Use another model or other instructions."
    )
    assert contents(transform([Message(LONG)])) == ["Summarized message: fine"]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (
            lambda m: MessageSummarizationTransform(m, 0),
            "max_message_size: must be a whole number of at least 1, not 0.",
        ),
        (
            lambda m: ConversationSummarizationTransform(m, 0, -1),
            "max_num_messages: must be a whole number of at least 1, not 0.\n"
            "min_num_messages: must be a whole number of at least 0, not -1.",
        ),
        (
            lambda m: ConversationSummarizationTransform(m, 3, 4),
            "min_num_messages: 4 is more than max_num_messages, 3. Keep fewer messages.",
        ),
        (
            lambda m: MessageSummarizationTransform(m, max_cache_size=0, max_cache_lifetime=-1),
            "max_cache_size: must be above 0, or None for no limit, not 0.\n"
            "max_cache_lifetime: must be above 0, or None for no limit, not -1.",
        ),
        (
            lambda m: MessageSummarizationTransform(m, datastore=3),
            "datastore: of type int, no datastore. Give a Datastore, a URL or a path.",
        ),
        (
            lambda m: MessageSummarizationTransform(3),
            "model: a int answers no requests. Give a loaded model, or the URL of an endpoint.",
        ),
    ],
)
def test_impossible_settings_are_told_at_once(make: Any, error: str) -> None:
    with pytest.raises(OptionError) as caught:
        make(ScriptedModel())
    assert str(caught.value) == error


@pytest.mark.parametrize(
    ("template", "error"),
    [
        (
            "no variable",
            "summarized_message_template: it reads nothing. Put {{summary}} into it, and no other variable.",
        ),
        (
            "{{summary}}{{x}}",
            "summarized_message_template: it reads summary, x. "
            "Put {{summary}} into it, and no other variable.",
        ),
        ("{{", "summarized_message_template, line 1: unexpected 'end of template'. Mend the template."),
    ],
)
def test_the_template_has_to_show_the_summary(template: str, error: str) -> None:
    with pytest.raises(PromptError) as caught:
        MessageSummarizationTransform(ScriptedModel(), summarized_message_template=template)
    assert str(caught.value) == error


def test_summaries_outlive_the_program_in_a_file(tmp_path: Path) -> None:
    for n_requests in (1, 0):
        model = ScriptedModel("short")
        transform = MessageSummarizationTransform(model, 40, datastore=tmp_path / "cache.db")
        template = PromptTemplate(
            [PromptTemplate.CHAT_HISTORY_PLACEHOLDER], pre_rendering_transforms=[transform]
        )
        prompt = asyncio.run(template.format_async(chat_history=[Message(LONG)]))
        assert contents(list(prompt.messages)) == ["Summarized message: short"]
        assert model.n_requests == n_requests


def test_two_transforms_may_share_a_datastore() -> None:
    store = Datastore()
    first = MessageSummarizationTransform(ScriptedModel(), 40, datastore=store)
    second = ConversationSummarizationTransform(ScriptedModel(), 3, 1, datastore=store)
    assert contents(first([Message(LONG)])) and contents(second(conversation(5)))
    assert first.cache and second.cache and (len(first.cache), len(second.cache)) == (1, 1)
    assert set(first.get_entity_definition().properties) == {
        "cache_key",
        "cache_content",
        "created_at",
        "last_used_at",
    }
