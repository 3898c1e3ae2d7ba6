"""Text to token ids: a megabyte that was never seen, and the next turn of conversations of growing length.

Run: ``uv run --group peers pytest benchmarks/test_encode.py``. Each group has its floor: llama_tokenize.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from chatwrap import Encoder, LlamaText, load_chat_wrapper, load_vocabulary
from chatwrap.chat.history import ChatHistory
from chatwrap.engine.bench import conversation, prose
from chatwrap.engine.gguf import read_metadata
from chatwrap.engine.vocabulary import Vocabulary
from chatwrap.tokens.memory import Memory
from tests import sources

TEXT = prose(1_000_000)
BYTE_PAIRS = tuple(
    name
    for name in sources.VOCABULARY_NAMES
    if name not in ("baichuan", "bert-bge", "llama-spm", "nomic-bert-moe", "phi-3")
)
_KEYS = ("tokenizer.ggml.tokens", "tokenizer.ggml.merges")


def path_of(name: str) -> Path:
    if name == "smollm":
        return sources.smollm_path()
    return sources.vocabulary_folder() / f"ggml-vocab-{name}.gguf"


def chatwrap(vocabulary: Vocabulary, _: Path) -> Callable[[], object]:
    vocabulary.fast_encoder()
    return lambda: Encoder(vocabulary, (), Memory(0)).encode(LlamaText(TEXT))


def llama_tokenize(vocabulary: Vocabulary, _: Path) -> Callable[[], object]:
    return lambda: vocabulary._native_ids(TEXT.encode())


def tokenizers(_: Vocabulary, path: Path) -> Callable[[], object]:
    """Hugging Face's, of the same tokens and merges, with GPT-2's words."""
    peer = pytest.importorskip("tokenizers")
    found = read_metadata(path, _KEYS)
    ids = {token.decode("utf-8", "replace"): index for index, token in enumerate(found[_KEYS[0]])}
    pairs = [tuple(merge.decode().split(" ", 1)) for merge in found[_KEYS[1]]]
    usable = [pair for pair in pairs if {*pair, "".join(pair)} <= ids.keys()]
    model = peer.Tokenizer(peer.models.BPE(ids, usable))
    model.pre_tokenizer = peer.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return lambda: model.encode(TEXT, add_special_tokens=False)


@pytest.mark.parametrize("way", [chatwrap, llama_tokenize, tokenizers])
@pytest.mark.parametrize("name", ["smollm", *BYTE_PAIRS])
def test_cold(
    benchmark: BenchmarkFixture, name: str, way: Callable[[Vocabulary, Path], Callable[[], object]]
) -> None:
    if way is tokenizers and name not in ("smollm", "gpt-2"):
        pytest.skip("the words of its pre-tokenizer aren't GPT-2's")
    benchmark.group = f"cold encode, 1 MB: {name}"
    path = path_of(name)
    benchmark.pedantic(way(load_vocabulary(path), path), rounds=3, warmup_rounds=1)


@pytest.mark.parametrize("n_messages", [10, 50, 200, 500])
@pytest.mark.parametrize("way", ["chatwrap", "llama_tokenize"])
def test_next_turn(benchmark: BenchmarkFixture, n_messages: int, way: str) -> None:
    benchmark.group = f"next turn: encode, {n_messages} messages"
    vocabulary, wrapper = load_vocabulary(sources.smollm_path()), load_chat_wrapper("chatml")
    history = conversation(n_messages)
    encoder = Encoder(vocabulary, wrapper.control_texts, Memory())

    def text(items: ChatHistory) -> LlamaText:
        return wrapper.generate_context_state(items).context_text

    encoder.encode(text(history))
    longer = iter([text((*history, *conversation(2, start=n)[1:])) for n in range(12)])
    ways: dict[str, Callable[[LlamaText], list[int]]] = {
        "chatwrap": encoder.encode,
        "llama_tokenize": lambda prompt: vocabulary._native_ids(str(prompt).encode(), special=True),
    }
    benchmark.pedantic(lambda: ways[way](next(longer)), rounds=10)
