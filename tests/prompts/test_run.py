from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from chatwrap import ChatModelFunctionCall, ChatModelResponse, ChatUserMessage
from chatwrap.chat.events import (
    CallEnd,
    CallStart,
    Diagnostic,
    SegmentEnd,
    SegmentStart,
    SegmentText,
    TextEvent,
)
from chatwrap.errors import AnswerError, ModelError, OptionError, PromptError
from chatwrap.prompts import ready
from chatwrap.prompts.adapt import adapt_prompt_template_for_json_structured_generation
from chatwrap.prompts.contents import ToolRequest, ToolResult
from chatwrap.prompts.json_parser import JsonOutputParser
from chatwrap.prompts.messages import Message
from chatwrap.prompts.prompt import Prompt
from chatwrap.prompts.properties import ObjectProperty, StringProperty
from chatwrap.prompts.run import run
from chatwrap.prompts.template import PromptTemplate
from chatwrap.prompts.tools import Tool, answer_requests
from tests.prompts.scripted import ScriptedModel


class Person(BaseModel):
    name: Annotated[str, Field(max_length=20)]
    age: Annotated[int, Field(ge=0, lt=120)]


INVENT = PromptTemplate.from_string("Invent {{what}}.", response_format=Person)


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"Sunny in {city}"


def test_a_native_format_reaches_the_model_and_gives_an_object() -> None:
    model = ScriptedModel('{"name": "Ada", "age": 36}')
    completion = INVENT.format({"what": "a person"}).run(model, temperature=0)
    assert completion.value == Person(name="Ada", age=36)
    (request,) = model.requests
    assert request.history == (ChatUserMessage(text="Invent a person."),)
    assert request.response_schema == Person.model_json_schema()
    assert (request.options, request.response_grammar) == ({"temperature": 0}, None)
    assert (completion.finish_reason, completion.n_prompt_tokens, completion.n_completion_tokens) == (
        "stop",
        3,
        4,
    )


def test_a_property_gives_a_json_value_and_no_format_the_text() -> None:
    form = ObjectProperty(properties={"a": StringProperty()})
    template = PromptTemplate.from_string("q", response_format=form)
    assert template.format().run(ScriptedModel('{"a": "x"}')).value == {"a": "x"}
    completion = PromptTemplate.from_string("q").format().run(ScriptedModel("text"))
    assert (completion.value, completion.content, completion.tool_requests) == ("text", "text", ())


@pytest.mark.parametrize(
    ("answer", "finish", "error"),
    [
        ("no", "stop", "answer: it isn't JSON: Expecting value: line 1 column 1 (char 0)."),
        (
            '{"name": 3, "age": 200}',
            "stop",
            "answer: it isn't valid: $.name: 3 is not of type 'string'.; "
            "$.age: 200 is greater than or equal to the maximum of 120.",
        ),
        (
            '{"name"',
            "length",
            "answer: it was cut after 4 tokens, before it was complete. "
            "Raise max_tokens, or load the model with a larger n_ctx.",
        ),
        (
            [CallEnd(0, ChatModelFunctionCall(name="f"), "")],
            "stop",
            "answer: it calls f. Add the results and run it again.",
        ),
    ],
)
def test_an_answer_that_isnt_what_was_asked_for_is_told(answer: Any, finish: Any, error: str) -> None:
    completion = INVENT.format({"what": "x"}).run(ScriptedModel(answer, finish=finish))
    with pytest.raises(AnswerError) as caught:
        _ = completion.value
    assert str(caught.value) == error


def test_an_adapted_template_asks_in_words_and_parses() -> None:
    adapted = adapt_prompt_template_for_json_structured_generation(INVENT)
    prompt = adapted.format({"what": "a person"})
    first, last = prompt.messages
    assert first.role == "user" and '"maxLength": 20' in first.content and last.content == "Invent a person."
    answer = (
        "I {think}. <final_answer>no</final_answer> "
        '<final_answer>\n{"name": "Ada", "age": 36,}\n</final_answer>'
    )
    model = ScriptedModel(answer, '{"name": "Ada", "age": 36}')
    assert prompt.run(model).value == prompt.run(model).value == Person(name="Ada", age=36)
    (request, _) = model.requests
    assert request.response_schema is None
    assert request.response_grammar is not None and "<final_answer>" in request.response_grammar
    for template, error in (
        (adapted, "it doesn't use its response format natively already. Use it as it is."),
        (PromptTemplate.from_string("q"), "it has no response format. Add one with with_response_format."),
        (
            INVENT.with_output_parser(JsonOutputParser()),
            "it has an output parser already. Take it out first.",
        ),
    ):
        with pytest.raises(ValueError) as caught:
            adapt_prompt_template_for_json_structured_generation(template)
        assert f"template: {error}" in str(caught.value).splitlines()


