"""Sampling under a grammar, against the embedded model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from chatwrap import ChatModelFunctionCall, Grammar
from chatwrap.engine.constrained import ConstrainedSampler, NativeGrammar
from chatwrap.engine.model import Model, load_model
from chatwrap.errors import GrammarError

QUESTION = [{"type": "user", "text": "Answer with a short JSON value."}]
STRING = 'root ::= [^"]* "\\""'

WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "sampled": {"temperature": 1.0, "seed": 5},
    "untruncated": {"temperature": 1.5, "seed": 6, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    "penalised": {"temperature": 0.8, "seed": 7, "repeat_penalty": 1.3, "presence_penalty": 0.5},
    "mirostat": {"temperature": 1.0, "seed": 8, "mirostat_mode": 2},
}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


SHORT = {"type": "string", "maxLength": 12}
SCHEMAS: list[Any] = [
    {"type": "integer", "minimum": 3, "maximum": 17},
    {"type": "number", "exclusiveMinimum": -1, "exclusiveMaximum": 1, "multipleOf": 0.25},
    {"enum": ["żółw", "日本\n語", "a\"b\\c", None, 3, {"k": [1]}]},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [SHORT, {"type": "integer"}], "items": False, "minItems": 2},
    _object(name=SHORT, age={"type": "integer", "minimum": 0, "maximum": 120}),
    _object(kind={"const": "circle"}, radius={"type": "integer", "minimum": 1, "maximum": 99}),
    {"type": "string", "pattern": "^[A-Z]{2}-\\d{3}$"},
    {"anyOf": [{"type": "null"}, _object(tag=SHORT)]},
    {"oneOf": [_object(a={"const": 1}), _object(b={"const": 2})]},
]  # fmt: skip


@pytest.fixture(scope="module")
def model(smollm_path: Path) -> Iterator[Model]:
    with load_model(smollm_path, n_ctx=256, chat_wrapper="chatml", n_threads=1, n_threads_batch=1) as loaded:
        yield loaded


def text_of(model: Model, grammar: Any, **options: Any) -> str:
    return model.complete(QUESTION, **{"temperature": 0, "grammar": grammar, **options}).text


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_every_answer_is_valid(model: Model, schema: Any, way: str) -> None:
    grammar = Grammar.from_json_schema(schema, closed=True, whitespace="compact")
    result = model.complete(QUESTION, grammar=grammar, max_tokens=120, **WAYS[way])
    assert result.finish_reason == "stop"
    assert grammar.accepts(result.text)
    jsonschema.Draft202012Validator(schema).validate(json.loads(result.text))


@pytest.mark.parametrize("way", WAYS)
def test_a_required_call_can_be_read(model: Model, way: str) -> None:
    schema = _object(city=SHORT, days={"type": "integer", "minimum": 1, "maximum": 9})
    functions = {"get_weather": {"params": schema}, "get_time": {}}
    grammar = Grammar.from_functions(functions, model.chat_wrapper.settings)
    result = model.complete(QUESTION, functions=functions, grammar=grammar, max_tokens=80, **WAYS[way])
    (call,) = result.response.response
    assert isinstance(call, ChatModelFunctionCall) and call.name in functions
    if call.name == "get_weather":
        jsonschema.validate(call.arguments, schema)


@pytest.mark.parametrize("way", WAYS)
def test_a_grammar_may_allow_one_text_only(model: Model, way: str) -> None:
    only = 'Zażółć "gęślą" jaźń: 你好 🦙'
    assert text_of(model, Grammar.from_choices([only]), **WAYS[way]) == only


def test_the_likeliest_allowed_token_is_taken(model: Model) -> None:
    """The same as masking first, which llama.cpp's own chain does."""
    llama, grammar = model.llama, 'root ::= ("M" | "N" | "Z" | "9")+ "!"'
    ours = model.complete(QUESTION, grammar=grammar, temperature=0, max_tokens=6).token_ids
    llama.reset()
    theirs = llama.generate(model.prompt_ids(QUESTION), temp=0, grammar=Grammar.from_gbnf(grammar).to_llama())
    assert ours == tuple(next(theirs) for _ in ours)


