from __future__ import annotations

import inspect
import itertools
from pathlib import Path

import pytest

from chatwrap import chat_wrapper_names, encode, load_chat_wrapper
from chatwrap.engine.vocabulary import Vocabulary
from chatwrap.errors import DefinitionError, FileError, UnknownNameError
from chatwrap.files import data_path
from chatwrap.wrapper.definition import builtin_definitions, load_definition, parse_definition
from chatwrap.wrapper.resolve import definition_for_vocabulary
from chatwrap.wrapper.template import TemplateChatWrapper

NAMES = ("alpaca", "chatml", "gemma", "general", "llama-2", "llama-3", "mistral", "vicuna")
GOOD = """\
template = "{{history}}M: {{completion}}|"
[history_template]
system = "{{message}}"
user = "{{message}}"
model = "{{message}}"
"""
OPTIONS = [name for name in inspect.signature(TemplateChatWrapper).parameters if name != "clock"]
KEYS = ", ".join(["description", "source", "models", "special_tokens", "examples", *OPTIONS])


class TestBuiltin:
    def test_names(self) -> None:
        assert set(NAMES) <= set(chat_wrapper_names())
        assert [definition.name for definition in builtin_definitions()] == list(chat_wrapper_names())

    @pytest.mark.parametrize("name", NAMES)
    def test_examples(self, name: str) -> None:
        definition = load_definition(name)
        assert definition.examples and definition.description and definition.source
        assert definition.wrapper.wrapper_name == name
        for example in definition.examples:
            assert (
                str(definition.wrapper.generate_context_state(example.history).context_text) == example.prompt
            )

    @pytest.mark.parametrize("name", NAMES)
    def test_control_texts_are_the_files_strings(self, name: str) -> None:
        definition = load_definition(name)
        state = definition.wrapper.generate_context_state(definition.examples[0].history)
        written = [str(value) for value in state.context_text.values if not isinstance(value, str)]
        known = definition.wrapper.control_texts
        pairs = {first + second for first, second in itertools.product(known, repeat=2)}
        triples = {first + second for first, second in itertools.product(pairs, known)}
        assert set(written) <= known | pairs | triples

    def test_by_path(self, tmp_path: Path) -> None:
        path = tmp_path / "my format.toml"
        path.write_text("\ufeff" + GOOD, "utf-8")
        for given in (path, str(path)):
            assert load_chat_wrapper(given).wrapper_name == "my format"
        assert load_definition(data_path("wrappers") / "chatml.toml").name == "chatml"


class TestVocabularies:
    @pytest.mark.parametrize(
        ("vocabulary_name", "name"),
        [("llama-bpe", "llama-3"), ("gpt-2", "general"), ("qwen2", "chatml"), ("gemma-4", "gemma-4")],
        indirect=["vocabulary_name"],
    )
    def test_the_format_whose_markers_the_vocabulary_has(self, vocabulary: Vocabulary, name: str) -> None:
        assert definition_for_vocabulary(vocabulary).name == name

    def test_smollm(self, smollm: Vocabulary) -> None:
        assert definition_for_vocabulary(smollm).name == "chatml"

    def test_markers_of_an_example_are_single_tokens(self, smollm: Vocabulary) -> None:
        definition = load_definition("chatml")
        prompt = definition.wrapper.generate_context_state(definition.examples[0].history).context_text
        ids = encode(prompt, smollm)
        assert (ids.count(1), ids.count(2)) == (5, 4)

    @pytest.mark.parametrize("vocabulary_name", ["llama-spm"], indirect=True)
    @pytest.mark.parametrize("name", ["vicuna", "mistral", "llama-2"])
    def test_the_end_of_a_turn_is_eos(self, vocabulary: Vocabulary, name: str) -> None:
        definition = load_definition(name)
        prompt = definition.wrapper.generate_context_state(definition.examples[0].history).context_text
        assert encode(prompt, vocabulary).count(2) == 1


