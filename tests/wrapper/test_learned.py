"""Call, result and thought syntax learned by rendering, and spoken by the wrapper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chatwrap.chat.text import LlamaText, SpecialTokensText
from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper
from chatwrap.wrapper.probe import Feature

CALLS: list[dict[str, Any]] = [
    {"type": "functionCall", "name": "get_weather", "params": {"city": "Köln"}, "result": {"t": 7}},
    {"type": "functionCall", "name": "now", "params": {}, "result": "noon"},
]
USER = {"type": "user", "text": "Q"}
FUNCTIONS: dict[str, Any] = {"get_weather": {"description": "D"}, "now": {"description": "D"}}


def vendor(folder: Path, name: str) -> JinjaTemplateChatWrapper:
    return JinjaTemplateChatWrapper((folder / f"{name}.jinja").read_text(encoding="utf-8"))


def test_the_wrapper_speaks_the_templates_own_call_syntax(template_folder: Path) -> None:
    wrapper = vendor(template_folder, "Qwen-Qwen3-0.6B")
    assert wrapper.generate_function_call("now", {"zone": "CET"}) == LlamaText(
        SpecialTokensText('<tool_call>\n{"name": "'),
        "now",
        SpecialTokensText('", "arguments": '),
        '{"zone": "CET"}',
        SpecialTokensText("}\n</tool_call>"),
    )
    assert str(wrapper.generate_function_calls_and_results(CALLS)) == (
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Köln"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call><|im_end|>\n'
        '<|im_start|>user\n<tool_response>\n{"t": 7}\n</tool_response>'
        "\n<tool_response>\nnoon\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_call_at_a_time_where_the_template_refuses_more(template_folder: Path) -> None:
    wrapper = vendor(template_folder, "meta-llama-Llama-3.1-8B-Instruct")
    assert wrapper.settings.functions.parallelism is None
    assert str(wrapper.generate_function_calls_and_results(CALLS[1:])) == (
        '{"name": "now", "parameters": {}}<|eot_id|><|start_header_id|>ipython<|end_header_id|>\n\n"noon"'
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    )


def test_every_learned_syntax_writes_what_the_template_writes(template_folder: Path) -> None:
    n_learned = 0
    for path in sorted(template_folder.glob("*.jinja")):
        wrapper = vendor(template_folder, path.stem)
        functions = wrapper.learned_syntax.functions
        if functions is None:
            continue
        n_learned += 1
        for calls in (CALLS[:1], CALLS if functions.parallelism else CALLS[1:]):
            history = [USER, {"type": "model", "response": [*calls, "Done."]}, USER]
            state = wrapper.generate_context_state(history, FUNCTIONS)
            written = wrapper.generate_model_response_text([*calls, "Done."])
            assert str(written) in str(state.context_text), path.stem
    assert n_learned >= 40


@pytest.mark.parametrize(
    ("name", "prefix", "suffix"),
    [
        ("Qwen-Qwen3-0.6B", "<think>\n", "\n</think>\n\n"),
        ("ByteDance-Seed-OSS", "<seed:think>", "</seed:think>\n"),
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "<think>\n", "\n</think>\n"),
        (
            "openai-gpt-oss-120b",
            "<|channel|>analysis<|message|>",
            "None",
        ),
    ],
)
def test_thoughts(template_folder: Path, name: str, prefix: str, suffix: str) -> None:
    thought = vendor(template_folder, name).settings.segments.thought
    assert thought is not None
    assert (str(thought.prefix), str(thought.suffix)) == (prefix, suffix)


def test_thoughts_are_learned_wherever_one_is_kept_and_marked(template_folder: Path) -> None:
    unmarked = []
    for path in sorted(template_folder.glob("*.jinja")):
        wrapper = vendor(template_folder, path.stem)
        if wrapper.capabilities.keeps(Feature.LAST_THOUGHT) and wrapper.learned_syntax.thought is None:
            unmarked.append(path.stem)
    assert unmarked == ["Apriel-1.6-15b-Thinker-fixed"]  # plain words, written by the generation prompt


def test_a_generation_prompt_that_opens_a_thought_is_known(template_folder: Path) -> None:
    assert vendor(template_folder, "Qwen3.5-4B").opens_thought
    assert not vendor(template_folder, "Qwen-Qwen3-0.6B").opens_thought


@pytest.mark.parametrize("name", ["moonshotai-Kimi-K2", "Cohere2MoE"])
def test_what_cannot_be_said_in_these_terms_is_not_learned(template_folder: Path, name: str) -> None:
    wrapper = vendor(template_folder, name)
    assert wrapper.learned_syntax.functions is None
    assert str(wrapper.generate_function_call("f", {})) == "||call: f({})"
