"""Whole answers under a constraint: calls by choice, thoughts, a response; special tokens by id."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import jsonschema
import numpy as np
import pytest

from chatwrap.chat.functions import as_functions
from chatwrap.chat.model import NamedFunction, ToolChoice
from chatwrap.chat.syntax import (
    ChatWrapperSettings,
    FunctionCallSyntax,
    FunctionResultSyntax,
    FunctionsSyntax,
    ParallelCallsSyntax,
    SegmentsSyntax,
    SegmentSyntax,
)
from chatwrap.chat.text import control
from chatwrap.engine.calls import CallConstraint, TokenConstraint
from chatwrap.engine.constrained import Candidates
from chatwrap.engine.evaluate import Evaluator
from chatwrap.engine.marks import TokenMarks
from chatwrap.engine.model import Model
from chatwrap.engine.response_format import ResponseFormat
from chatwrap.engine.sampling import SamplingOptions
from chatwrap.engine.turns import turns_of
from chatwrap.errors import ChatwrapError

FUNCTIONS = as_functions(
    {
        "get_weather": {
            "params": {
                "type": "object",
                "properties": {"city": {"type": "string", "maxLength": 12}},
                "required": ["city"],
            }
        },
        "now": {},
    }
)
# <issue_start> and the others are control tokens of SmolLM2's vocabulary.
SETTINGS = ChatWrapperSettings(
    functions=FunctionsSyntax(
        FunctionCallSyntax(
            prefix=control('<issue_start>{"name": "'),
            params_prefix=control('", "arguments": '),
            suffix=control("}<issue_closed>"),
            empty_call_params_placeholder={},
        ),
        FunctionResultSyntax("", ""),
        ParallelCallsSyntax(section_suffix=control("<|im_end|>\n")),
    ),
    segments=SegmentsSyntax(thought=SegmentSyntax(control("<jupyter_text>"), control("<jupyter_code>"))),
)
CALL = '<issue_start>{"name": "get_weather", "arguments": {"city": "Oslo"}}<issue_closed>'
NOW = '<issue_start>{"name": "now", "arguments": {}}<issue_closed>'


def constraint(model: Model, choice: ToolChoice, **options: Any) -> TokenConstraint:
    compiling = {key: options.pop(key) for key in ("opened", "stops", "thoughts") if key in options}
    wanted = CallConstraint(FUNCTIONS, choice, **options)
    return wanted.compiled(SETTINGS, model.vocabulary, **compiling)


def accepted(model: Model, found: TokenConstraint, text: str, *, special: bool = True) -> bool:
    """Whether an answer of these tokens may end; each token is asked for alone and by the mask."""
    native, vocabulary = found.native(model.vocabulary), model.vocabulary
    candidates = Candidates(vocabulary.n_tokens)
    for token_id in vocabulary.tokenize(text, special=special):
        logits = np.zeros(vocabulary.n_tokens, np.single)
        logits[list(native.banned_ids)] = -np.inf
        candidates.fill(logits)
        native.mask(candidates)
        allowed = native.allows(token_id)
        assert allowed == (candidates.logits[token_id] > -np.inf)
        if not allowed:
            return False
        native.accept(token_id)
    end = vocabulary.role_id("EOS")
    assert end is not None
    return native.allows(end)


@pytest.mark.parametrize(
    ("choice", "text", "wanted"),
    [
        ("auto", "Hello, world!", True),
        ("auto", "", True),
        ("auto", f"Hello! {CALL}", True),
        ("auto", CALL + NOW, True),
        ("auto", f"{CALL} text", False),
        ("auto", '<issue_start>{"name": "then', False),
        ("auto", f"<jupyter_text>Should I? {CALL}", False),
        ("auto", f"<jupyter_text>Should I?<jupyter_code>{CALL}", True),
        ("auto", "a<gh_stars>b", False),
        ("required", CALL, True),
        ("required", f"<jupyter_text>I should.<jupyter_code>\n{CALL}", True),
        ("required", f"Hello! {CALL}", False),
        ("required", "", False),
        ("required", CALL.replace("Oslo", "<issue_closed>"), False),
        (NamedFunction("now"), NOW, True),
        (NamedFunction("now"), CALL, False),
        ("none", "Hello!", True),
        ("none", CALL, False),
    ],
)
def test_what_an_answer_may_be(model: Model, choice: ToolChoice, text: str, *, wanted: bool) -> None:
    assert accepted(model, constraint(model, choice), text) is wanted


def test_a_special_token_is_not_its_text(model: Model) -> None:
    assert accepted(model, constraint(model, "auto"), CALL, special=False)
    assert not accepted(model, constraint(model, "required"), CALL, special=False)
    spelled = f"<issue_start>{CALL.removeprefix('<issue_start>').replace('Oslo', '<gh_stars>')}"
    assert not accepted(model, constraint(model, "required"), spelled)


def test_the_prompt_may_have_opened_a_thought(model: Model) -> None:
    found = constraint(model, "required", opened="thought")
    assert accepted(model, found, f"I should.<jupyter_code>{CALL}")
    assert not accepted(model, found, CALL)


def test_thoughts_can_be_left_out(model: Model) -> None:
    found = constraint(model, "required", thoughts=False)
    assert accepted(model, found, CALL)
    assert not accepted(model, found, f"<jupyter_text>Well.<jupyter_code>{CALL}")


def test_the_number_of_calls_is_bounded(model: Model) -> None:
    found = constraint(model, "required", max_parallel_calls=1)
    assert accepted(model, found, CALL)
    assert not accepted(model, found, CALL + NOW)


@pytest.mark.parametrize(
    ("choice", "text", "wanted"),
    [
        ("auto", '{"a": 1}', True),
        ("auto", CALL, True),
        ("auto", '<jupyter_text>Hm.<jupyter_code>{"a": 1}', True),
        ("auto", '{"a": 1}' + CALL, False),
        ("auto", '{"a": "x"}', False),
        ("required", '{"a": 1}', False),
        ("none", '{"a": 1}', True),
        ("none", CALL, False),
    ],
)
def test_a_response_schema_or_calls(model: Model, choice: ToolChoice, text: str, *, wanted: bool) -> None:
    form = ResponseFormat.of({"type": "object", "properties": {"a": {"type": "integer"}}})
    assert accepted(model, constraint(model, choice, response_format=form), text) is wanted


@pytest.mark.parametrize("temperature", [0, 1.0])
@pytest.mark.parametrize("choice", ["required", NamedFunction("get_weather")])
def test_sampled_calls_can_be_read(model: Model, choice: ToolChoice, temperature: float) -> None:
    llama, vocabulary = model.llama, model.vocabulary
    found = constraint(model, choice, max_parallel_calls=1, thoughts=False)
    for seed in range(3):
        options = SamplingOptions(temperature=temperature, seed=seed)
        turn = turns_of(llama).turn()
        evaluator = Evaluator(llama, options, turn, constraint=found)
        prompt = vocabulary.tokenize(f"<|im_start|>user\nWeather in town {seed}?<|im_end|>\n", special=True)
        with turn.taken(lambda: False):
            ids = list(islice(_until_end(evaluator.ids(prompt, lambda: False), model), 80))
        start, end = vocabulary.tokenize("<issue_start><issue_closed>", special=True)
        call = json.loads(b"".join(map(vocabulary.piece, ids[ids.index(start) + 1 : ids.index(end)])))
        schema = FUNCTIONS[call["name"]].parameters or {"maxProperties": 0}
        jsonschema.validate(call["arguments"], schema)


def _until_end(ids: Any, model: Model) -> Any:
    for token_id in ids:
        if model.vocabulary.is_end_of_generation(token_id):
            return
        yield token_id


def test_tokens_that_end_an_answer_are_not_written(model: Model) -> None:
    marks = TokenMarks(model.vocabulary, ["STOP"])
    assert marks.marks.before_stop("a<|im_end|>b") == ("a", "<|im_end|>")
    assert marks.marks.before_stop("a STOP<|im_end|>") == ("a ", "STOP")
    assert marks.spell("x<|im_end|>y") == "xy"
    written = marks.spell("<gh_stars>{<gh_stars>")
    assert written == f"{written[0]}{{{written[0]}" and list(marks.stand_ins) == [
        model.vocabulary.tokenize("<gh_stars>", special=True)[0]
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"tool_choice": "always"},
            "tool_choice: 'always' is none. Give one of auto, none, required, or NamedFunction(name).",
        ),
        (
            {"tool_choice": NamedFunction("nowt")},
            "No function named 'nowt'. Did you mean 'now'? The functions given lists all.",
        ),
        (
            {"functions": {}, "tool_choice": "required"},
            "functions: there is none to call. Give at least one.",
        ),
        ({"max_parallel_calls": 0}, "max_calls: must be from 1 to 1000, not 0."),
    ],
)
def test_what_cannot_be_constrained(model: Model, given: dict[str, Any], message: str) -> None:
    wanted = CallConstraint(**{"functions": FUNCTIONS, **given})
    with pytest.raises(ChatwrapError) as error:
        wanted.compiled(SETTINGS, model.vocabulary)
    assert str(error.value) == message
