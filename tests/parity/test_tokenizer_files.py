"""llama.cpp's own tokenizer tests: texts (``.inp``), and their ids by reference tokenizers (``.out``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatwrap import LlamaText, encode
from chatwrap.engine.vocabulary import Vocabulary
from tests.sources import VOCABULARY_NAMES

WITHOUT_FILES = ("aquila", "baichuan", "gpt-neox", "nomic-bert-moe")
SEPARATOR = "\n__ggml_vocab_test__\n"


@pytest.mark.parametrize(
    "vocabulary_name", [name for name in VOCABULARY_NAMES if name not in WITHOUT_FILES], indirect=True
)
def test_content_has_the_ids_of_the_reference_tokenizer(
    vocabulary: Vocabulary, vocabulary_name: str, vocabulary_folder: Path
) -> None:
    file = vocabulary_folder / f"ggml-vocab-{vocabulary_name}.gguf"
    # Not read_text, which would make the texts' carriage returns newlines.
    texts = file.with_suffix(".gguf.inp").read_bytes().decode().removesuffix(SEPARATOR).split(SEPARATOR)
    lines = file.with_suffix(".gguf.out").read_text(encoding="utf-8").splitlines()
    assert len(texts) == len(lines) > 40
    for text, line in zip(texts, lines, strict=True):
        ids = encode(LlamaText(text), vocabulary)
        started = ids[1:] if vocabulary.adds_bos else ids
        assert started == [int(token_id) for token_id in line.split()], repr(text)


def test_every_vocabulary_of_the_package_is_tested(vocabulary_folder: Path) -> None:
    found = [file.name for file in vocabulary_folder.glob("*.gguf")]
    assert sorted(found) == [f"ggml-vocab-{name}.gguf" for name in VOCABULARY_NAMES]
