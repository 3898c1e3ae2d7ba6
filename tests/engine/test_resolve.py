"""Which chat wrapper a model, its metadata or its name gets, and what is told of it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from chatwrap.engine.resolve import resolve_chat_wrapper
from chatwrap.engine.vocabulary import Vocabulary, load_vocabulary
from chatwrap.errors import DefinitionError, OptionError, UnknownNameError
from chatwrap.wrapper.definition import load_chat_wrapper
from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper
from chatwrap.wrapper.resolve import Resolution, Rule

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
OTHER = CHATML.replace("im_start", "start")
BROKEN = "{% for m in messages %}\n{{ m.content }\n{% endfor %}"


def metadata(template: str, **more: str) -> dict[str, Any]:
    return {"tokenizer.chat_template": template, **more}


def decided(source: Any, choice: Any = "auto") -> tuple[str, Rule, str]:
    resolution: Resolution = resolve_chat_wrapper(source, choice, explain=True)
    last = resolution.steps[-1]
    return resolution.wrapper.wrapper_name, last.rule, last.reason


def test_an_explicit_choice_comes_first_and_no_template_is_looked_at() -> None:
    chosen = resolve_chat_wrapper(metadata(BROKEN), "gemma", explain=True)
    assert (chosen.wrapper.wrapper_name, chosen.warnings, len(chosen.steps)) == ("gemma", (), 1)
    own = load_chat_wrapper("alpaca")
    assert resolve_chat_wrapper({}, own) is own


def test_an_unknown_choice_is_an_error() -> None:
    with pytest.raises(UnknownNameError) as caught:
        resolve_chat_wrapper({}, "gemmma")
    assert str(caught.value) == (
        "No chat wrapper named 'gemmma'. Did you mean 'gemma'? `chatwrap wrappers` lists all."
    )


def test_a_definition_that_renders_what_the_template_renders_is_preferred() -> None:
    assert decided(metadata(CHATML)) == (
        "chatml",
        Rule.TEMPLATE,
        "it renders what the template renders, byte for byte.",
    )


def test_markers_in_the_source_are_not_enough() -> None:
    trims = CHATML.replace("m.content", "m.content|trim")
    assert decided(metadata(trims)) == (
        "JinjaTemplate",
        Rule.TEMPLATE,
        "no built-in format renders what the template renders.",
    )
    assert decided(metadata("{# <|im_start|> <|im_end|> #}" + OTHER))[0] == "JinjaTemplate"


def test_a_system_message_that_only_the_template_adds_is_left_out_and_told() -> None:
    default = "{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}"
    assert decided(metadata(default + CHATML)) == (
        "chatml",
        Rule.TEMPLATE,
        "it renders what the template renders, byte for byte, but for a system message that the template "
        "adds where a conversation has none: 'Be kind.'.",
    )


def test_a_template_that_cannot_compile_is_a_warning_that_names_the_line() -> None:
    with pytest.warns(UserWarning) as caught:
        wrapper = resolve_chat_wrapper(metadata(BROKEN, **{"general.name": "Gemma 2 9B"}))
    assert wrapper.wrapper_name == "gemma"
    (warning,) = caught
    assert str(warning.message).startswith(
        "The chat template in the model's file can't be used: tokenizer.chat_template:2:"
    )
    with pytest.raises(DefinitionError):
        resolve_chat_wrapper(metadata(BROKEN), "jinja")


def test_a_template_that_refuses_a_plain_question_is_a_warning_too() -> None:
    resolution = resolve_chat_wrapper(metadata("{{ raise_exception('never') }}"), explain=True)
    assert resolution.wrapper.wrapper_name == "general"
    assert resolution.warnings == (
        "The chat template in the model's file can't be used: tokenizer.chat_template: "
        "the template refuses this history: never",
    )


def test_choosing_a_template_that_is_not_there_is_an_error() -> None:
    with pytest.raises(OptionError) as caught:
        resolve_chat_wrapper({}, "jinja")
    assert str(caught.value) == (
        "chat_wrapper: 'jinja', but the model's file has no chat template. "
        "Name a chat format instead; `chatwrap wrappers` lists them."
    )


def test_the_template_for_functions_is_found_and_a_broken_one_is_told() -> None:
    key = "tokenizer.chat_template.tool_use"
    wrapper = resolve_chat_wrapper(metadata(OTHER, **{key: "{{ tools|tojson }}{{ messages[0].content }}"}))
    functions = {"f": {"description": "D"}}
    text = str(wrapper.generate_context_state([{"type": "user", "text": "Hi"}], functions).context_text)
    assert text == '[{"type": "function", "function": {"name": "f", "description": "D"}}]Hi'
    broken = resolve_chat_wrapper(metadata(CHATML, **{key: "{{ x | nosuch }}"}), explain=True)
    assert broken.wrapper.wrapper_name == "chatml"
    assert broken.warnings == (
        "The model's template for functions can't be used: tokenizer.chat_template.tool_use:1:8: "
        "not a Jinja template: No filter named 'nosuch'.\n  {{ x | nosuch }}\n         ^",
    )


def test_an_eos_token_without_a_vocabulary_is_told() -> None:
    resolution = resolve_chat_wrapper(metadata(OTHER + "{{ eos_token }}"), explain=True)
    assert resolution.warnings == (
        "tokenizer.chat_template: writes eos_token, which is nothing without a vocabulary. "
        "Resolve from the model or its file.",
    )


def test_a_name_alone(tmp_path: Path) -> None:
    assert decided("models/gemma-2-9b-it-Q4_K_M.gguf") == (
        "gemma",
        Rule.NAME,
        "it names this model: 'gemma-2-9b-it-Q4_K_M'.",
    )
    assert decided(tmp_path / "zzz.gguf")[:2] == ("general", Rule.FALLBACK)
    assert decided({"general.name": "Code Llama Instruct 7B"})[:2] == ("llama-2", Rule.NAME)


def test_the_model_that_comes_along_leaves_out_its_templates_system_message(
    smollm: Vocabulary, smollm_path: Path
) -> None:
    for source in (smollm, smollm_path, "smollm2-135m-instruct"):
        resolution = resolve_chat_wrapper(source, explain=True)
        assert resolution.wrapper.wrapper_name == "chatml"
        assert "You are a helpful AI assistant named SmolLM" in resolution.steps[-1].reason


def test_a_vocabulary_without_a_template(vocabulary_folder: Path) -> None:
    vocabulary = load_vocabulary(vocabulary_folder / "ggml-vocab-llama-bpe.gguf")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolution = resolve_chat_wrapper(vocabulary, explain=True)
    assert [(step.rule, step.chosen) for step in resolution.steps] == [
        (Rule.CHOICE, None),
        (Rule.TEMPLATE, None),
        (Rule.VOCABULARY, "llama-3"),
    ]
    assert resolution.steps[-1].reason == (
        "the vocabulary has its markers: <|end_header_id|>, <|eot_id|>, <|start_header_id|>."
    )


def test_vendor_templates_are_taken_as_they_are(template_folder: Path) -> None:
    for name in ("Qwen-Qwen3-0.6B", "openai-gpt-oss-120b", "meta-llama-Llama-3.1-8B-Instruct"):
        source = (template_folder / f"{name}.jinja").read_text(encoding="utf-8")
        wrapper = resolve_chat_wrapper(metadata(source))
        assert wrapper.wrapper_name != "general"
        if isinstance(wrapper, JinjaTemplateChatWrapper):
            assert wrapper.template == source
