"""How the vendors' templates write calls is learned for most of them, in every notation."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from chatwrap import JinjaTemplateChatWrapper
from chatwrap.chat.syntax import FunctionsSyntax
from chatwrap.wrapper.probe import Feature
from tests.parity.test_definitions import OnlyEos

# They print ids of their own making, leave out what a call has, or write values by their types.
NOT_LEARNED = {
    "Apriel-1.6-15b-Thinker-fixed",
    "Cohere2MoE",
    "CohereForAI-c4ai-command-r-plus-tool_use",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
    "Kimi-K3",
    "MiniMax-M3",
    "Mistral-Small-3.2-24B-Instruct-2506",
    "NVIDIA-Nemotron-Nano-v2",
    "Reka-Edge",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
    "deepseek-ai-DeepSeek-V4",
    "deepseek-ai-DeepSeek-V4-Flash-0731",
    "fireworks-ai-llama-3-firefunction-v2",
    "google-gemma-4-31B-it-interleaved",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "moonshotai-Kimi-K2",
    "openbmb-MiniCPM5-1B",
    "unsloth-Apriel-1.5",
    "upstage-Solar-Open-100B",
}


def test_most_templates_syntax_is_learned(template_folder: Path) -> None:
    learned: dict[str, FunctionsSyntax] = {}
    for path in sorted(template_folder.glob("*.jinja")):
        wrapper = JinjaTemplateChatWrapper(path.read_text("utf-8"))
        if not wrapper.capabilities.keeps(Feature.CALLS):
            continue
        functions = wrapper.learned_syntax.functions
        assert (functions is None) == (path.stem in NOT_LEARNED), path.stem
        if functions is not None:
            learned[path.stem] = functions
    notations = Counter(type(functions.call.arguments).__name__ for functions in learned.values())
    assert notations == {
        "JsonNotation": 25,
        "TaggedNotation": 16,
        "KeywordNotation": 1,
        "BareKeyNotation": 1,
    }


@pytest.mark.parametrize(
    "name", ["Mistral-Small-3.2-24B-Instruct-2506", "mistralai-Mistral-Nemo-Instruct-2407"]
)
def test_call_ids_are_learned_where_the_text_of_eos_is_known(template_folder: Path, name: str) -> None:
    source = (template_folder / f"{name}.jinja").read_text("utf-8")
    functions = JinjaTemplateChatWrapper(source, tokenizer=OnlyEos("</s>")).learned_syntax.functions
    assert functions is not None and functions.numbers_calls
