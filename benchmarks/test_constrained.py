"""What a token inside a free string costs to sample: freely, under our grammar, under `Llama`'s own.

Only sampling is timed, nothing is evaluated: each round draws again from the logits of one prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from chatwrap.engine.constrained import ConstrainedSampler, NativeGrammar
from chatwrap.engine.evaluate import logits_of
from chatwrap.engine.model import Model, load_model
from chatwrap.grammar.grammar import Grammar
from tests import sources

# A JSON string that never has to end, entered already.
STRING = Grammar.from_gbnf('root ::= character* "\\""\ncharacter ::= [^"\\\\\\x00-\\x1F]')
PROMPT = [{"type": "user", "text": "Tell me a story."}]
CHAINS = {"greedy": {"temp": 0.0}, "sampled": {"temp": 0.8}}


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with load_model(sources.smollm_path(), n_ctx=256, n_threads=1, n_threads_batch=1) as loaded:
        loaded.llama.eval(loaded.prompt_ids(PROMPT))
        yield loaded


def freely(model: Model, chain: dict[str, float]) -> Callable[[], int]:
    sampler = model.llama._init_sampler(**chain)
    return lambda: sampler.sample(model.llama._ctx)


def ours(model: Model, chain: dict[str, float]) -> Callable[[], int]:
    grammar = NativeGrammar(model.vocabulary, STRING)
    sampler = ConstrainedSampler(
        model.vocabulary, grammar, model.llama._init_sampler(**chain), masks_first=False
    )
    return lambda: sampler.sample(logits_of(model.llama))


def theirs(model: Model, chain: dict[str, float]) -> Callable[[], int]:
    sampler = model.llama._init_sampler(**chain, grammar=STRING.to_llama())
    return lambda: sampler.sample(model.llama._ctx)


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("way", [freely, ours, theirs])
def test_token_in_a_free_string(benchmark: BenchmarkFixture, model: Model, way: object, chain: str) -> None:
    benchmark.group = chain
    benchmark(way(model, CHAINS[chain]))  # type: ignore[operator]


def test_mask_of_the_whole_vocabulary(benchmark: BenchmarkFixture, model: Model) -> None:
    sampler = ConstrainedSampler(
        model.vocabulary,
        NativeGrammar(model.vocabulary, STRING),
        model.llama._init_sampler(temp=0.0),
        masks_first=True,
    )
    benchmark(lambda: sampler.sample(logits_of(model.llama)))