def test_refused_draws_do_not_bend_the_distribution(model: Model) -> None:
    """Of A and B, far less likely than all that is refused, each comes as often as their logits say."""
    ids = [model.vocabulary.tokenize(letter)[0] for letter in "AB"]
    logits = np.full(model.vocabulary.n_tokens, -2.0, dtype=np.single)
    logits[ids] = np.log([3.0, 1.0])
    options = {"temp": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical_p": 1.0}
    grammar = NativeGrammar(model.vocabulary, Grammar.from_gbnf("root ::= [AB]+"))
    chain = model.llama._init_sampler(**options)
    sampler = ConstrainedSampler(model.vocabulary, grammar, chain, masks_first=False)
    drawn = [sampler.sample(logits.copy()) for _ in range(400)]
    n_a, n_b = map(drawn.count, ids)
    assert n_a + n_b > 200
    assert 0.66 < n_a / (n_a + n_b) < 0.84


def test_a_sampled_answer_repeats_with_its_seed(model: Model) -> None:
    def texts() -> str:
        model.llama.reset()
        return text_of(model, STRING, temperature=1.2, seed=11, max_tokens=10)

    assert texts() == texts()


def test_control_tokens_are_never_sampled(model: Model) -> None:
    marker = "<|im_start|>"
    control = model.vocabulary.tokenize(marker, special=True)[0]
    result = model.complete(QUESTION, grammar=f'root ::= "{marker}"', temperature=0)
    assert result.text == marker
    assert control not in result.token_ids
    favoured = model.complete(
        QUESTION, grammar=STRING, logit_bias={control: 1e6}, temperature=0, max_tokens=5
    )
    assert control not in favoured.token_ids


def test_the_end_is_allowed_where_the_grammar_is_complete_only(model: Model) -> None:
    end = {2: 1e6, 0: 1e6}
    assert text_of(model, 'root ::= "a" ("b" "c")? "d"*', logit_bias=end) == "a"
    assert text_of(model, 'root ::= "ab" "c"', logit_bias=end) == "abc"


def test_biases_and_processors_are_followed(model: Model) -> None:
    grammar = 'root ::= "red" | "blue" | "green"'
    first = text_of(model, grammar)
    refused = {model.vocabulary.tokenize(first[:n])[0]: -1e6 for n in range(1, len(first) + 1)}
    assert text_of(model, grammar, logit_bias=refused) != first
    seen: list[int] = []

    def count(ids: Any, logits: Any) -> Any:
        seen.append(len(ids))
        return logits

    n_prompt = len(model.prompt_ids(QUESTION))
    n_tokens = len(model.complete(QUESTION, grammar=grammar, logits_processor=count).token_ids)
    assert seen == list(range(n_prompt, n_prompt + n_tokens))


@pytest.mark.parametrize("way", WAYS)
def test_a_dead_end_is_an_error(model: Model, way: str) -> None:
    def forbid_all(_: Any, logits: Any) -> Any:
        return np.full_like(logits, -np.inf)

    def poison(_: Any, logits: Any) -> Any:
        return np.full_like(logits, np.nan)

    for processor in (forbid_all, poison):
        with pytest.raises(GrammarError) as error:
            text_of(model, 'root ::= "a"+', logits_processor=processor, **WAYS[way])
        assert str(error.value) == (
            "grammar: no token can go on with the answer. "
            "Loosen the grammar, or the logits processors that forbid tokens."
        )
    assert text_of(model, 'root ::= "a"') == "a"


def test_an_error_of_a_processor_is_raised_as_it_is(model: Model) -> None:
    def fail(*_: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        text_of(model, 'root ::= "a"', logits_processor=fail)


def test_only_what_is_new_is_evaluated(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[int] = []
    evaluate = model.llama.eval
    first = text_of(model, STRING, max_tokens=3)
    monkeypatch.setattr(model.llama, "eval", lambda ids: (evaluated.append(len(ids)), evaluate(ids)))
    assert text_of(model, STRING, max_tokens=3) == first
    assert evaluated == [1, 1, 1]
    evaluated.clear()
    once = text_of(model, STRING, max_tokens=1), text_of(model, STRING, max_tokens=1)
    assert evaluated == [1]
    assert once[0] == once[1] == text_of(model, STRING, max_tokens=1)


def test_a_stop_string_ends_an_answer_early(model: Model) -> None:
    assert text_of(model, 'root ::= "one two three"', stop="two") == "one "