class TestFaults:
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            (
                "chatlm",
                "No chat wrapper named 'chatlm'. Did you mean 'chatml'? `chatwrap wrappers` lists all.",
            ),
            (
                "Llama3",
                "No chat wrapper named 'Llama3'. Did you mean 'llama-3'? `chatwrap wrappers` lists all.",
            ),
            ("GEMMA", "No chat wrapper named 'GEMMA'. Did you mean 'gemma'? `chatwrap wrappers` lists all."),
            ("xyzzy", "No chat wrapper named 'xyzzy'. `chatwrap wrappers` lists all."),
            ("", "No chat wrapper named ''. `chatwrap wrappers` lists all."),
        ],
    )
    def test_unknown_names(self, name: str, message: str) -> None:
        with pytest.raises(UnknownNameError) as caught:
            load_chat_wrapper(name)
        assert str(caught.value) == message
        assert caught.value.name == name and isinstance(caught.value, LookupError)

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("no/such.toml", "no/such.toml: no such file."),
            ("missing.toml", "missing.toml: no such file."),
            ("/", "/: is a directory. Name a file in it."),
        ],
    )
    def test_paths_that_are_no_files(self, path: str, message: str) -> None:
        with pytest.raises(FileError) as caught:
            load_chat_wrapper(path)
        assert str(caught.value) == message

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "",
                "x.toml: template: missing. A definition needs template and history_template.\n"
                "x.toml: history_template: missing. A definition needs template and history_template.",
            ),
            ("template = ", "x.toml: not TOML: Invalid value (at end of document)."),
            (f"extra = 1\n{GOOD}", f"x.toml: extra: unknown key. Known are {KEYS}."),
            (
                f'models = ["a", 1]\nsource = 1\nexamples = 3\n{GOOD}',
                "x.toml: source: must be a string, not 1.\n"
                "x.toml: examples: must be an array of tables, not 3.\n"
                "x.toml: models: must be a list of strings, not ['a', 1].",
            ),
            (
                GOOD.replace("{{completion}}|", "{{completion}}").replace(
                    'user = "{{message}}"', 'user = ""'
                ),
                "x.toml: template: no text after {{completion}} in '{{history}}M: {{completion}}'. "
                "Put there what ends the model's turn: the stop triggers come from it.\n"
                "x.toml: history_template.user: no {{message}} in ''. Put it once, where the message goes.",
            ),
            (
                "examples = [{}]\nextra = 1\n" + GOOD.replace("{{completion}}|", ""),
                f"x.toml: extra: unknown key. Known are {KEYS}.\n"
                "x.toml: template: no {{completion}} in '{{history}}M: '. "
                "Put it once, where the model writes.\n"
                "x.toml: examples[0]: must be a table with a history and a prompt. Add what is missing.",
            ),
            (
                f"join_adjacent_messages_of_the_same_type = 1\ntemplate = 3\n{GOOD.split(chr(10), 1)[1]}",
                "x.toml: join_adjacent_messages_of_the_same_type: must be true or false, not 1.\n"
                "x.toml: template: must be a string, not 3.",
            ),
            (
                f"{GOOD}[[examples]]\nprompt = ''\nhistory = [{{ type = 'user' }}]\n"
                "[[examples]]\nprompt = ''\nhistory = 'Hi'\n",
                "x.toml: examples[0].history[0].text: missing.\n"
                "x.toml: examples[1].history:1:1: not JSON: Expecting value.\n  Hi\n  ^",
            ),
            (f"{GOOD}[segments]\nx = 1", None),
        ],
    )
    def test_whole_text(self, text: str, message: str | None) -> None:
        with pytest.raises(DefinitionError) as caught:
            parse_definition(text, path=Path("x.toml"))
        expected = message or (
            "x.toml: segments.x: unknown key. Known are thought_template, comment_template, "
            "text_template, between_parts, close_all_segments_template, "
            "reopen_thought_after_function_calls, "
            "reiterate_stack_after_function_calls."
        )
        assert str(caught.value) == expected

    def test_nested_too_deep(self) -> None:
        with pytest.raises(DefinitionError) as caught:
            parse_definition(f"a = {'[' * 10_000}", path=Path("x.toml"))
        assert str(caught.value) == "x.toml: TOML nested too deep to read."

    def test_a_builtin_is_called_by_its_place_in_the_repository(self) -> None:
        text = GOOD.replace("|", "")
        with pytest.raises(DefinitionError) as caught:
            parse_definition(text, path=data_path("wrappers") / "x.toml", shown="wrappers/x.toml")
        assert str(caught.value).startswith("wrappers/x.toml: template: no text after {{completion}}")
