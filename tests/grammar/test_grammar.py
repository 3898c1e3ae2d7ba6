from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from chatwrap.errors import FileError, GrammarError, SchemaError, UnknownNameError
from chatwrap.grammar.grammar import Grammar
from tests.grammar.llama_oracle import LlamaOracle

CASES = json.loads(Path(__file__).parent.parent.joinpath("cases/ready_made_grammars.json").read_text("utf-8"))


def test_every_ready_made_grammar_has_examples() -> None:
    assert sorted(CASES) == Grammar.names()


@pytest.mark.parametrize("name", CASES)
def test_ready_made_grammars_accept_and_reject_their_examples(name: str) -> None:
    grammar = Grammar.get(name)
    oracle = LlamaOracle(grammar.gbnf)
    for wanted, texts in ((True, CASES[name]["accepts"]), (False, CASES[name]["rejects"])):
        assert [text for text in texts if grammar.accepts(text) is not wanted] == []
        assert [text for text in texts if oracle.accepts(text) is not wanted] == []


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError) as caught:
        Grammar.get("jsn")
    assert str(caught.value) == ("No grammar named 'jsn'. Did you mean 'json'? Grammar.names() lists all.")


def test_from_file_names_the_file_in_its_faults(tmp_path: Path) -> None:
    path = tmp_path / "x.gbnf"
    path.write_text("root ::= x\n")
    with pytest.raises(GrammarError) as caught:
        Grammar.from_file(path)
    assert str(caught.value) == (
        f"{path}:1:10: root: no rule is named 'x'. Define it, or correct the name.\n"
        "  root ::= x\n           ^"
    )
    with pytest.raises(FileError):
        Grammar.from_file(tmp_path / "none.gbnf")


class Person(BaseModel):
    name: Annotated[str, Field(min_length=1)]
    age: Annotated[int, Field(ge=0, lt=150)]
    friends: list[Person] = []


def test_from_pydantic_follows_recursion_and_bounds() -> None:
    grammar = Grammar.from_pydantic(Person)
    assert grammar.accepts('{"name": "A", "age": 3, "friends": [{"name": "B", "age": 149}]}')
    assert not grammar.accepts('{"name": "A", "age": 150}')
    assert not grammar.accepts('{"name": "", "age": 1}')
    assert grammar.report.is_exact


def test_from_pydantic_takes_any_type_pydantic_knows() -> None:
    assert Grammar.from_pydantic(list[int]).accepts("[1, 2]")


def test_equal_schemas_are_converted_once() -> None:
    assert Grammar.from_json_schema({"type": "null"}) is Grammar.from_json_schema('{"type": "null"}')


def test_a_schema_that_is_no_json_is_refused() -> None:
    with pytest.raises(SchemaError) as caught:
        Grammar.from_json_schema({"const": {1, 2}})
    assert str(caught.value) == (
        "$: the schema isn't JSON: Object of type set is not JSON serializable. Pass plain JSON values."
    )


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1))
def test_choices_accept_exactly_the_choices(choices: list[str]) -> None:
    grammar = Grammar.from_choices(choices)
    assert all(grammar.accepts(choice) for choice in choices)
    for probe in {choice[:-1] for choice in choices} | {choice + "x" for choice in choices}:
        assert grammar.accepts(probe) == (probe in choices)


def test_no_choices_are_refused() -> None:
    with pytest.raises(GrammarError) as caught:
        Grammar.from_choices([])
    assert str(caught.value) == (
        "root: it can never match: every way through it needs itself or an empty class. Give it a way to end."
    )


def test_to_llama_gives_the_object_of_llama_cpp() -> None:
    assert "root ::=" in Grammar.get("boolean").to_llama()._grammar


def test_prefixes_are_followed_chunk_by_chunk() -> None:
    matcher = Grammar.from_json_schema({"enum": ["abc"]}).matcher()
    assert matcher.feed('"a') and matcher.feed("b")
    assert not matcher.feed("x")
    assert not matcher.is_possible
