from __future__ import annotations

from pathlib import Path

import pytest

from chatwrap import JinjaTemplateChatWrapper
from chatwrap.engine.formats import load_wrapper
from chatwrap.engine.vocabulary import Vocabulary
from chatwrap.errors import DefinitionError, FileError, UnknownNameError
from chatwrap.wrapper.chosen import is_template_file, read_chat_wrapper
from chatwrap.wrapper.resolve import ModelFacts, resolve

TEMPLATE = "{% for message in messages %}{{ message.content }}{{ eos_token }}{% endfor %}A:"


def test_a_jinja_file_gets_the_vocabularys_tokens(tmp_path: Path, smollm: Vocabulary) -> None:
    path = tmp_path / "my.jinja"
    path.write_text(TEMPLATE, "utf-8")
    for given in (path, str(path)):
        assert is_template_file(given) and load_wrapper(given) == given
        wrapper = resolve(ModelFacts(tokenizer=smollm), given).wrapper
        assert isinstance(wrapper, JinjaTemplateChatWrapper)
        state = wrapper.generate_context_state([{"type": "user", "text": "U"}])
        assert str(state.context_text) == "U<|im_end|>A:"
    alone = read_chat_wrapper(path).generate_context_state([{"type": "user", "text": "U"}])
    assert str(alone.context_text) == "UA:"


def test_names_and_definitions(tmp_path: Path) -> None:
    assert read_chat_wrapper("chatml").wrapper_name == "chatml"
    assert not is_template_file("chatml") and not is_template_file(None)
    with pytest.raises(UnknownNameError):
        read_chat_wrapper("chatlm")


def test_faults_are_told_before_a_model_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "my.j2"
    with pytest.raises(FileError) as missing:
        load_wrapper(path)
    assert str(missing.value) == f"{path}: no such file."
    path.write_text("a\n{% for %}", "utf-8")
    with pytest.raises(DefinitionError) as broken:
        load_wrapper(path)
    assert str(broken.value) == (
        "my.j2:2:1: not a Jinja template: Expected an expression, got 'end of statement block'.\n"
        "  {% for %}\n  ^"
    )