def test_streams_show_what_is_certain_and_end_in_the_whole() -> None:
    prompt = PromptTemplate.from_string("q", output_parser=JsonOutputParser()).format()
    model = ScriptedModel('{"a": "x", "b": 12}')
    with prompt.stream(model) as stream:
        with pytest.raises(ModelError) as caught:
            _ = stream.result
        assert str(caught.value) == "stream: its answer isn't complete. Read all its pieces first."
        pieces = list(stream)
    assert "".join(piece.text for piece in pieces) == '{"a": "x", "b": 12}'
    shown = [piece.message.content for piece in pieces if piece.message]
    assert shown == ["{}", '{"a": "x"}', '{"a": "x", "b": 12}', '{"a": "x", "b": 12}']
    assert stream.result.message.content == shown[-1]
    assert model.n_closed == 1


def test_closing_a_stream_aborts_the_answer() -> None:
    model = ScriptedModel("a long answer", "a long answer")
    with Prompt([Message("q")]).stream(model) as stream:
        next(stream)
    assert model.n_closed == 1

    async def leaves_early() -> None:
        async for _ in Prompt([Message("q")]).stream_async(model):
            break

    asyncio.run(leaves_early())
    assert model.n_closed == 2


def test_answers_come_without_blocking_the_event_loop() -> None:
    prompt = Prompt([Message("q")])

    async def both() -> tuple[str, list[str]]:
        completion = await prompt.run_async(ScriptedModel("hello world"))
        return completion.content, [
            piece.text async for piece in prompt.stream_async(ScriptedModel("hello world"))
        ]

    assert asyncio.run(both()) == ("hello world", ["hello", " worl", "d", ""])

    async def fails() -> None:
        await Prompt([Message(tool_result=ToolResult(1, "1"))]).run_async(ScriptedModel())

    with pytest.raises(ValueError, match="no such request waits"):
        asyncio.run(fails())


def test_native_calls_and_thoughts_become_a_message_that_goes_back_as_it_was() -> None:
    call = ChatModelFunctionCall(name="get_weather", arguments={"city": "Bern"})
    events = [
        SegmentStart("thought", ""),
        SegmentText("thought", "hm", "hm"),
        SegmentEnd("thought", ""),
        TextEvent("Let me see.", "Let me see."),
        CallStart(0, "get_weather", "id-1", ""),
        CallEnd(0, call, ""),
        Diagnostic("odd", "something", "x"),
    ]
    template = ready.NATIVE_CHAT_TEMPLATE.with_tools([get_weather])
    history = [Message("Weather in Bern?")]
    model = ScriptedModel(events, "Sunny.")
    completion = template.format(chat_history=history).run(model, tool_choice="required")
    assert completion.message == Message(
        "Let me see.",
        tool_requests=[ToolRequest("get_weather", {"city": "Bern"}, "id-1")],
        segments=completion.message.segments,
    )
    assert (completion.message.thought, completion.diagnostics) == ("hm", (events[-1],))
    history += [completion.message, *answer_requests(completion.message, [get_weather])]
    assert template.format(chat_history=history).run(model).content == "Sunny."
    first, second = model.requests
    assert (list(first.functions), first.tool_choice, second.tool_choice) == (
        ["get_weather"],
        "required",
        "auto",
    )
    item = second.history[-1]
    assert isinstance(item, ChatModelResponse)
    assert item.response[1:] == ("Let me see.", call.with_result("Sunny in Bern"))


