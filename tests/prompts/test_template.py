from __future__ import annotations

import asyncio
import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from chatwrap import ChatModelResponse, ChatUserMessage
from chatwrap.errors import PromptError
from chatwrap.prompts.contents import ImageContent, TextContent, ToolRequest, ToolResult
from chatwrap.prompts.messages import Message
from chatwrap.prompts.prompt import Prompt
from chatwrap.prompts.properties import AnyProperty, ListProperty, StringProperty
from chatwrap.prompts.regex_parser import RegexOutputParser
from chatwrap.prompts.template import PromptTemplate
from chatwrap.prompts.tool_readers import JsonToolOutputParser
from chatwrap.prompts.tools import Tool

CASES = tomllib.loads((Path(__file__).parents[1] / "cases/prompts.toml").read_text("utf-8"))
PLACEHOLDER = PromptTemplate.CHAT_HISTORY_PLACEHOLDER
PARSER = RegexOutputParser("(.*)")


class Person(BaseModel):
    name: str
    age: int


def shown(prompt: Prompt) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in prompt.messages]


def texts(template: str, **inputs: Any) -> str:
    return PromptTemplate.from_string(template).format(inputs).messages[0].content


@pytest.mark.parametrize("case", CASES["rendered"], ids=lambda case: case["template"])
def test_what_templates_render_to(case: dict[str, Any]) -> None:
    assert texts(case["template"], **case.get("inputs", {})) == case["text"]


@pytest.mark.parametrize("case", CASES["refused"], ids=lambda case: case["template"])
def test_what_a_template_may_not_say(case: dict[str, Any]) -> None:
    with pytest.raises(PromptError) as caught:
        PromptTemplate([Message("fine"), Message(case["template"])], name="t")
    assert str(caught.value) == case["error"]


@pytest.mark.parametrize("case", CASES["failing"], ids=lambda case: case["template"])
def test_what_fails_while_it_is_rendered(case: dict[str, Any]) -> None:
    template = PromptTemplate([Message("fine"), Message(case["template"])], name="t")
    with pytest.raises(PromptError) as caught:
        template.format(case.get("inputs", {}))
    assert str(caught.value) == case["error"]


@given(st.text())
def test_values_are_put_in_as_they_are(value: str) -> None:
    assert texts("<{{x}}>", x=value) == f"<{value}>"


@pytest.mark.parametrize(
    "hostile", ["{{ x }}", "{% raw %}", "{#", "$$__CHAT_HISTORY_PLACEHOLDER__$$", "\n---\n"]
)
def test_neither_values_nor_history_are_rendered_or_searched(hostile: str) -> None:
    template = PromptTemplate([Message("{{x}}", role="system"), PLACEHOLDER, Message("{{x}}")])
    prompt = template.format({"x": hostile}, [Message(hostile), Message(hostile, role="system")])
    assert shown(prompt) == [("system", hostile), ("user", hostile), ("system", hostile), ("user", hostile)]


def test_all_missing_inputs_are_named_with_variable_template_and_message() -> None:
    template = PromptTemplate(
        [{"role": "system", "content": "{{a}}\n{{b}} {{c}}"}, {"role": "user", "content": "{{d}}"}],
        name="greeting",
    )
    with pytest.raises(PromptError) as caught:
        template.format({"a": 1})
    assert str(caught.value) == (
        "template 'greeting', messages[0], line 2: the variable 'b' is missing. Pass it.\n"
        "template 'greeting', messages[0], line 2: the variable 'c' is missing. Pass it.\n"
        "template 'greeting', messages[1], line 1: the variable 'd' is missing. Pass it."
    )
    assert isinstance(caught.value, ValueError)


def test_values_of_other_types_are_refused_with_the_mend() -> None:
    template = PromptTemplate([Message("{{a}}{{b}}"), Message("{{c}}")])
    deep: Any = "x"
    for _ in range(51):
        deep = [deep]
    with pytest.raises(PromptError) as caught:
        template.format(
            {"a": {"k": [Person(name="Ada", age=36)]}, "b": deep, "c": {1j: 2}, "unused": object()}
        )
    assert str(caught.value).splitlines() == [
        "template, messages[0], variable a.k[0]: of type Person, which no template may read. "
        "Pass value.model_dump().",
        f"template, messages[0], variable b{'[0]' * 50}: nested more than 50 deep. Flatten it.",
        "template, messages[1], variable c: a complex as a key: 1j. Use texts as keys.",
    ]


