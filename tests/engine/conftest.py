from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chatwrap.engine.model import Model, load_model

CAPITAL = "What is the capital of France?"


@pytest.fixture(scope="session")
def model(smollm_path: Path) -> Iterator[Model]:
    # One thread: on a busy machine, threads that wait for each other cost more than they give.
    with load_model(smollm_path, n_ctx=1024, chat_wrapper="chatml", n_threads=1, n_threads_batch=1) as loaded:
        yield loaded