def test_react_makes_a_round_trip_in_words() -> None:
    template = ready.REACT_AGENT_TEMPLATE.with_tools([get_weather])
    call = '{"name": "get_weather", "parameters": {"city": "Bern"}}'
    step = f"## Thought: I need it\n## Action:\n```json\n{call}\n```"
    model = ScriptedModel(step, "## Thought: I see\n## Answer: Sunny.", "## Answer: Bye.")
    history = [Message("Weather in Bern?")]
    completion = template.format(chat_history=history).run(model)
    assert [(r.name, r.args) for r in completion.tool_requests] == [("get_weather", {"city": "Bern"})]
    history += [completion.message, *answer_requests(completion.message, [get_weather])]
    completion = template.format(chat_history=history).run(model)
    assert (completion.content, completion.message.thought) == ("Sunny.", "I see")
    history += [completion.message, Message("Thanks.")]
    assert template.format(chat_history=history).run(model).content == "Bye."
    request = model.requests[-1]
    assert request.options == {"stop": ["## Observation"]} and not request.functions
    texts = [getattr(item, "text", "") for item in request.history]
    assert [str(text) for text in texts[1:]] == [
        "Weather in Bern?",
        step,
        '## Observation: "Sunny in Bern"',
        "## Thought: I see\n## Answer: Sunny.",
        "Thanks.",
    ]
    assert str(model.requests[1].history[-1].text).endswith("## Answer:")


def test_a_result_cant_close_the_marks_around_it() -> None:
    request = ToolRequest("f", {"x": "it's"}, "1")
    history = [
        Message("q"),
        Message("t", tool_requests=[request]),
        Message(tool_result=ToolResult("</tool_response>&", "1")),
    ]
    for template, call in (
        (ready.LLAMA_CHAT_TEMPLATE, 't\n{"name": "f", "parameters": {"x": "it\'s"}}'),
        (ready.PYTHON_CALL_CHAT_TEMPLATE, 't\n[f(x="it\'s")]'),
    ):
        *_, called, result = template.with_tools([Tool("f")]).format(chat_history=history).messages
        assert (called.role, called.content) == ("assistant", call)
        assert result.content == '<tool_response>"\\u003c/tool_response\\u003e\\u0026"</tool_response>'
    with pytest.raises(PromptError) as caught:
        ready.LLAMA_CHAT_TEMPLATE.format(chat_history=history[2:])
    assert str(caught.value) == (
        "messages[1]: a result for '1', which nothing requested. Put it behind its request."
    )


def test_agent_templates_take_an_instruction_and_a_plan() -> None:
    inputs = {"custom_instruction": "Be kind.", "__PLAN__": "1. Help."}
    messages = ready.NATIVE_AGENT_TEMPLATE.format(inputs, [Message("q")]).messages
    assert [(each.role, each.content) for each in messages] == [
        ("system", "Be kind."),
        ("user", "q"),
        ("system", "The plan, which you follow step by step:\n1. Help."),
    ]
    assert [
        each.content for each in ready.NATIVE_AGENT_TEMPLATE.format(chat_history=[Message("q")]).messages
    ] == ["q"]
    for template in (ready.REACT_CHAT_TEMPLATE, ready.LLAMA_AGENT_TEMPLATE, ready.PYTHON_CALL_AGENT_TEMPLATE):
        system = template.with_tools([get_weather]).format(chat_history=[Message("q")]).messages[0]
        assert system.role == "system" and '"name": "get_weather"' in system.content


def test_what_cant_be_run_is_told() -> None:
    prompt = Prompt([Message("q")])
    with pytest.raises(OptionError) as caught:
        run("model.gguf", prompt)
    assert str(caught.value) == (
        "model: 'model.gguf' isn't the URL of an endpoint. Load the model with chatwrap.load_model first."
    )
    with pytest.raises(OptionError) as caught:
        prompt.run(ScriptedModel(), tool_choice="required")
    assert str(caught.value) == (
        "tool_choice: 'required' can't be demanded of this prompt. "
        "Use native tools, or the JSON or ReAct templates."
    )


class Endless(ScriptedModel):
    def _events(self, answer: Any) -> Any:
        yield TextEvent("x", "x")


def test_an_answer_without_an_end_is_an_error() -> None:
    with pytest.raises(ModelError) as caught:
        Prompt([Message("q")]).run(Endless())
    assert str(caught.value) == "run: the model's answer has no end. Its events must end with a ResponseEnd."
    with pytest.raises(ModelError) as caught:
        list(Prompt([Message("q")]).stream(Endless()))
    assert (
        str(caught.value) == "stream: the model's answer has no end. Its events must end with a ResponseEnd."
    )
