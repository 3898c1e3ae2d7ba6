"""The parser's laws, in every format there is."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatwrap.chat.events import ArgumentsText, CallEnd, CallStart
from chatwrap.chat.functions import as_functions
from chatwrap.chat.history import ChatModelFunctionCall
from chatwrap.grammar.grammar import Grammar
from chatwrap.output.parser import OutputParser
from chatwrap.output.response import response_of
from chatwrap.wrapper.definition import ChatWrapperDefinition, builtin_definitions
from tests.grammar.trees import sample
from tests.output.answers import (
    as_tokens,
    diagnostics,
    functions_of,
    in_chunks,
    joined,
    parts_of,
    parts_read,
    read,
    readable,
    tags_of,
    written,
)

# Formats that write everything alike are one case.
DEFINITIONS = {
    definition.name: definition
    for definition in {repr(each.wrapper.settings): each for each in builtin_definitions()}.values()
}
each_format = pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=list(DEFINITIONS))
checked = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
sizes = st.sampled_from([1, 2, 3, 5, 10_000])


@each_format
@checked
@given(data=st.data(), size=sizes, by_id=st.booleans())
def test_what_a_model_says_is_read_as_it_was_written(
    definition: ChatWrapperDefinition, data: st.DataObject, size: int, by_id: bool
) -> None:
    wrapper = definition.wrapper
    parts = data.draw(parts_of(wrapper.settings))
    special_tokens = tags_of(wrapper.settings) if by_id else []
    text = written(wrapper, parts)
    chunks = in_chunks(as_tokens(text, special_tokens), size)
    parser = OutputParser(wrapper.settings, functions=functions_of(parts), special_tokens=special_tokens)
    events = read(chunks, parser)
    assert (parts_read(events), diagnostics(events)) == (readable(parts, wrapper.settings.segments), [])


@each_format
@checked
@given(data=st.data())
def test_any_text_survives_in_any_chunks(definition: ChatWrapperDefinition, data: st.DataObject) -> None:
    wrapper = definition.wrapper
    marks = sorted(
        {word for text in wrapper.control_texts for word in text.split()} | set(tags_of(wrapper.settings))
    )
    pieces = [
        *marks,
        '{"name": "get", "arguments": {"a": [1, "x"]}}',
        '"',
        "\n",
        "get",
        "{",
        "}",
        "a",
        "\\",
        " ",
    ]
    text = "".join(data.draw(st.lists(st.sampled_from(pieces) | st.text(max_size=3), max_size=12)))
    opened = "thought" if wrapper.settings.segments.thought and data.draw(st.booleans()) else None
    whole, *others = (
        joined(read(in_chunks(text, size), OutputParser(wrapper.settings, opened=opened)))
        for size in (10_000, 1, 3)
    )
    assert others == [whole, whole]
    check_calls(whole)


def check_calls(events: list[Any]) -> None:
    """Calls begin before they go on, are numbered, and their pieces are JSON of their arguments."""
    pieces: dict[int, str] = {}
    for event in events:
        match event:
            case CallStart():
                assert event.index not in pieces
                pieces[event.index] = ""
            case ArgumentsText():
                pieces[event.index] += event.text
            case CallEnd():
                text = pieces[event.index]
                assert event.call.has_arguments == bool(text)
                assert not text or json.loads(text) == event.call.arguments
    assert sorted(pieces) == list(range(len(pieces)))


@each_format
@checked
@given(data=st.data(), at=st.floats(0, 1))
def test_nothing_is_taken_back(definition: ChatWrapperDefinition, data: st.DataObject, at: float) -> None:
    """What was told of the beginning of an answer is told of any answer that begins so."""
    wrapper = definition.wrapper
    text = str(written(wrapper, data.draw(parts_of(wrapper.settings))))
    cut = int(at * len(text))
    told = joined(OutputParser(wrapper.settings).feed(text[:cut]))
    for ending in (text[cut:], "", "</x>", '{"', "\n" * 3):
        whole = joined(read([text[:cut], ending], OutputParser(wrapper.settings)))
        last = told[-1:]
        assert told[:-1] == whole[: len(told[:-1])]
        assert not last or is_beginning(last[0], whole[len(told) - 1])


def is_beginning(told: Any, whole: Any) -> bool:
    """Whether the event `told` is `whole`, or a piece of text with which `whole` begins."""
    if told == whole:
        return True
    is_text = hasattr(told, "text") and type(told) is type(whole)
    return is_text and whole.text.startswith(told.text) and whole.raw.startswith(told.raw)


FUNCTIONS = as_functions(
    {
        "get_weather": {
            "params": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "maxLength": 8},
                    "days": {"type": "integer", "minimum": 1},
                    "unit": {"enum": ["°C", "°F", None]},
                    "deep": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"x": {"type": "number"}}},
                    },
                },
                "required": ["city"],
            }
        },
        "get_weather_map": {"params": {"type": "object", "properties": {"zoom": {"type": "boolean"}}}},
        "now": {"params": {"type": "object", "properties": {}}},
    }
)


@each_format
def test_what_the_call_grammar_accepts_is_read_as_calls_that_validate(
    definition: ChatWrapperDefinition,
) -> None:
    settings = definition.wrapper.settings
    grammar = Grammar.from_functions(FUNCTIONS, settings, max_calls=3)
    names = set()
    for seed in range(30):
        text = sample(grammar.tree, seed)
        events = read([text], OutputParser(settings, functions=FUNCTIONS))
        calls = [event.call for event in events if isinstance(event, CallEnd)]
        assert calls and response_of(events).text == "" and not diagnostics(events), (text, events)
        for call in calls:
            names.add(call.name)
            jsonschema.validate(call.arguments if call.has_arguments else {}, FUNCTIONS[call.name].parameters)
    assert names == set(FUNCTIONS)


@each_format
def test_results_in_a_whole_model_item_are_told_apart_from_it(definition: ChatWrapperDefinition) -> None:
    parts = [
        "Wait.",
        ChatModelFunctionCall(name="get_weather", arguments={"city": "Łódź"}, result={"degrees": 3}),
        ChatModelFunctionCall(name="now", arguments={"zone": "UTC"}),
    ]
    text = str(definition.wrapper.generate_model_response_text(parts))
    events = read([text], OutputParser(definition.wrapper.settings))
    calls = [(part.name, part.arguments) for part in parts_read(events)[1:]]
    assert parts_read(events)[0] == "Wait."
    assert calls == [("get_weather", {"city": "Łódź"}), ("now", {"zone": "UTC"})]
    assert {found.kind for found in diagnostics(events)} == {"stray_result"}
