"""Call grammars: what they accept is a call that can be read, with arguments that validate."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest

from chatwrap.chat.functions import as_functions
from chatwrap.chat.slotted import Slot, SlottedText
from chatwrap.chat.syntax import (
    ChatWrapperSettings,
    FunctionCallSyntax,
    FunctionResultSyntax,
    FunctionsSyntax,
    ParallelCallsSyntax,
)
from chatwrap.chat.text import LlamaText, SpecialToken, SpecialTokensText
from chatwrap.errors import ChatwrapError, SchemaError
from chatwrap.grammar.grammar import Grammar
from chatwrap.wrapper.definition import load_chat_wrapper
from tests.grammar.llama_oracle import LlamaOracle
from tests.grammar.trees import sample

FUNCTIONS: dict[str, Any] = {
    "get_weather": {
        "params": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 8},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
                "unit": {"enum": ["°C", "°F"]},
            },
            "required": ["city"],
        }
    },
    "get_weather_map": {"params": {"properties": {"zoom": {"type": "integer", "maximum": 9}}}},
    "now": {},
    "lookup": {
        "params": {
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/node"}},
            "required": ["tree"],
            "$defs": {
                "node": {
                    "type": "object",
                    "properties": {"next": {"$ref": "#/$defs/node"}},
                    "additionalProperties": False,
                }
            },
        }
    },
}
RESULT = FunctionResultSyntax(prefix="", suffix="")
HERMES = FunctionsSyntax(
    call=FunctionCallSyntax(
        prefix=LlamaText(SpecialTokensText("<tool_call>"), '\n{"name": "'),
        params_prefix='", "arguments": ',
        suffix=LlamaText("}\n", SpecialTokensText("</tool_call>")),
        empty_call_params_placeholder={},
    ),
    result=RESULT,
    parallelism=ParallelCallsSyntax(between_calls="\n"),
)
SECTIONED = FunctionsSyntax(
    call=FunctionCallSyntax(
        prefix="<call>",
        params_prefix=SlottedText((": ",)),
        suffix=SlottedText(("</", Slot.FUNCTION_NAME, ">")),
        empty_call_params_placeholder="",
    ),
    result=RESULT,
    parallelism=ParallelCallsSyntax(section_prefix="[[", between_calls=", ", section_suffix="]]"),
)
SYNTAXES = {
    "default": ChatWrapperSettings(),
    "hermes": ChatWrapperSettings(functions=HERMES),
    "sectioned": ChatWrapperSettings(functions=SECTIONED),
}


CALLS: list[tuple[str, Any]] = [
    ("get_weather", {"city": "Łódź \"x\"", "days": 14, "unit": "°C"}),
    ("get_weather", {"city": ""}),
    ("get_weather_map", {}),
    ("get_weather_map", {"zoom": -3}),
    ("now", {}),
    ("lookup", {"tree": {"next": {"next": {}}}}),
]  # fmt: skip
NO_CALLS: list[tuple[str, Any]] = [
    ("get_weather", {"days": 3}),
    ("get_weather", {"city": "x", "days": 15}),
    ("get_weather", {"city": "x", "colour": 1}),
    ("get_weather_map", {"zoom": 10}),
    ("get_weather_map", []),
    ("now", {"zone": 1}),
    ("get_weathe", {"city": "x"}),
    ("", {}),
]


@pytest.mark.parametrize("name", SYNTAXES)
def test_a_rendered_call_is_accepted_where_its_arguments_are_valid(name: str) -> None:
    settings = SYNTAXES[name]
    grammar = Grammar.from_functions(FUNCTIONS, settings)
    oracle = LlamaOracle(grammar.gbnf)
    for wanted, calls in ((True, CALLS), (False, NO_CALLS)):
        for function, arguments in calls:
            text = one_call(settings, function, arguments)
            assert (grammar.accepts(text), oracle.accepts(text)) == (wanted, wanted), text


def one_call(settings: ChatWrapperSettings, name: str, arguments: Any) -> str:
    wrapper = copy.copy(load_chat_wrapper("chatml"))
    wrapper.settings = settings
    text = str(wrapper.generate_function_call(name, arguments))
    parallel = settings.functions.parallelism
    return f"{parallel.section_prefix}{text}{parallel.section_suffix}" if parallel else text


@pytest.mark.parametrize("name", SYNTAXES)
def test_random_texts_of_the_grammar_are_calls_that_validate(name: str) -> None:
    settings = SYNTAXES[name]
    grammar = Grammar.from_functions(FUNCTIONS, settings)
    names = set()
    for seed in range(120):
        text = sample(grammar.tree, seed)
        for function, arguments in read_calls(text, settings):
            names.add(function)
            schema = as_functions(FUNCTIONS)[function].parameters or {"maxProperties": 0}
            jsonschema.validate(arguments, schema)
    assert names == set(FUNCTIONS)


def read_calls(text: str, settings: ChatWrapperSettings) -> list[tuple[str, Any]]:
    """The calls of a text, read with nothing but the syntax and JSON; fails on anything else."""
    parallel = settings.functions.parallelism or ParallelCallsSyntax()
    start, end = str(parallel.section_prefix), str(parallel.section_suffix)
    assert text.startswith(start)
    text = text.removeprefix(start).removesuffix(end)
    calls = []
    while text:
        name, text = _after_head(text, settings.functions.call)
        suffix = _written(settings.functions.call.suffix, name)
        arguments, length = ({}, 0) if text.startswith(suffix) else json.JSONDecoder().raw_decode(text)
        calls.append((name, arguments))
        assert text.startswith(suffix, length)
        text = text[length + len(suffix) :]
        if text:
            between = str(parallel.between_calls)
            assert text.startswith(between) and text != between
            text = text[len(between) :]
    assert calls
    return calls


def _after_head(text: str, call: FunctionCallSyntax) -> tuple[str, str]:
    for name in FUNCTIONS:
        for prefix in (call.prefix, *call.prefix_alternate_matches):
            head = _written(prefix, name) + name + _written(call.params_prefix, name)
            if text.startswith(head):
                return name, text[len(head) :]
    raise AssertionError(f"no call: {text}")


def _written(text: Any, name: str) -> str:
    parts = text.parts if isinstance(text, SlottedText) else LlamaText(text).values
    return "".join(name if part == Slot.FUNCTION_NAME else str(part) for part in parts)


def test_one_function_may_be_asked_for_by_name() -> None:
    grammar = Grammar.from_functions(FUNCTIONS, name="now")
    assert grammar.accepts("||call: now()") and grammar.accepts("||call: now({})")
    assert not grammar.accepts_prefix("||call: g")


def test_parallel_calls_come_together_up_to_a_bound() -> None:
    settings = SYNTAXES["sectioned"]
    two = "[[<call>now: </now>, <call>now: {}</now>]]"
    assert Grammar.from_functions(FUNCTIONS, settings).accepts(two)
    assert Grammar.from_functions(FUNCTIONS, settings, max_calls=2).accepts(two)
    assert not Grammar.from_functions(FUNCTIONS, settings, max_calls=1).accepts(two)
    assert not Grammar.from_functions(FUNCTIONS).accepts("||call: now()||call: now()")


def test_the_suffix_has_the_name_of_the_call() -> None:
    grammar = Grammar.from_functions(FUNCTIONS, SYNTAXES["sectioned"])
    assert not grammar.accepts_prefix("[[<call>now: {}</l")


def test_five_hundred_functions_are_one_reading() -> None:
    many = {f"function_{n}": {"params": {"type": "object"}} for n in range(500)}
    matcher = Grammar.from_functions(many).matcher()
    assert matcher.feed("||call: function_4")
    assert matcher.n_stacks <= 12


def test_the_report_names_function_and_path() -> None:
    relaxed = {"f": {"params": {"properties": {"x": {"type": "string", "pattern": "(?=a)b"}}}}}
    report = Grammar.from_functions(relaxed, unsupported="relax").report
    assert [finding.path for finding in report.of("unsupported")] == ["functions.f.params.properties.x"]
    with pytest.raises(SchemaError) as error:
        Grammar.from_functions({**relaxed, "g": relaxed["f"]})
    assert [fault.where for fault in error.value.faults] == [
        "functions.f.params.properties.x.pattern",
        "functions.g.params.properties.x.pattern",
    ]


def _ending(suffix: Any) -> ChatWrapperSettings:
    call = FunctionCallSyntax(prefix="<", params_prefix="(", suffix=suffix)
    return ChatWrapperSettings(functions=FunctionsSyntax(call, RESULT))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (({},), {}, "functions: there is none to call. Give at least one."),
        ((FUNCTIONS,), {"max_calls": 0}, "max_calls: must be from 1 to 1000, not 0."),
        (
            (FUNCTIONS,),
            {"name": "get_wether"},
            "No function named 'get_wether'. Did you mean 'get_weather'? The functions given lists all.",
        ),
        (
            (FUNCTIONS, _ending(LlamaText(SpecialToken("EOT")))),
            {},
            "functions.call.suffix: SpecialToken(value='EOT') has no text of its own. "
            "Write the text that stands there.",
        ),
    ],
)
def test_what_cannot_be_a_call_grammar(arguments: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ChatwrapError) as error:
        Grammar.from_functions(*arguments, **options)
    assert str(error.value) == message