def test_what_is_passed_is_never_changed() -> None:
    inputs = {"x": {"list": [1, {"y": 2}]}, "__CHAT_HISTORY__": [{"role": "user", "content": "hi"}]}
    before = copy.deepcopy(inputs)
    template = PromptTemplate(
        [{"role": "system", "content": "{{x.list[1].y}}"}, PLACEHOLDER],
        post_rendering_transforms=[lambda messages: messages[::-1]],
    )
    partial = template.with_partial({"x": {"list": [0, {"y": 3}]}})
    template.format(inputs)
    assert inputs == before
    assert shown(partial.format(inputs))[-1] == ("system", "3")
    assert shown(template.format(inputs))[-1] == ("system", "2")


def test_partial_values_are_kept_and_win_and_later_ones_override() -> None:
    template = PromptTemplate.from_string("{{a}} {{b}}").with_partial({"a": 1}).with_partial({"a": 2})
    assert [each.name for each in template.input_descriptors or ()] == ["b"]
    assert shown(template.format({"a": 5, "b": "{{a}}"})) == [("user", "2 {{a}}")]


def test_given_descriptors_survive_a_partial_and_their_defaults_apply() -> None:
    descriptors = [StringProperty("a", "mine"), StringProperty("b", default_value="B")]
    template = PromptTemplate.from_string("{{a}}{{b}}", input_descriptors=descriptors)
    assert template.input_descriptors == descriptors
    assert template.with_partial({"a": 1}).input_descriptors == descriptors[1:]
    assert template.with_partial({"a": 1}).with_tools(None).input_descriptors == descriptors[1:]
    assert texts_of(template.format({"a": "A"})) == "AB"


def texts_of(prompt: Prompt) -> str:
    return prompt.messages[0].content


def test_descriptors_are_inferred_texts_first() -> None:
    template = PromptTemplate(
        [
            Message("{{b}}{% for x in xs %}{{x}}{% endfor %}{{a}}{% if c %}{{c}}{% endif %}{{d.e}}"),
            PLACEHOLDER,
        ]
    )
    kinds = [(type(each), each.name, each.has_default) for each in template.input_descriptors or ()]
    assert kinds == [
        (StringProperty, "b", False),
        (StringProperty, "a", False),
        (StringProperty, "c", True),
        (AnyProperty, "xs", False),
        (AnyProperty, "d", False),
        (ListProperty, "__CHAT_HISTORY__", False),
    ]


@pytest.mark.parametrize(
    ("inputs", "history"),
    [
        ({"__CHAT_HISTORY__": [{"role": "user", "content": "q"}]}, None),
        ({}, [Message("q")]),
        ({}, [ChatUserMessage(text="q")]),
        ({}, [{"type": "user", "text": "q"}]),
        ({"__CHAT_HISTORY__": [Message("q")]}, [Message("loses")]),
    ],
)
def test_the_history_comes_in_any_form(inputs: dict[str, Any], history: Any) -> None:
    template = PromptTemplate(
        [{"role": "system", "content": "s"}, PLACEHOLDER, {"role": "user", "content": "u"}]
    )
    assert shown(template.format(inputs, history)) == [("system", "s"), ("user", "q"), ("user", "u")]


def test_an_empty_history_is_one_and_no_history_is_an_error() -> None:
    template = PromptTemplate([{"role": "system", "content": "s"}, PLACEHOLDER], name="t")
    assert shown(template.format(chat_history=[])) == [("system", "s")]
    assert shown(template.format({"__CHAT_HISTORY__": []})) == [("system", "s")]
    with pytest.raises(PromptError) as caught:
        template.format()
    assert str(caught.value) == (
        "template 't': the chat history is missing. "
        "Pass chat_history, or a list of messages as '__CHAT_HISTORY__'."
    )
    with pytest.raises(PromptError) as caught:
        template.format(chat_history=[Message("a"), {"role": "tool", "content": "x"}, {"type": "other"}])
    assert str(caught.value) == (
        "template 't', __CHAT_HISTORY__[1].role: no role 'tool'. Use one of user, assistant, system.\n"
        "template 't', __CHAT_HISTORY__[2]: no type 'other'. Use 'system', 'user' or 'model'."
    )


