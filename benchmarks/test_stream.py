"""What a generated token costs besides the model, early and late; joined pieces are the floor."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from chatwrap import load_chat_wrapper, load_vocabulary
from chatwrap.engine.bench import conversation, prose
from chatwrap.output.stop import StopDetector
from chatwrap.output.utf8 import Utf8Decoder
from tests import sources


@pytest.mark.parametrize("position", [100, 1000, 8000])
def test_a_hundred_tokens(benchmark: BenchmarkFixture, position: int) -> None:
    benchmark.group = "decode and stop, 100 tokens"
    vocabulary = load_vocabulary(sources.smollm_path())
    triggers = load_chat_wrapper("chatml").generate_context_state(conversation(1)).stop_generation_triggers
    ids = vocabulary.tokenize(prose(60_000))

    def begun() -> tuple[tuple[StopDetector, Utf8Decoder], dict[str, object]]:
        detector, decoder = StopDetector(triggers, vocabulary, ["\nUser:"]), Utf8Decoder()
        for token_id in ids[:position]:
            decoder.feed(detector.feed(token_id))
        return (detector, decoder), {}

    def feed(detector: StopDetector, decoder: Utf8Decoder) -> None:
        for token_id in ids[position : position + 100]:
            decoder.feed(detector.feed(token_id))

    benchmark.pedantic(feed, setup=begun, rounds=20)


def test_floor(benchmark: BenchmarkFixture) -> None:
    benchmark.group = "decode and stop, 100 tokens"
    vocabulary = load_vocabulary(sources.smollm_path())
    ids = vocabulary.tokenize(prose(60_000))[100:200]
    benchmark(lambda: b"".join(map(vocabulary.piece, ids)).decode())
