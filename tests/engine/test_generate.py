from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest

from chatwrap.engine.evaluate import n_common
from chatwrap.engine.model import Model, load_model
from chatwrap.engine.vocabulary import Vocabulary
from chatwrap.errors import ChatwrapError, ContextOverflowError, GrammarError, ModelError

from .conftest import CAPITAL

QUESTION = [{"type": "user", "text": CAPITAL}]
ANSWER = "The capital of France is Paris."
STORY = [{"type": "user", "text": "Count from one to one hundred."}]
LONG = [{"type": "user", "text": "word " * 60}]


def greedy(model: Model, **options: Any) -> str:
    return model.complete(QUESTION, temperature=0, **options).text


def test_chunks_joined_are_the_result(model: Model) -> None:
    generation = model.generate(QUESTION, temperature=0)
    chunks = list(generation)
    assert "".join(chunk.text for chunk in chunks) == generation.result.text == ANSWER
    assert sum((chunk.token_ids for chunk in chunks), ()) == generation.result.token_ids


def test_a_cached_prompt_gives_the_same_answer(model: Model) -> None:
    model.complete(STORY, max_tokens=1)
    assert greedy(model) == greedy(model) == ANSWER
    one = model.complete(QUESTION, temperature=0, max_tokens=1).text
    assert model.complete(QUESTION, temperature=0, max_tokens=1).text == one == "The"