def test_a_history_in_a_text_tells_roles_types_and_tool_data() -> None:
    template = PromptTemplate.from_string(
        "{% for m in __CHAT_HISTORY__ %}{{m.message_type}} {{m.role}}: {{m.content}}"
        "{% for r in m.tool_requests %}{{r.name}}{{r.args|tojson}}{% endfor %}\n{% endfor %}"
    )
    history = [
        Message("q"),
        Message("t", tool_requests=[ToolRequest("f", {"x": "{{y}}"}, "1")]),
        Message(tool_result=ToolResult({"r": 1}, "1")),
        Message("a", role="assistant"),
    ]
    assert texts_of(template.format(chat_history=history)) == (
        'USER user: q\nTOOL_REQUEST assistant: tf{"x": "{{y}}"}\n'
        'TOOL_RESULT user: {"r": 1}\nAGENT assistant: a\n'
    )


def test_each_text_part_is_rendered_once_and_the_rest_is_left_alone() -> None:
    image = ImageContent("AAAA")
    request = ToolRequest("f", {"x": "{{x}}"}, "1")
    template = PromptTemplate(
        [
            Message(contents=[TextContent("A{{x}}"), image, TextContent("B{{x}}")]),
            Message("{{x}}", tool_requests=[request]),
        ]
    )
    user, assistant = template.format({"x": 1}).messages
    assert user.contents == (TextContent("A1"), image, TextContent("B1"))
    assert assistant == Message("1", tool_requests=[request])


def test_a_conversation_is_spliced_as_it_is() -> None:
    item = ChatModelResponse(response=("a {{b}}",))
    assert PromptTemplate([PLACEHOLDER]).format(chat_history=[item]).history() == (item,)


def test_transforms_run_in_order_before_and_after_rendering() -> None:
    seen: list[Any] = []

    def first(messages: list[Message]) -> list[Message]:
        seen.append(("first", len(messages)))
        return messages[1:]

    async def second(messages: list[Message]) -> list[Message]:
        await asyncio.sleep(0)
        seen.append(("second", len(messages)))
        return messages

    template = (
        PromptTemplate([Message("s", role="system"), PLACEHOLDER])
        .with_additional_pre_rendering_transform(second)
        .with_additional_pre_rendering_transform(first, append=False)
        .with_additional_post_rendering_transform(second)
        .with_additional_post_rendering_transform(first, append=False)
    )
    history = [Message("a"), Message("b")]
    expected = [("first", 2), ("second", 1), ("first", 2), ("second", 1)]
    assert shown(template.format(chat_history=history)) == [("user", "b")]
    assert seen == expected

    async def in_a_loop() -> tuple[Prompt, Prompt]:
        return await template.format_async(chat_history=history), template.format(chat_history=history)

    assert [shown(prompt) for prompt in asyncio.run(in_a_loop())] == [[("user", "b")]] * 2
    assert seen == expected * 3


def test_native_tools_and_formats_are_told_apart_from_those_in_words() -> None:
    tool = Tool("f", "does f", {"type": "object", "properties": {}})
    native = PromptTemplate.from_string("q", tools=[tool], response_format=Person).format()
    assert (native.tools, native.response_format, native.output_parser) == ([tool], Person, None)
    text = "{% for t in __TOOLS__ %}{{t.function.name}}{% endfor %} {{__RESPONSE_FORMAT__.title}}"
    worded = PromptTemplate.from_string(
        text,
        output_parser=[JsonToolOutputParser(), PARSER],
        tools=[tool],
        native_tool_calling=False,
        response_format=Person,
        native_structured_generation=False,
    )
    prompt = worded.format({"__TOOLS__": "overridden"})
    assert (prompt.tools, prompt.response_format, prompt.answer_format) == (None, None, Person)
    assert texts_of(prompt) == "f Person"
    assert texts_of(worded.format({"__RESPONSE_FORMAT__": {"title": "wins"}})) == "f wins"
    parser = prompt.parsers[0]
    assert isinstance(parser, JsonToolOutputParser) and parser.known_tools == [tool]
    assert texts_of(worded.with_tools(None).format()) == " Person"


