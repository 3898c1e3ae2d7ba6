"""Structured answers: what comes back is what was asked for, or an error that keeps the text."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

from chatwrap import ChatSession, Grammar, ResponseFormat
from chatwrap.engine.model import Model, load_model
from chatwrap.errors import AnswerError, ChatwrapError, OptionError, SchemaError

QUESTION = [{"type": "user", "text": "Invent a person, as JSON."}]


class Person(BaseModel):
    name: Annotated[str, Field(min_length=1, max_length=15)]
    age: Annotated[int, Field(ge=0, lt=150)]
    likes: Annotated[list[Literal["tea", "coffee"]], Field(max_length=2)] = []


class Picky(BaseModel):
    name: Annotated[str, Field(max_length=10)]

    @field_validator("name")
    @classmethod
    def refuse(cls, _: str) -> str:
        raise ValueError("no name pleases")


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 99}}, "required": ["n"]}


@pytest.fixture(scope="module")
def model(smollm_path: Path) -> Iterator[Model]:
    with load_model(smollm_path, n_ctx=384, chat_wrapper="chatml", n_threads=1, n_threads_batch=1) as loaded:
        yield loaded


def value_of(model: Model, response_format: Any, **options: Any) -> Any:
    options = {"temperature": 0, "max_tokens": 100, **options}
    return model.complete(QUESTION, response_format=response_format, **options).value


@pytest.mark.parametrize("temperature", [0, 1.0])
def test_the_value_is_of_the_type_asked_for(model: Model, temperature: float) -> None:
    person = value_of(model, Person, temperature=temperature, seed=3)
    assert isinstance(person, Person)
    numbers = value_of(
        model, Annotated[list[int], Field(min_length=2, max_length=3)], temperature=temperature
    )
    assert len(numbers) in (2, 3) and all(isinstance(number, int) for number in numbers)
    assert value_of(model, Literal["yes", "no"], temperature=temperature) in ("yes", "no")


def test_a_schema_gives_json_and_is_closed_unless_told_otherwise(model: Model) -> None:
    value = value_of(model, SCHEMA)
    assert list(value) == ["n"] and value["n"] <= 99
    assert not ResponseFormat.of(SCHEMA).grammar.accepts('{"n": 1, "m": 2}')
    assert ResponseFormat.of(SCHEMA, closed=False).grammar.accepts('{"n": 1, "m": 2}')


def test_a_grammar_gives_text_or_the_value_of_its_schema(model: Model) -> None:
    assert value_of(model, Grammar.from_choices(["north", "south"])) in ("north", "south")
    assert value_of(model, Grammar.from_json_schema({"const": [1, "ü"]})) == [1, "ü"]


class Unfinished(BaseModel):
    thing: Missing  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("response_format", "kind", "message"),
    [
        (
            {"type": "string", "pattern": "(?=a)b"},
            SchemaError,
            None,
        ),
        (
            {"type": "integer", "minimum": 5, "maximum": 3},
            SchemaError,
            "$: no value satisfies this schema. Loosen what excludes everything.",
        ),
        (
            False,
            SchemaError,
            "$: no value satisfies this schema. Loosen what excludes everything.",
        ),
        (
            "Person",
            OptionError,
            "response_format: 'Person' is a text. Give a JSON Schema, a pydantic model, a type or a Grammar.",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused_before_the_first_token(
    model: Model,
    monkeypatch: pytest.MonkeyPatch,
    response_format: Any,
    kind: type[ChatwrapError],
    message: str | None,
) -> None:
    monkeypatch.setattr(model.llama, "eval", lambda _: pytest.fail("evaluated"))
    with pytest.raises(kind) as error:
        model.generate(QUESTION, response_format=response_format)
    assert message is None or str(error.value) == message


@pytest.mark.parametrize("form", [5, object(), Unfinished])
def test_what_is_no_type_is_refused(form: Any) -> None:
    with pytest.raises(OptionError) as error:
        ResponseFormat.of(form)
    assert str(error.value).startswith("response_format: ")
    assert str(error.value).endswith("Give a JSON Schema, a pydantic model, a type or a Grammar.")


def test_what_json_does_not_have_is_refused() -> None:
    with pytest.raises(SchemaError) as error:
        ResponseFormat.of(Callable[[], int])
    assert str(error.value).endswith("Choose types that JSON has.")


def test_a_finished_grammar_takes_no_options() -> None:
    with pytest.raises(OptionError) as error:
        ResponseFormat.of(Grammar.get("json"), closed=False)
    assert str(error.value) == (
        "response_format: a finished grammar takes no options. Give them where it is made."
    )


def test_a_grammar_and_a_response_format_exclude_each_other(model: Model) -> None:
    with pytest.raises(OptionError) as error:
        model.generate(QUESTION, response_format=SCHEMA, grammar=Grammar.get("json"))
    assert str(error.value) == "response_format: given together with a grammar. Give one of them."


def test_an_answer_that_was_cut_is_an_error_that_keeps_its_text(model: Model) -> None:
    generation = model.generate(QUESTION, response_format=Person, temperature=0, max_tokens=4)
    with pytest.raises(AnswerError) as error:
        list(generation)
    assert str(error.value) == (
        "answer: it was cut after 4 tokens, before it was complete. "
        "Raise max_tokens, or load the model with a larger n_ctx."
    )
    assert error.value.text == generation.result.text != ""
    assert (generation.result.finish_reason, generation.result.value) == ("length", None)
    copied = pickle.loads(pickle.dumps(error.value))
    assert (str(copied), copied.text) == (str(error.value), error.value.text)


def test_an_answer_complete_at_its_last_token_is_whole(model: Model) -> None:
    grammar = Grammar.from_json_schema({"const": {"a": 1}}, whitespace="compact")
    n_tokens = len(model.complete(QUESTION, response_format=grammar, temperature=0).token_ids) - 1
    result = model.complete(QUESTION, response_format=grammar, temperature=0, max_tokens=n_tokens)
    assert (result.finish_reason, result.value) == ("length", {"a": 1})


def test_stops_and_aborts_are_told(model: Model) -> None:
    with pytest.raises(AnswerError) as error:
        value_of(model, {"const": "one two three"}, stop="two")
    assert str(error.value).startswith("answer: the stop 'two' cut it after ")
    assert error.value.text == '"one '
    calls = iter([False] * 5)
    with pytest.raises(AnswerError, match=r"^answer: it was aborted after \d tokens, before it"):
        value_of(model, Person, abort=lambda: next(calls, True))
    with model.generate(QUESTION, response_format=Person) as opened:
        next(opened)
    assert (opened.result.finish_reason, opened.result.value) == ("abort", None)


def test_what_the_type_itself_refuses_is_told(model: Model) -> None:
    with pytest.raises(AnswerError) as error:
        value_of(model, Picky)
    assert str(error.value) == "answer: it isn't valid: $.name: Value error, no name pleases."


def test_what_the_grammar_leaves_open_is_validated() -> None:
    schema = {"type": "string", "pattern": "^(?=.*x)[a-z]+$"}
    form = ResponseFormat.of(schema, unsupported="relax")
    assert not form.grammar.report.is_exact
    assert form.value('"axb"') == "axb"
    with pytest.raises(AnswerError) as error:
        form.value('"abc"')
    assert str(error.value) == "answer: it isn't valid: $: 'abc' does not match '^(?=.*x)[a-z]+$'."


def test_partial_values_grow_into_the_value(model: Model) -> None:
    generation = model.generate(QUESTION, response_format=Person, temperature=0, max_tokens=100)
    seen = [generation.partial_value for _ in generation]
    assert seen[0] in (None, {})
    assert seen[-1] == generation.result.value.model_dump(exclude_unset=True)
    names = [value["name"] for value in seen if value and "name" in value]
    assert all(later.startswith(earlier) for earlier, later in pairwise(names))
    plain = model.generate(QUESTION, max_tokens=1)
    next(plain)
    assert plain.partial_value is None


def test_a_session_returns_and_streams_the_value(model: Model) -> None:
    session = ChatSession(model, system_prompt="")
    person = session.prompt("A person, please.", response_format=Person, temperature=0)
    assert isinstance(person, Person)
    *partial, last = session.stream_values("Another.", response_format=Person, temperature=0)
    assert isinstance(last, Person) and all(isinstance(value, dict) for value in partial)
    assert [value for n, value in enumerate(partial) if value in partial[:n]] == []
    assert [item.type for item in session.history] == ["user", "model"] * 2
    number = asyncio.run(session.aprompt("A number.", response_format={"type": "integer", "maximum": 9}))
    assert isinstance(number, int)


def test_a_failed_structured_prompt_leaves_the_history(model: Model) -> None:
    session = ChatSession(model, system_prompt="")
    with pytest.raises(AnswerError):
        session.prompt("A person.", response_format=Person, temperature=0, max_tokens=3)
    assert session.history == ()
    assert isinstance(session.prompt("Hello.", temperature=0, max_tokens=3), str)
