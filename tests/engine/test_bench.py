"""The measures measure what they say; how long anything takes is no matter here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chatwrap.engine import bench
from chatwrap.engine.model import Model, load_model
from tests import sources


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with load_model(sources.smollm_path(), n_ctx=512, n_threads=1, n_threads_batch=1) as loaded:
        yield loaded


def test_prose_has_its_size_and_is_the_same_each_time() -> None:
    assert len(bench.prose(10_000)) == 10_000 and bench.prose(10_000) == bench.prose(10_000)


def test_both_ways_of_a_turn_give_the_same_ids(model: Model) -> None:
    history = bench.conversation(5)
    text = bench.formatter(model)(history)
    assert model.llama.tokenize(text.encode(), False, True) == model.prompt_ids(history)


def test_each_measure_has_two_times_and_a_size(model: Model) -> None:
    found = [
        *bench.turns(model, sizes=(2, 4)),
        bench.cold_encode(model, n_bytes=1000),
        *bench.decode(model, positions=(0, 50)),
        bench.tokens_per_second(model, n_tokens=4, n_rounds=1),
        bench.first_token(model, n_turns=4),
    ]
    assert [measure.size for measure in found] == [2, 2, 4, 4, 1000, 0, 50, 4, 4]
    assert all(measure.ours_s > 0 and measure.yardstick_s > 0 for measure in found)
    assert found[0].to_json()["ratio"] == found[0].yardstick_s / found[0].ours_s


def test_the_model_can_be_used_after(model: Model) -> None:
    before = model.complete(bench.conversation(1), temperature=0, max_tokens=5)
    bench.tokens_per_second(model, n_tokens=3, n_rounds=1)
    assert model.complete(bench.conversation(1), temperature=0, max_tokens=5).text == before.text