def test_a_template_that_nothing_can_read_is_refused_and_one_that_says_too_little_warned_of() -> None:
    with pytest.raises(PromptError) as caught:
        PromptTemplate(
            [Message("{{ f() }}"), PLACEHOLDER, PLACEHOLDER, Message("{{__CHAT_HISTORY__}}")],
            tools=[3],  # type: ignore[list-item]
            pre_rendering_transforms=["x"],  # type: ignore[list-item]
            native_tool_calling=False,
            native_structured_generation=False,
            generation_config={"temperature": -1},
            name="bad",
        )
    assert str(caught.value) == (
        "template 'bad', messages[2]: a second placeholder for the chat history. Put it once.\n"
        "template 'bad', messages[0], line 1: the template calls something, which it can't. "
        "Use filters, such as {{ values|items }} for values.items().\n"
        "template 'bad': it holds the chat history both as messages and as {{__CHAT_HISTORY__}}. "
        "Use one of the two.\n"
        "template 'bad', tools[0]: a int isn't a tool. Give a Tool, a function or a dict.\n"
        "template 'bad', pre_rendering_transforms[0]: 'x' isn't a transform. Give a function or an object.\n"
        "template 'bad', generation_config.temperature: must be a number of at least 0, not -1.\n"
        "template 'bad': native_tool_calling is off, and no output parser reads the answer. "
        "Give an output_parser.\n"
        "template 'bad': native_structured_generation is off, and no output parser reads the answer. "
        "Give an output_parser."
    )
    with pytest.warns(UserWarning) as warned:
        PromptTemplate.from_string("q", output_parser=PARSER, tools=[max_of], native_tool_calling=False)
    assert [str(each.message) for each in warned] == [
        "template: the model isn't told of {{__TOOLS__}}. Put it into a message."
    ]


def max_of(a: int, b: int) -> int:
    """The larger of two numbers."""
    return max(a, b)


def test_copies_leave_the_original_alone() -> None:
    template = PromptTemplate.from_string("{{a}}", generation_config={"temperature": 0.5, "max_tokens": 9})
    before = (template.tools, template.generation_config, template.output_parser, template.response_format)
    changed = (
        template.copy()
        .with_tools([max_of])
        .with_response_format(Person)
        .with_output_parser([PARSER])
        .with_generation_config({"temperature": 0.1, "top_p": 0.9})
    )
    assert before == (
        template.tools,
        template.generation_config,
        template.output_parser,
        template.response_format,
    )
    config = changed.format({"a": 1}).generation_config
    assert config and config.options() == {"temperature": 0.1, "top_p": 0.9, "max_tokens": 9}
    kept = template.with_generation_config({"temperature": 0.1, "seed": 3}, override=False)
    config = kept.format({"a": 1}).generation_config
    assert config and config.options() == {"temperature": 0.5, "max_tokens": 9, "seed": 3}
    assert template.with_generation_config(None).generation_config == template.generation_config
    assert [tool.name for tool in changed.format({"a": 1}).tools or ()] == ["max_of"]


def test_a_prompt_of_nothing_is_refused() -> None:
    template = PromptTemplate([Message("a")], post_rendering_transforms=[lambda messages: []])
    with pytest.raises(PromptError) as caught:
        template.format()
    assert str(caught.value) == "template: no message is left of it. Give it one that says something."
    with pytest.raises(PromptError) as caught:
        template.format("x")  # type: ignore[arg-type]
    assert str(caught.value) == "template: the inputs are a str. Pass a dict of values by name."


def test_a_text_is_needed() -> None:
    with pytest.raises(PromptError) as caught:
        PromptTemplate.from_string(None)  # type: ignore[arg-type]
    assert str(caught.value) == "template: of type NoneType. Give a text."
