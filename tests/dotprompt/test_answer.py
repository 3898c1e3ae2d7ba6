"""Prompts are run on a model: options, sections, tools, and answers that are checked."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chatwrap import ChatModelFunctionCall, ChatModelResponse, ChatModelSegment, ChatUserMessage
from chatwrap.chat.events import (
    ArgumentsText,
    CallEnd,
    CallStart,
    Diagnostic,
    FinishReason,
    ResponseEnd,
    ResponseEvent,
    SegmentEnd,
    SegmentStart,
    SegmentText,
    TextEvent,
)
from chatwrap.chat.model import ChatRequest
from chatwrap.dotprompt.answer import MAX_ROUNDS, sampling_options
from chatwrap.dotprompt.dotprompt import Dotprompt
from chatwrap.errors import AnswerError, DotpromptError, Fault, OptionError


def text(*pieces: str, end: FinishReason = "stop") -> list[ResponseEvent]:
    return [*(TextEvent(piece, piece) for piece in pieces), ResponseEnd(end, 10, len(pieces))]


def calls(*given: ChatModelFunctionCall) -> list[ResponseEvent]:
    events: list[ResponseEvent] = []
    for index, call in enumerate(given):
        events += [
            CallStart(index, call.name, None, ""),
            ArgumentsText(index, "{}", ""),
            CallEnd(index, call, ""),
        ]
    return [*events, ResponseEnd("stop", 10, 1)]


@dataclass
class Scripted:
    """A model that answers what it is told to, and keeps what it was asked."""

    answers: list[Iterable[ResponseEvent]]
    asked: list[ChatRequest] = field(default_factory=list)
    n_closed: int = 0

    def respond(self, request: ChatRequest) -> Generator[ResponseEvent, None, None]:
        self.asked.append(request)
        return self._events(self.answers[len(self.asked) - 1])

    def _events(self, answer: Iterable[ResponseEvent]) -> Generator[ResponseEvent, None, None]:
        try:
            yield from answer
        finally:
            self.n_closed += 1

    def close(self) -> None:
        self.n_closed += 100


SOURCE = """---
config: {temperature: 0.5, topK: 3, topP: 0.9, maxOutputTokens: 50, stopSequences: [END], minP: 0.1}
input:
  default: {name: Guest}
  schema: {name: string, n?: integer}
