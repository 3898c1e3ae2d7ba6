"""Prompts on the model that comes with the tests, 135M parameters small."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import replace
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from chatwrap import Model, load_model
from chatwrap.chat.events import ResponseEvent
from chatwrap.chat.model import ChatRequest
from chatwrap.prompts import ready
from chatwrap.prompts.adapt import adapt_prompt_template_for_json_structured_generation
from chatwrap.prompts.messages import Message
from chatwrap.prompts.summarization import MessageSummarizationTransform
from chatwrap.prompts.template import PromptTemplate
from chatwrap.prompts.tools import answer_requests

OPTIONS = {"temperature": 0, "max_tokens": 60}


class Person(BaseModel):
    name: Annotated[str, Field(max_length=20)]
    age: Annotated[int, Field(ge=0, lt=120)]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model("smollm2-135m-instruct", n_ctx=1024)


def multiply(a: int, b: int) -> int:
    """Multiplies two numbers."""
    return a * b


def test_a_response_format_gives_an_object_natively_and_in_words(model: Model) -> None:
    template = PromptTemplate.from_string(
        "Invent {{what}}.", response_format=Person, generation_config=OPTIONS
    )
    adapted = adapt_prompt_template_for_json_structured_generation(template)
    inputs = {"what": "a woman called Ada, aged 36"}
    assert isinstance(model.run(template.format(inputs)).value, Person)
    completion = asyncio.run(model.run_async(adapted.format(inputs)))
    assert isinstance(completion.value, Person)
    assert completion.raw_message.content.startswith("<final_answer>")
    pieces = list(model.stream(adapted.format(inputs)))
    assert "".join(piece.text for piece in pieces) == completion.raw_message.content
    assert pieces[-1].message == completion.message


def test_react_makes_a_round_trip(model: Model) -> None:
    template = ready.REACT_CHAT_TEMPLATE.with_tools([multiply]).with_generation_config(OPTIONS)
    history = [Message("What is 12 times 34?")]
    completion = model.run(template.format(chat_history=history))
    assert [(request.name, request.args) for request in completion.tool_requests] == [
        ("multiply", {"a": 12, "b": 34})
    ]
    history += [completion.message, *answer_requests(completion.message, [multiply])]
    completion = model.run(template.format(chat_history=history))
    assert completion.tool_requests == () and "408" in completion.content
    history += [completion.message, Message("Thanks.")]
    assert model.run(template.format(chat_history=history), tool_choice="none").tool_requests == ()


def test_a_call_can_be_demanded_natively_and_in_words(model: Model) -> None:
    for template in (ready.NATIVE_CHAT_TEMPLATE, ready.LLAMA_CHAT_TEMPLATE):
        prompt = template.with_tools([multiply]).format(chat_history=[Message("What is 12 times 34?")])
        completion = model.run(prompt, tool_choice="required", **OPTIONS)
        assert [request.name for request in completion.tool_requests] == ["multiply"]


class Brief:
    """The model, cut off after a few tokens."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def respond(self, request: ChatRequest) -> Generator[ResponseEvent, None, None]:
        return self._model.respond(replace(request, options={**request.options, "max_tokens": 12}))


def test_a_long_message_is_summed_up_by_the_model(model: Model) -> None:
    text = "The ship left Oslo on Monday, and it came to Bergen three days later. " * 12
    transform = MessageSummarizationTransform(Brief(model), max_message_size=400)
    (message,) = transform([Message(text)])
    assert message.content.startswith("Summarized message: ") and transform([Message(text)]) == [message]
