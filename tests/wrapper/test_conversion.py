from __future__ import annotations

from pathlib import Path

import pytest

from chatwrap import JinjaTemplateChatWrapper
from chatwrap.errors import DefinitionError
from chatwrap.wrapper.conversion import convert_template, written_definition
from chatwrap.wrapper.definition import parse_definition
from chatwrap.wrapper.template import TemplateChatWrapper

FUNCTIONS = {
    "f": {"description": "F.", "params": {"type": "object", "properties": {"a": {"type": "string"}}}},
    "g": {"description": "G.", "params": {"type": "object", "properties": {"b": {"type": "integer"}}}},
}
CALL = {"type": "functionCall", "name": "f", "params": {"a": "é", "n": {"x": [None]}}, "result": "r\n"}
HISTORIES = (
    [{"type": "user", "text": "U"}],
    [{"type": "system", "text": "S"}, {"type": "user", "text": "U"}],
    [
        {"type": "system", "text": "S é"},
        {"type": "user", "text": "U"},
        {"type": "model", "response": [CALL, "M"]},
        {"type": "user", "text": "V"},
        {"type": "model", "response": [CALL, {**CALL, "name": "g"}]},
    ],
)


def vendor(folder: Path, name: str) -> JinjaTemplateChatWrapper:
    return JinjaTemplateChatWrapper((folder / f"{name}.jinja").read_text("utf-8"))


@pytest.mark.parametrize(
    ("template", "builtin"),
    [("GLM-4.6", "glm-4"), ("openai-gpt-oss-120b", "harmony"), ("microsoft-Phi-3.5-mini-instruct", "phi-3")],
)
def test_a_built_in_format(template_folder: Path, template: str, builtin: str) -> None:
    found = convert_template(vendor(template_folder, template))
    assert found.builtin == builtin
    assert parse_definition(found.text, path=Path("x.toml")).models


@pytest.mark.parametrize(
    "template", ["ibm-granite-granite-4.1", "Qwen-QwQ-32B", "StepFun3.5-Flash", "tencent-Hy3"]
)
def test_a_drafted_definition_renders_other_histories_too(template_folder: Path, template: str) -> None:
    own = vendor(template_folder, template)
    found = convert_template(own)
    assert found.builtin is None
    wrapper = parse_definition(found.text, path=Path("x.toml")).wrapper
    for history in HISTORIES:
        expected = own.generate_context_state(history, FUNCTIONS)
        assert expected.changes == ()
        assert str(wrapper.generate_context_state(history, FUNCTIONS).context_text) == str(
            expected.context_text
        )


def test_what_no_definition_can(template_folder: Path) -> None:
    with pytest.raises(DefinitionError) as caught:
        convert_template(vendor(template_folder, "GigaChat3-10B-A1.8B"))
    assert str(caught.value) == (
        "template: no definition found that equals it; the likeliest differs on two user messages in a "
        "row, a late system message, functions, a function call, a function's result. "
        "Use the template itself: it is a format, too."
    )


def test_options_are_written_so_that_they_are_read_again() -> None:
    options = {
        "template": '{{history}}"\\\n\x7f\t é{{completion}}|',
        "trim_messages": ["model"],
        "kept_thoughts": "none",
        "history_template": {"system": "{{message}}", "user": "{{message}}\r\n", "model": "{{message}}"},
    }
    read = parse_definition(written_definition(options), path=Path("x.toml")).wrapper
    assert isinstance(read, TemplateChatWrapper)
    assert (read.template, dict(read.history_template)) == (options["template"], options["history_template"])
