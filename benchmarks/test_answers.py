"""Whole answers: tokens per second, and the time to the first token as a conversation grows.

The floors are a loop of llama_decode and a sampler, and llama-cpp-python's `create_chat_completion`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from chatwrap import ChatSession, Model, load_model
from chatwrap.engine import bench
from tests import sources

N_TOKENS = 150


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with load_model(sources.smollm_path(), n_ctx=4096) as loaded:
        yield loaded


@pytest.mark.parametrize("way", ["chatwrap", "llama_decode", "create_chat_completion"])
def test_tokens_per_second(benchmark: BenchmarkFixture, model: Model, way: str) -> None:
    benchmark.group = f"generate {N_TOKENS} tokens"
    prompt, text = model.prompt_ids(bench.conversation(1)), str(bench.conversation(1)[1])
    ways = {
        "chatwrap": lambda: bench.generated(model, N_TOKENS),
        "llama_decode": lambda: bench.decoded(model, prompt, N_TOKENS),
        "create_chat_completion": lambda: model.llama.create_chat_completion(
            [{"role": "user", "content": text}], temperature=0, max_tokens=N_TOKENS
        ),
    }
    benchmark.pedantic(ways[way], rounds=3)


@pytest.mark.parametrize("turn", [2, 10, 40])
def test_time_to_first_token(benchmark: BenchmarkFixture, model: Model, turn: int) -> None:
    benchmark.group = "time to first token, by turn"
    session = ChatSession(model, system_prompt="")
    for earlier in range(1, turn):
        session.prompt(f"{earlier + 10}: say yes.", temperature=0, max_tokens=2)
    stream = session.stream(f"{turn + 10}: say yes.", temperature=0, max_tokens=2)
    benchmark.pedantic(lambda: next(stream), rounds=1)
