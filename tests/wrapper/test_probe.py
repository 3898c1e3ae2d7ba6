"""What is found out about a template by rendering probes."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper
from chatwrap.wrapper.probe import Capabilities, Feature, Outcome

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def capabilities(template: str) -> Capabilities:
    return JinjaTemplateChatWrapper(template).capabilities


def vendor(folder: Path, name: str) -> Capabilities:
    return capabilities((folder / f"{name}.jinja").read_text(encoding="utf-8"))


def test_plain_chatml_drops_all_but_messages_in_silence() -> None:
    found = capabilities(CHATML)
    assert found.lost == (
        Feature.TOOLS,
        Feature.CALLS,
        Feature.PARALLEL_CALLS,
        Feature.TEXT_BESIDE_CALLS,
        Feature.LAST_THOUGHT,
        Feature.EARLIER_THOUGHT,
        Feature.CALL_THOUGHT,
    )
    assert found.keeps(Feature.LATE_SYSTEM) and found.keeps(Feature.USER_NEIGHBOURS)
    assert found.outcomes[Feature.CONTENT_PARTS] is Outcome.REFUSED
    assert found.generation_prompt == "<|im_start|>assistant\n"
    assert (found.thought_key, found.default_system_message) == (None, "")


def test_a_refusal_keeps_the_templates_own_words() -> None:
    template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHATML
    found = capabilities(template)
    assert found.outcomes[Feature.SYSTEM] is Outcome.REFUSED
    assert found.refusals[Feature.SYSTEM] == "the template refuses this history: no system"


def test_a_default_system_message_is_found_by_rendering_without_one() -> None:
    template = "{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}"
    assert capabilities(template + CHATML).default_system_message == "Be kind."


def test_arguments_encoded_twice_are_told_from_arguments_written_as_they_are() -> None:
    with_calls = CHATML.replace(
        "m.content", "m.content ~ (m.tool_calls[0].function|tojson if m.tool_calls else '')"
    )
    found = capabilities(with_calls)
    assert (found.object_arguments, found.string_arguments) == (True, False)
    assert found.outcomes[Feature.PARALLEL_CALLS] is Outcome.LOST


@pytest.mark.parametrize(
    ("name", "lost", "thought_key"),
    [
        ("Qwen-Qwen3-0.6B", {Feature.EARLIER_THOUGHT}, "reasoning_content"),
        ("openai-gpt-oss-120b", None, "thinking"),
        ("upstage-Solar-Open-100B", None, "reasoning"),
        ("Kimi-K3", set(), "reasoning_content"),
    ],
)
def test_vendor_templates(
    template_folder: Path, name: str, lost: set[Feature] | None, thought_key: str | None
) -> None:
    found = vendor(template_folder, name)
    assert found.thought_key == thought_key
    if lost is not None:
        assert set(found.lost) == lost


def test_what_70_vendor_templates_drop_in_silence(template_folder: Path) -> None:
    n_lost = dict.fromkeys(Feature, 0)
    for path in template_folder.glob("*.jinja"):
        for feature in capabilities(path.read_text(encoding="utf-8")).lost:
            n_lost[feature] += 1
    assert n_lost[Feature.SYSTEM] == 0
    assert n_lost[Feature.LATE_SYSTEM] == 8
    assert n_lost[Feature.TOOLS] == 7
    assert n_lost[Feature.TEXT_BESIDE_CALLS] == 20


def test_quirks_of_vendor_templates(template_folder: Path) -> None:
    assert vendor(template_folder, "deepseek-ai-DeepSeek-R1-Distill-Llama-8B").needs_null_content
    assert vendor(template_folder, "moonshotai-Kimi-K2").prints_call_ids
    functionary = vendor(template_folder, "meetkai-functionary-medium-v3.2")
    assert (functionary.object_arguments, functionary.string_arguments) == (False, True)


def test_results_go_by_the_ids_that_the_template_gives_its_calls(template_folder: Path) -> None:
    source = (template_folder / "moonshotai-Kimi-K2.jinja").read_text(encoding="utf-8")
    calls = [
        {"type": "functionCall", "name": name, "params": {}, "result": "r"} for name in ("first", "second")
    ]
    history = [{"type": "user", "text": "Q"}, {"type": "model", "response": calls}]
    prompt = str(JinjaTemplateChatWrapper(source).generate_context_state(history).context_text)
    for call_id in ("functions.first:0", "functions.second:1"):
        assert f"<|tool_call_begin|>{call_id}<|tool_call_argument_begin|>" in prompt
        assert f"## Return of {call_id}" in prompt