---
Hi {{name}}"""


def run(source: str, *answers: Iterable[ResponseEvent], **arguments: Any) -> tuple[Any, Scripted]:
    model = Scripted(list(answers))
    dotprompt = Dotprompt(model=model, tools=arguments.pop("tools", ()))
    return dotprompt.run(dotprompt.compile(source), **arguments), model


def test_a_prompt_is_answered() -> None:
    answer, model = run(SOURCE, text("Hello ", "Ada"), input={"name": "Ada"})
    assert (answer.text, answer.value, answer.finish_reason) == ("Hello Ada", None, "stop")
    assert (answer.n_prompt_tokens, answer.n_completion_tokens) == (10, 2)
    assert answer.history == (ChatUserMessage(text="Hi Ada"), ChatModelResponse(response=("Hello Ada",)))
    assert [message.role for message in answer.messages] == ["user", "model"]
    (request,) = model.asked
    assert request.options == {
        "temperature": 0.5,
        "top_k": 3,
        "top_p": 0.9,
        "max_tokens": 50,
        "stop": ["END"],
        "min_p": 0.1,
    }
    assert (request.response_schema, dict(request.functions)) == (None, {})
    assert model.n_closed == 1


def test_the_pieces_come_as_they_are_written() -> None:
    model = Scripted([text("a", "b", "c")])
    dotprompt = Dotprompt(model=model)
    stream = dotprompt.stream(dotprompt.compile("Hi"), messages=[{"role": "user", "content": "h"}])
    assert model.asked == []
    assert next(iter(stream)) == "a"
    assert len(model.asked) == 1 and model.n_closed == 0
    assert stream.answer.text == "abc"
    assert [message.text for message in stream.answer.messages] == ["h", "Hi", "abc"]
    model.answers = [text("a", "b")] * 2
    stream = dotprompt.stream(dotprompt.compile("Hi"))
    next(iter(stream))
    stream.close()
    assert model.n_closed == 2
    with pytest.raises(AnswerError) as caught:
        _ = stream.answer
    assert str(caught.value) == "answer: ended before it was complete. Run it again."


def test_an_input_has_to_fit_its_schema() -> None:
    for given, message in (
        ({"name": 3}, "input.name: 3 is not of type 'string'."),
        ({"other": 1}, "input: Additional properties are not allowed ('other' was unexpected)."),
        ({"n": "x"}, "input.n: 'x' is not of type 'integer', 'null'."),
    ):
        with pytest.raises(DotpromptError) as caught:
            run(SOURCE, text("x"), input=given)
        assert str(caught.value) == message
    assert run(SOURCE, text("x"))[1].asked[0].history == (ChatUserMessage(text="Hi Guest"),)


JSON = "---\noutput: {format: json, schema: {n: integer}}\nconfig: {maxOutputTokens: 5}\n---\nHi"


def test_an_answer_in_json_is_checked() -> None:
    answer, model = run(JSON, text('{"n"', ": 3}"))
    assert answer.value == {"n": 3}
    assert model.asked[0].response_schema == {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    assert run("---\noutput: {format: json}\n---\nHi", text("[1]"))[0].value == [1]
    assert run("---\noutput: {format: text, schema: string}\n---\nHi", text("[1]"))[0].value is None


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (
            text('{"n": 3', end="length"),
            "answer: cut short before its JSON was complete. Allow more maxOutputTokens.",
        ),
        (text("three"), "answer: not JSON. Run it again."),
        (
            text('{"n": "x"}'),
            "answer: not valid by output.schema: answer.n: 'x' is not of type 'integer'.",
        ),
    ],
)
def test_an_answer_that_is_not_what_was_asked_for(events: list[ResponseEvent], message: str) -> None:
    with pytest.raises(AnswerError) as caught:
        run(JSON, events)
    assert str(caught.value) == message
    assert caught.value.text == "".join(event.text for event in events if isinstance(event, TextEvent))


def test_sections_are_filled() -> None:
    source = '---\noutput: {schema: string}\n---\nA {{section "output"}} B {{section "more"}}'
    _, model = run(source, text('"x"'), sections={"more": "M"})
    assert model.asked[0].history == (
        ChatUserMessage(text='A Answer with JSON that is valid by this schema: {"type": "string"} B M'),
    )
    _, model = run('A{{section "output"}}', text("x"))
    assert model.asked[0].history == (ChatUserMessage(text="A"),)
    with pytest.raises(DotpromptError) as caught:
        run(source, text("x"))
    assert str(caught.value) == (
        "messages[0]: the section 'more' has no text. Give it: sections={'more': ...}."
    )


def clock(city: str, *, offset: int = 0) -> dict[str, Any]:
    """The time.

    Args:
        city: Where.
    """
    return {"city": city, "h": 12 + offset}


TOOLS = "---\ntools: [clock]\n---\nTime?"
ROME = ChatModelFunctionCall(name="clock", arguments={"city": "Rome"})
OSLO = ChatModelFunctionCall(name="clock", arguments={"city": "Oslo", "offset": 1})


def test_tools_are_called_and_the_model_goes_on() -> None:
    answer, model = run(TOOLS, calls(ROME, OSLO), calls(ROME), text("Noon."), tools=[clock])
    rome, oslo = ROME.with_result({"city": "Rome", "h": 12}), OSLO.with_result({"city": "Oslo", "h": 13})
    again = rome.model_copy(update={"starts_new_chunk": True})
    assert answer.history[1] == ChatModelResponse(response=(rome, oslo, again, "Noon."))
    assert model.asked[1].history[1] == ChatModelResponse(response=(rome, oslo))
    assert (answer.text, answer.calls, answer.n_prompt_tokens) == ("Noon.", (), 30)
    assert [message.role for message in answer.messages] == [
        "user",
        "model",
        "tool",
        "model",
        "tool",
        "model",
    ]
    assert model.asked[0].functions["clock"].parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "offset": {"type": "integer", "default": 0},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_wrong_arguments_are_told_to_the_model() -> None:
    wrong = ChatModelFunctionCall(name="clock", arguments={"city": 3})
    answer, _ = run(TOOLS, calls(wrong), text("Sorry."), tools=[clock])
    assert answer.history[1].response[0].result == {
        "error": "arguments.city: Input should be a valid string."
    }


def test_calls_that_nobody_runs_are_the_answer() -> None:
    tools = {"clock": {"description": "The time.", "inputSchema": {"type": "object"}}}
    answer, _ = run(TOOLS, calls(ROME), tools=tools)
    assert answer.calls == (ROME,)


def test_a_model_that_never_stops_calling() -> None:
    with pytest.raises(AnswerError) as caught:
        run(TOOLS, *[calls(ROME)] * MAX_ROUNDS, tools=[clock])
    assert str(caught.value) == f"answer: still calls tools after {MAX_ROUNDS} rounds. Name fewer tools."


async def later() -> int:
    return 1


def test_tools_that_can_not_be_run() -> None:
    with pytest.raises(DotpromptError) as caught:
        run(TOOLS, text("x"))
    assert str(caught.value) == "tools: no tool 'clock'. Register it: tools=[...], or --tools FILE.py."
    with pytest.raises(DotpromptError) as caught:
        run(
            "---\ntools: [later]\n---\nx",
            calls(ChatModelFunctionCall(name="later", arguments={})),
            tools=[later],
        )
    assert str(caught.value) == "tools: 'later' is async. Give a function that isn't."


def test_thoughts_and_what_can_not_be_read() -> None:
    events: list[ResponseEvent] = [
        SegmentStart("thought", "<think>"),
        SegmentText("thought", "h", "h"),
        SegmentText("thought", "m", "m"),
        SegmentEnd("thought", "</think>"),
        TextEvent("a", "a"),
        Diagnostic("stray", "A stray mark.", "</x>"),
        *text("b"),
    ]
    answer, _ = run("Hi", events)
    assert answer.text == "a</x>b"
    assert answer.history[1].response == (ChatModelSegment(segment_type="thought", text="hm"), "a</x>b")


def test_models_by_name_are_loaded_once() -> None:
    asked: list[str] = []
    model = Scripted([text("x")] * 4)

    def load(name: str) -> Scripted:
        asked.append(name)
        return model

    with Dotprompt(load_model=load) as dotprompt:
        prompt = dotprompt.compile("---\nmodel: m\n---\nHi")
        dotprompt.run(prompt)
        dotprompt.run(prompt, options={"model": {"name": "other"}})
        dotprompt.run(prompt, model="m")
        dotprompt.run(dotprompt.compile("---\nmodel: hf:a/b/c.gguf\nconfig: {version: v1}\n---\nHi"))
    assert asked == ["m", "other", "hf:a/b@v1/c.gguf"]
    assert model.n_closed == 4 + 300


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("Hi", "model: the prompt names none. Write model: NAME into its front matter, or give a model."),
        (
            "---\nmodel: m\n---\nHi",
            "model: nobody loads 'm'. Give load_model=chatwrap.load_model, or a model.",
        ),
        (
            "---\nmodel: m\nconfig: {version: 2}\n---\nHi",
            "config.version: 2 can't be chosen for 'm'. Only hf: files without @ have versions.",
        ),
        (
            "---\nmodel: m\noutput: {format: xml}\n---\nHi",
            "output.format: 'xml' isn't known. Use json or text.",
        ),
    ],
)
def test_what_can_not_be_run(source: str, message: str) -> None:
    dotprompt = Dotprompt()
    with pytest.raises(DotpromptError) as caught:
        dotprompt.run(dotprompt.compile(source))
    assert str(caught.value) == message


def test_options_by_name() -> None:
    assert sampling_options({"repeatPenalty": 1.1, "seed": 3, "top_k": 4, "version": "x", "topP": None}) == {
        "repeat_penalty": 1.1,
        "seed": 3,
        "top_k": 4,
    }


def test_a_prompt_of_a_folder_is_run(tmp_path: Path) -> None:
    (tmp_path / "greet.prompt").write_text(SOURCE, encoding="utf-8")
    model = Scripted([text("Hello")])
    assert Dotprompt(tmp_path).run("greet", {"name": "Ada"}, model=model).text == "Hello"


def test_an_option_that_the_model_refuses_is_told_by_its_name_in_the_file() -> None:
    class Refusing(Scripted):
        def respond(self, request: ChatRequest) -> Generator[ResponseEvent, None, None]:
            faults = [Fault("max_tokens", "must be more.", "Add some."), Fault("top_k", "is odd.")]
            raise OptionError(faults)

    dotprompt = Dotprompt(model=Refusing([]))
    with pytest.raises(DotpromptError) as caught:
        dotprompt.run(dotprompt.compile("Hi"))
    assert str(caught.value) == "config.maxOutputTokens: must be more. Add some.\nconfig.topK: is odd."
