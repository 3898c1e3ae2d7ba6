"""Calls in every built-in format: what the wrapper writes is accepted just where it is valid."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from chatwrap.chat.functions import as_functions
from chatwrap.chat.history import ChatModelFunctionCall
from chatwrap.chat.model import ToolChoice
from chatwrap.chat.notation import BareKeyNotation, KeywordNotation, TaggedNotation
from chatwrap.chat.slotted import Slot, SlottedText
from chatwrap.chat.syntax import (
    ChatWrapperSettings,
    FunctionCallSyntax,
    FunctionResultSyntax,
    FunctionsSyntax,
    ParallelCallsSyntax,
    SegmentsSyntax,
    SegmentSyntax,
)
from chatwrap.chat.text import LlamaText, control
from chatwrap.grammar.answer import AnswerShape, convert_answer
from chatwrap.grammar.grammar import Grammar
from chatwrap.grammar.marks import Marks
from chatwrap.grammar.safety import hazards
from chatwrap.grammar.schema.convert import Options
from chatwrap.output.parser import parse
from chatwrap.wrapper.base import ChatWrapper
from chatwrap.wrapper.definition import chat_wrapper_names, load_chat_wrapper
from tests.grammar.llama_oracle import LlamaOracle
from tests.grammar.trees import sample

NODE = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/node"}, "k": {"type": "string"}},
    "additionalProperties": False,
}
FUNCTIONS: dict[str, Any] = {
    "get_weather": {
        "params": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 30},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
                "unit": {"enum": ["°C", "°F"]},
                "note": {"type": ["string", "null"]},
                "any": {},
                "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}},
            },
            "required": ["city"],
        }
    },
    "get_weather_map": {
        "params": {
            "properties": {
                "zoom": {"type": "integer", "maximum": 9},
                "on": {"type": "boolean"},
                "zip": {"type": "string", "pattern": "^\\d{5}$"},
            }
        }
    },
    "now": {},
    "lookup": {
        "params": {
            "type": "object",
            "properties": {
                "tree": {"$ref": "#/$defs/node"},
                "v": {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "string"}]},
            },
            "required": ["tree"],
            "$defs": {"node": NODE},
        }
    },
}
CALLS: list[tuple[str, Any]] = [
    ("get_weather", {"city": "Łódź \"x\" 'y' \\ z", "days": 14, "unit": "°C"}),
    ("get_weather", {"city": "", "note": None, "tags": ["a", "b'"]}),
    ("get_weather", {"city": "02134", "any": {"a": [1, None, True, "x"]}}),
    ("get_weather", {"city": "a\nb", "any": "text"}),
    ("get_weather", {"city": "true", "any": 2.5}),
    ("get_weather_map", {}),
    ("get_weather_map", {"zoom": -3, "on": True}),
    ("get_weather_map", {"zip": "02134"}),
    ("now", {}),
    ("lookup", {"tree": {"next": {"next": {}, "k": "é"}}}),
    ("lookup", {"tree": {}, "v": 7}),
    ("lookup", {"tree": {}, "v": "abc"}),
]
NO_CALLS: list[tuple[str, Any]] = [
    ("get_weather", {"days": 3}),
    ("get_weather", {"city": "x", "days": 15}),
    ("get_weather", {"city": "x", "colour": 1}),
    ("get_weather", {"city": "x" * 31}),
    ("get_weather_map", {"zoom": 10}),
    ("get_weather_map", {"zip": "1234"}),
    ("now", {"zone": 1}),
    ("get_weathe", {"city": "x"}),
    ("lookup", {"tree": {}, "v": 3}),
    ("lookup", {"tree": {"next": {"other": {}}}}),
]


def _texts(wrapper: ChatWrapper, name: str, arguments: Any) -> list[str]:
    """A call as it stands in an answer, with and without the end of its section."""
    parallel = wrapper.settings.functions.parallelism
    opening, ending = (parallel.section_prefix, parallel.section_suffix) if parallel else ("", "")
    call = f"{opening}{wrapper.generate_function_call(name, arguments)}"
    return [call, f"{call}{ending}"]


@pytest.mark.parametrize("name", chat_wrapper_names())
def test_a_written_call_is_accepted_just_where_it_is_valid(name: str) -> None:
    wrapper = load_chat_wrapper(name)
    grammar = Grammar.from_functions(FUNCTIONS, wrapper)
    oracle = LlamaOracle(grammar.gbnf)
    for wanted, calls in ((True, CALLS), (False, NO_CALLS)):
        for function, arguments in calls:
            for text in _texts(wrapper, function, arguments):
                assert (grammar.accepts(text), oracle.accepts(text)) == (wanted, wanted), text


def _wrapper(**call: Any) -> ChatWrapper:
    wrapper = ChatWrapper()
    functions = FunctionsSyntax(FunctionCallSyntax(**call), FunctionResultSyntax("", ""))
    wrapper.settings = ChatWrapperSettings(functions=functions)
    return wrapper


TAGGED = TaggedNotation(
    prefix=SlottedText((control("<p="), Slot.PARAMETER_NAME, control(" s="), Slot.IS_STRING, control(">"))),
    suffix=control("</p>"),
)
FRAME: dict[str, Any] = {"prefix": control("<f="), "params_prefix": control(">"), "suffix": control("</f>")}
NOTATIONS: dict[str, Any] = {
    "tagged": TAGGED,
    "tagged-python": TaggedNotation(TAGGED.prefix, TAGGED.suffix, control("\n"), literals="python"),
    "tagged-containers": TaggedNotation(TAGGED.prefix, TAGGED.suffix, literals="python_containers"),
    "keywords": KeywordNotation(),
    "keywords-json": KeywordNotation(between=control("; "), mappings="json"),
    "bare": BareKeyNotation(control('<|"|>'), sorts_keys=True),
    "bare-null": BareKeyNotation(control("'"), null="None"),
}


@pytest.mark.parametrize("name", NOTATIONS)
def test_each_notation_is_what_the_wrapper_writes(name: str) -> None:
    wrapper = _wrapper(**FRAME, arguments=NOTATIONS[name])
    grammar = Grammar.from_functions(FUNCTIONS, wrapper)
    calls = [call for call in CALLS if name != "bare-null" or "'" not in json.dumps(call)]
    for wanted, given in ((True, calls), (False, NO_CALLS)):
        for function, arguments in given:
            text = str(wrapper.generate_function_call(function, arguments))
            assert grammar.accepts(text) is wanted, text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<f=get_weather><p=city s=true>a<b</p></f>", True),
        ("<f=get_weather><p=city s=true>a</p><p=days s=false>3</p></f>", True),
        ("<f=lookup><p=v s=true>a</p><p=tree s=false>{}</p></f>", True),
        ("<f=get_weather><p=days s=false>3</p></f>", False),
        ("<f=get_weather><p=city s=true>a</p>b</p></f>", False),
        ("<f=get_weather><p=city s=true>a</f></p></f>", False),
        ("<f=get_weather><p=city s=false>3</p></f>", False),
        ("<f=get_weather><p=city s=true>a</p><p=days s=true>3</p></f>", False),
        ("<f=get_weather><p=city s=true>a</p><p=city s=true>a</p></f>", False),
        ("<f=lookup><p=tree s=false>{}</p><p=v s=true>3</p></f>", True),
        ("<f=lookup><p=tree s=false>{}</p><p=v s=false>3</p></f>", False),
    ],
)
def test_tagged_arguments(text: str, wanted: bool) -> None:
    wrapper = _wrapper(**FRAME, arguments=TAGGED)
    assert Grammar.from_functions(FUNCTIONS, wrapper).accepts(text) is wanted


@pytest.mark.parametrize(
    ("value", "wanted"),
    [("abc", True), ("7", True), ("3", False), (" 3", False), ("[1", False), ('"a', False), ("null", False),
     ("nullable", True), ("True ", False), ("-x", True), ("-1x", False)],
)  # fmt: skip
def test_a_string_that_looks_like_another_value_is_left_out(value: str, wanted: bool) -> None:
    notation = TaggedNotation(SlottedText((control("<"), Slot.PARAMETER_NAME, control(">"))), control("</>"))
    grammar = Grammar.from_functions(FUNCTIONS, _wrapper(**FRAME, arguments=notation))
    assert grammar.accepts(f"<f=lookup><tree>{{}}</><v>{value}</></f>") is wanted


def test_ids_and_numbers_of_calls() -> None:
    slots = (control("<"), Slot.CALL_ID, control(":"), Slot.CALL_INDEX, control(">"))
    wrapper = _wrapper(prefix="[", params_prefix=SlottedText(slots), suffix="]")
    grammar = Grammar.from_functions(FUNCTIONS, wrapper)
    assert grammar.accepts(str(wrapper.generate_function_call("now", {}, index=12)))
    assert grammar.accepts("[now<aB3456789:0>]") and not grammar.accepts("[now<aB3:01>]")


def test_other_prefixes_may_begin_a_call() -> None:
    alternates = {"prefix_alternate_matches": ("<g=",), "params_prefix_alternate_matches": (" :",)}
    grammar = Grammar.from_functions(FUNCTIONS, _wrapper(**FRAME, **alternates))
    for text in ("<f=now></f>", "<g=now :</f>", "<g=now>{}</f>", "<f=now :{}</f>"):
        assert grammar.accepts(text), text
    assert not grammar.accepts("<h=now></f>")


THINKING = SegmentsSyntax(thought=SegmentSyntax(control("<think>\n"), control("\n</think>\n")))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", True),
        ("Just text, with < and <f and </f>.", True),
        ("Text. <f=now></f>", True),
        ("<f=now></f> and more", False),
        ("<f=then></f>", False),
        ("Text <f=", False),
        ("<think>\n<f=then>, or not\n</think>\n\nText.", True),
        ("<think> a </think><f=now></f>", True),
        ("A <think>b", False),
    ],
)
def test_an_answer_is_free_up_to_its_first_call(text: str, wanted: bool) -> None:
    wrapper = _wrapper(**FRAME)
    settings = ChatWrapperSettings(functions=wrapper.settings.functions, segments=THINKING)
    grammar = Grammar.from_functions(FUNCTIONS, settings, tool_choice="auto")
    assert (grammar.accepts(text), LlamaOracle(grammar.gbnf).accepts(text)) == (wanted, wanted)


CHANNELS = ChatWrapperSettings(
    functions=FunctionsSyntax(
        FunctionCallSyntax(
            prefix=control("<c>call to="), params_prefix=control("<m>"), suffix=control("<call>")
        ),
        FunctionResultSyntax("", ""),
    ),
    segments=SegmentsSyntax(
        thought=SegmentSyntax(control("<c>think<m>"), control("<end>")),
        text=SegmentSyntax(control("<c>final<m>"), control("<end>")),
        between_parts=LlamaText(control("<start>")),
    ),
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<c>final<m>Hi <c> there<end>", True),
        ("<c>think<m>Well<end><start><c>final<m>Hi<end>", True),
        ("<c>think<m>Well<end><start><c>call to=now<m>{}<call>", True),
        ("<c>final<m>A<end><start><c>call to=now<m>{}<call>", True),
        ("<c>call to=now<m>{}<call><start><c>call to=now<m>{}<call>", True),
        ("<c>call to=then<m>{}<call>", False),
        ("<c>think<m>Well<end>", False),
        ("Hi", False),
    ],
)
def test_parts_that_are_messages_of_their_own(text: str, wanted: bool) -> None:
    assert Grammar.from_functions(FUNCTIONS, CHANNELS, tool_choice="auto").accepts(text) is wanted


RECIPIENTS = ChatWrapperSettings(
    functions=FunctionsSyntax(
        FunctionCallSyntax(prefix=control(">>>"), params_prefix=control("\n"), suffix=""),
        FunctionResultSyntax("", ""),
        ParallelCallsSyntax(),
    ),
    segments=SegmentsSyntax(text=SegmentSyntax(control(">>>all\n"))),
)


@pytest.mark.parametrize(
    ("choice", "prompt_end", "text", "wanted"),
    [
        ("auto", ">>>", "all\nHi.", True),
        ("auto", ">>>", "all\nHi.>>>now\n{}", True),
        ("auto", ">>>", "now\n{}>>>now\n{}", True),
        ("auto", ">>>", ">>>now\n{}", False),
        ("auto", "", ">>>now\n{}", True),
        ("auto", "", "now\n{}", False),
        ("auto", ">>>", "then\n{}", False),
        ("required", ">>>", "now\n{}", True),
        ("required", ">>>", "all\nHi.", False),
    ],
)
def test_the_prompt_may_have_begun_the_first_part(
    choice: ToolChoice, prompt_end: str, text: str, wanted: bool
) -> None:
    shape = AnswerShape(as_functions(FUNCTIONS), choice, prompt_end=prompt_end)
    tree, _ = convert_answer(shape, RECIPIENTS, Options(is_closed=True))
    assert Grammar(tree).accepts(text) is wanted


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("name", chat_wrapper_names())
def test_random_answers_are_read_as_whole_calls(name: str, choice: ToolChoice) -> None:
    wrapper, functions = load_chat_wrapper(name), as_functions(FUNCTIONS)
    prompt = wrapper.generate_context_state([{"type": "user", "text": "Hi"}])
    marks = Marks(stops=tuple(map(str, prompt.stop_generation_triggers)))
    shape = AnswerShape(functions, choice, 2, prompt_end=str(prompt.context_text)[-40:])
    tree, _ = convert_answer(shape, wrapper.settings, Options(is_closed=True), marks)
    assert not hazards(tree)
    n_calls = 0
    for seed in range(25):
        text = sample(tree, seed, 80)
        parts = parse(text, wrapper.settings, functions=functions).response
        calls = [part for part in parts if isinstance(part, ChatModelFunctionCall)]
        n_calls += len(calls)
        assert choice == "auto" or (calls and not any(isinstance(p, str) and p.strip() for p in parts)), text
        for call in calls:
            schema = functions[call.name].parameters or {"maxProperties": 0}
            jsonschema.validate({} if call.arguments is None else call.arguments, schema)
    assert n_calls or choice == "auto"