def test_only_what_is_new_is_evaluated(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[int] = []
    evaluate = model.llama.eval
    greedy(model)
    monkeypatch.setattr(model.llama, "eval", lambda tokens: (evaluated.append(len(tokens)), evaluate(tokens)))
    longer = [*QUESTION, {"type": "model", "response": [ANSWER]}, {"type": "user", "text": "And of Italy?"}]
    result = model.complete(longer, temperature=0, max_tokens=3)
    assert evaluated[0] < result.n_prompt_tokens - 20
    assert evaluated[1:] == [1, 1]


def test_seeds(model: Model) -> None:
    def tokens(seed: int | None) -> tuple[int, ...]:
        model.llama.reset()
        return model.complete(STORY, temperature=1.5, seed=seed, max_tokens=8).token_ids

    assert tokens(7) == tokens(7)
    assert len({tokens(seed) for seed in (1, 2, 3)}) > 1
    tokens(7)
    after = tokens(None), tokens(None)
    tokens(7)
    assert (tokens(None), tokens(None)) == after
    assert after[0] != after[1]


def test_caller_stops_add_to_the_formats(model: Model) -> None:
    result = model.complete(QUESTION, temperature=0, stop=["", "France is", "nowhere"])
    assert result.text == "The capital of "
    assert result.stop is not None
    assert (result.stop.reason, result.stop.text) == ("stop_string", "France is")
    assert model.complete(QUESTION, temperature=0, stop="zzz").text == ANSWER


def test_max_tokens_gives_what_was_held_back(model: Model) -> None:
    result = model.complete(QUESTION, temperature=0, max_tokens=2, stop=" capital of the world")
    assert (result.text, result.finish_reason, result.stop) == ("The capital", "length", None)


def test_overflow_is_an_error_before_evaluation(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model.llama, "eval", lambda _: pytest.fail("evaluated"))
    with pytest.raises(ContextOverflowError) as error:
        model.complete([{"type": "user", "text": "word " * 1100}])
    assert str(error.value) == (
        "prompt: 1110 tokens, but the context holds 1024 and needs one free to answer. "
        "Shorten the conversation, or load the model with a larger n_ctx."
    )


def test_a_huge_message_is_refused_without_encoding_it(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Vocabulary, "encoder_for", lambda *_: pytest.fail("encoded"))
    with pytest.raises(ContextOverflowError, match=r"^prompt: at least \d+ tokens, but"):
        model.complete([{"type": "user", "text": "word " * 600_000}])


def test_abort_by_event_function_and_close(model: Model) -> None:
    event = threading.Event()
    generation = model.generate(STORY, temperature=0, abort=event)
    first = next(generation)
    event.set()
    rest = list(generation)
    assert generation.result.finish_reason == "abort"
    assert generation.result.text == first.text + "".join(chunk.text for chunk in rest)
    calls = iter([False, False, False, True])
    assert model.complete(STORY, abort=lambda: next(calls, False)).finish_reason == "abort"
    with model.generate(STORY) as opened:
        next(opened)
    assert opened.result.finish_reason == "abort"
    assert greedy(model) == ANSWER


def test_a_long_prompt_is_aborted_between_batches(smollm_path: Path) -> None:
    with load_model(smollm_path, n_ctx=128, n_batch=16, n_threads=1, n_threads_batch=1) as model:
        model.complete(QUESTION, max_tokens=1)
        calls = iter([False, False])
        result = model.complete(LONG, abort=lambda: next(calls, True))
        n_shared = len(["<|im_start|>", "user", "\n"])
        assert (result.finish_reason, result.token_ids, model.llama.n_tokens) == ("abort", (), n_shared + 16)
        whole = model.complete(LONG, temperature=0, max_tokens=3).text
        model.llama.reset()
        assert model.complete(LONG, temperature=0, max_tokens=3).text == whole
        assert greedy(model) == ANSWER


def test_a_rewound_context_is_not_sampled_from(smollm_path: Path) -> None:
    """The logits are still those of the prompt that was dropped."""
    with load_model(smollm_path, n_ctx=128, n_batch=16, n_threads=1, n_threads_batch=1) as model:
        model.complete(QUESTION, max_tokens=1)
        calls = iter([False])
        assert model.complete(LONG, abort=lambda: next(calls, True)).finish_reason == "abort"
        kept = model.llama.input_ids[: model.llama.n_tokens].tolist()
        after_rewind = next(model.llama.generate(kept, temp=0))
        model.llama.reset()
        assert after_rewind == next(model.llama.generate(kept, temp=0))


def test_a_result_is_asked_for_too_early(model: Model) -> None:
    generation = model.generate(QUESTION)
    with pytest.raises(ModelError) as error:
        _ = generation.result
    assert str(error.value) == ("result: the answer hasn't ended. Iterate over it to its end, or close it.")


def test_a_new_answer_ends_an_older_one_of_the_same_thread(model: Model) -> None:
    older = model.generate(STORY)
    next(older)
    assert greedy(model) == ANSWER
    with pytest.raises(ModelError) as error:
        next(older)
    assert str(error.value) == ("answer: the model has begun another one since. Read one to its end first.")
    assert greedy(model) == ANSWER


def test_threads_wait_for_each_other(model: Model) -> None:
    texts: list[str] = []
    threads = [threading.Thread(target=lambda: texts.append(greedy(model))) for _ in range(3)]
    generation = model.generate(QUESTION, temperature=0)
    first = next(generation).text
    for thread in threads:
        thread.start()
    texts.append(first + "".join(chunk.text for chunk in generation))
    for thread in threads:
        thread.join()
    assert texts == [ANSWER] * 4


def test_waiting_for_another_thread_can_be_aborted(model: Model) -> None:
    results: list[str] = []
    abort = threading.Event()
    with model.generate(QUESTION, temperature=0) as generation:
        next(generation)
        waiting = threading.Thread(
            target=lambda: results.append(model.complete(QUESTION, abort=abort).finish_reason)
        )
        waiting.start()
        abort.set()
        waiting.join()
        assert results == ["abort"]
        assert "The" + "".join(chunk.text for chunk in generation) == ANSWER


def test_an_error_in_llama_cpp_leaves_the_model_usable(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(batch: object) -> None:
        raise RuntimeError("llama_decode returned 1")

    with monkeypatch.context() as patch:
        patch.setattr(model.llama._ctx, "decode", fail)
        with pytest.raises(ModelError) as error:
            model.complete(STORY)
    assert str(error.value) == (
        f"{model.llama.model_path}: llama.cpp failed: llama_decode returned 1. "
        "If memory is short, load the model with a smaller n_ctx or n_batch."
    )
    assert greedy(model) == ANSWER


def _raise_key_error(ids: object, logits: object) -> object:
    raise KeyError("mine")


def test_logits_processors_and_biases_work_together(model: Model) -> None:
    seen: list[int] = []

    def forbid_the(ids: np.ndarray, logits: np.ndarray) -> np.ndarray:
        seen.append(len(ids))
        logits[504] = -np.inf
        return logits

    text = greedy(model, logits_processor=forbid_the, logit_bias={7042: -100}, max_tokens=8)
    assert not text.startswith("The ") and "Paris" not in text
    assert seen == list(range(16, 24))
    with pytest.raises(KeyError, match="mine"):
        greedy(model, logits_processor=_raise_key_error)
    assert greedy(model) == ANSWER


def test_a_grammar_is_followed_even_against_endless_biases(model: Model) -> None:
    grammar = 'root ::= "Rome" | "Paris"'
    assert greedy(model, grammar=grammar) == "Paris"
    assert greedy(model, grammar=llama_cpp.LlamaGrammar.from_string(grammar)) == "Paris"
    everything = {token_id: -float("inf") for token_id in range(model.llama.n_vocab())}
    assert greedy(model, grammar=grammar, logit_bias=everything) in ("Rome", "Paris")


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ("", "grammar: no rule is named 'root'. Name the rule that matches everything 'root'."),
        (
            "root ::= (",
            "grammar:1:11: expected ')' for the '(' at character 10, found the end.\n"
            "  root ::= (\n            ^",
        ),
        ('start ::= "a"', "grammar: no rule is named 'root'. Name the rule that matches everything 'root'."),
    ],
)
def test_an_unreadable_grammar_is_refused(
    model: Model, grammar: str, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(GrammarError) as error:
        greedy(model, grammar=grammar)
    assert str(error.value) == message
    assert capfd.readouterr() == ("", "")


def test_a_grammar_that_would_end_the_process_is_refused(model: Model) -> None:
    for harmful in ("root ::= root", "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000):
        with pytest.raises(GrammarError):
            greedy(model, grammar=harmful)


def test_a_bias_beyond_the_vocabulary_is_refused(model: Model) -> None:
    with pytest.raises(ChatwrapError) as error:
        greedy(model, logit_bias={49152: 1})
    assert str(error.value) == "logit_bias: no token 49152 in a vocabulary of 49152. Ids go up to 49151."


@pytest.mark.parametrize(
    "options",
    [
        {"mirostat_mode": 1},
        {"mirostat_mode": 2},
        {"top_k": 0, "top_p": 0.0, "min_p": 1.0, "typical_p": 0.5},
        {"temperature": 3e38, "repeat_penalty": 1e-9, "presence_penalty": 2, "frequency_penalty": -2},
        {"seed": -1},
        {"seed": 2**40},
    ],
)
def test_extreme_options_are_survived(model: Model, options: dict[str, Any]) -> None:
    assert model.complete(STORY, max_tokens=3, **options).n_completion_tokens <= 3


@pytest.mark.parametrize(
    ("known", "ids", "n"), [([1, 2, 3], [1, 2, 4, 5], 2), ([], [1], 0), ([1, 2], [1, 2, 3], 2), ([1], [], 0)]
)
def test_n_common(known: list[int], ids: list[int], n: int) -> None:
    assert n_common(np.array(known, dtype=np.intc), np.array(ids, dtype=np.intc)) == n


def test_an_answer_inside_an_answer_is_refused(model: Model) -> None:
    ask: Callable[..., Any] = lambda ids, logits: greedy(model)  # noqa: E731
    with pytest.raises(ModelError) as error:
        greedy(model, logits_processor=ask)
    assert str(error.value) == (
        "model: asked for an answer by a callback of an answer. Ask after it has ended."
    )
    assert greedy(model) == ANSWER
