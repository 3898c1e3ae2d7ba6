"""The fast encoder writes what llama.cpp writes: on every vocabulary, and with every pre-tokenizer."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatwrap.engine.encoding import SAMPLE, checked_encoder
from chatwrap.engine.vocabulary import Vocabulary, load_vocabulary
from chatwrap.tokens.bpe import BytePairEncoder
from chatwrap.tokens.pretokenizers import names, pre_tokenizer
from tests.sources import VOCABULARY_NAMES
from tests.tokens.look_alikes import WORDS

OTHER_KINDS = ("baichuan", "bert-bge", "llama-spm", "nomic-bert-moe", "phi-3")
BYTE_PAIRS = tuple(name for name in VOCABULARY_NAMES if name not in OTHER_KINDS)
EACH = pytest.mark.parametrize("vocabulary_name", BYTE_PAIRS, indirect=True)
ENOUGH = 1 << 20
_PRE = b"tokenizer.ggml.pre"


def fast(vocabulary: Vocabulary) -> BytePairEncoder:
    encoder = vocabulary.fast_encoder(ENOUGH)
    assert encoder is not None
    return encoder


def native(vocabulary: Vocabulary) -> Callable[[str], list[int]]:
    return lambda text: vocabulary._native_ids(text.encode())


def random_text(rnd: random.Random, n_pieces: int) -> str:
    """Letters, digits, signs and spaces as `SAMPLE` has them, in new arrangements, and any characters."""
    pieces = [*SAMPLE, *SAMPLE.split(" "), *WORDS, " ", "  ", "\n", "\t ", "12345", "'s", "'LL", "IMGIMGABZ"]
    anything = (chr(rnd.choice((rnd.randrange(0x3000), rnd.randrange(0xE000, 0x20000)))) for _ in pieces)
    return "".join(rnd.choices((*pieces, *anything), k=n_pieces))


@EACH
def test_any_text_on_every_vocabulary(vocabulary: Vocabulary, vocabulary_name: str) -> None:
    rnd, encoder, expected = random.Random(vocabulary_name), fast(vocabulary), native(vocabulary)
    for _ in range(150):
        text = random_text(rnd, rnd.choice((2, 5, 20, 100)))
        assert encoder.encode(text) == expected(text), ascii(text)


@EACH
def test_tokens_and_their_neighbours(vocabulary: Vocabulary, vocabulary_name: str) -> None:
    rnd, encoder, expected = random.Random(vocabulary_name), fast(vocabulary), native(vocabulary)
    pieces = [vocabulary.piece(token_id) for token_id in rnd.sample(range(vocabulary.n_tokens), 1000)]
    for first, second in pairwise(pieces):
        text = (first + second).decode("utf-8", "ignore")
        assert encoder.encode(text) in (expected(text), None), ascii(text)


@EACH
def test_a_long_text_is_cut_where_words_end(
    vocabulary: Vocabulary, vocabulary_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chatwrap.tokens.bpe._PART", 20)
    rnd, encoder, expected = random.Random(vocabulary_name), fast(vocabulary), native(vocabulary)
    for _ in range(40):
        text = " the ".join(random_text(rnd, 5) for _ in range(12))
        assert encoder.encode(text) == expected(text), ascii(text)


@pytest.mark.parametrize("vocabulary_name", ["gemma-4"], indirect=True)
@pytest.mark.parametrize(
    "text",
    [
        *("<|tool_response>", " YYYY", " ::::::::", " diffformul", "a> </b", "> </", ">  </", "\n" * 40),
        *("\n\n x\n", "\u2581", "\u2581\u2581x \u2581", "\u2167", "\x00", "a\u0300\U0001f468", "   "),
    ],
)
def test_characters_with_marks_for_spaces(vocabulary: Vocabulary, text: str) -> None:
    """Tokens that merges never make, and the only one with a mark inside."""
    assert fast(vocabulary).encode(text) == native(vocabulary)(text)


@pytest.mark.parametrize("vocabulary_name", OTHER_KINDS, indirect=True)
def test_other_kinds_of_vocabulary_are_llama_cpps(vocabulary: Vocabulary) -> None:
    assert vocabulary.fast_encoder(ENOUGH) is None
    assert vocabulary.tokenize(SAMPLE) == native(vocabulary)(SAMPLE)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(WORDS))
def test_any_text_on_smollm(smollm: Vocabulary, text: str) -> None:
    assert fast(smollm).encode(text) == native(smollm)(text)


def with_pre(content: bytes, name: str) -> bytes:
    """A vocabulary file that names another pre-tokenizer."""
    at = content.index(struct.pack("<Q", len(_PRE)) + _PRE) + 8 + len(_PRE) + 4
    (length,) = struct.unpack_from("<Q", content, at)
    return content[:at] + struct.pack("<Q", len(name)) + name.encode() + content[at + 8 + length :]


@pytest.mark.parametrize(
    "name", [name for name in names() if not pre_tokenizer("gpt2", name).spaces_are_marked]
)  # type: ignore[union-attr]
def test_every_pre_tokenizer_that_llama_cpp_knows(
    name: str, vocabulary_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "vocabulary.gguf"
    path.write_bytes(with_pre((vocabulary_folder / "ggml-vocab-gpt-2.gguf").read_bytes(), name))
    vocabulary, rnd = load_vocabulary(path), random.Random(name)
    assert vocabulary.metadata["tokenizer.ggml.pre"] == name
    encoder, expected = fast(vocabulary), native(vocabulary)
    monkeypatch.setattr("chatwrap.tokens.bpe._PART", 20)
    for _ in range(60):
        text = random_text(rnd, rnd.choice((2, 5, 20))) + rnd.choice(("", " the end of it "))
        assert encoder.encode(text) == expected(text), ascii(text)


def test_an_unknown_pre_tokenizer_is_none() -> None:
    assert pre_tokenizer("gpt2", "whitespace") is None and pre_tokenizer("llama", "default") is None


@pytest.mark.parametrize(
    "text",
    [
        *("7" * 5000, "a" + "7" * 5000 + "b", "\u00b2" * 5000, "7" * 1_100_000),
        *(" " * 1_100_000, "x" * 1000 + " \n" * 600_000, "\u00a9" * 600_000, "\x00" * 600_000),
    ],
    ids=ascii,
)
@pytest.mark.parametrize("vocabulary_name", ["deepseek-llm", "llama-bpe"], indirect=True)
def test_long_runs_are_llama_cpps_or_right(
    vocabulary: Vocabulary, text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    ids = fast(vocabulary).encode(text)
    assert ids is None or b"".join(map(vocabulary.piece, ids)) == text.encode()
    assert capfd.readouterr() == ("", "")


class TestWhatIsNoGood:
    """Files that llama.cpp was never asked about, or that aren't what it loaded."""

    def none(self, path: Path, vocabulary: Vocabulary) -> bool:
        return checked_encoder(path, {}, native(vocabulary)) is None

    def test_a_file_that_has_gone_or_changed(self, smollm: Vocabulary, tmp_path: Path) -> None:
        path = tmp_path / "x.gguf"
        assert self.none(path, smollm)
        for content in (b"", b"GGUF", b"\xff" * 100):
            path.write_bytes(content)
            assert self.none(path, smollm)

    def test_an_encoder_that_differs(self, smollm: Vocabulary, vocabulary_folder: Path) -> None:
        assert self.none(vocabulary_folder / "ggml-vocab-gpt-2.gguf", smollm)

    @pytest.mark.parametrize(
        "merges", [[b"a\xff b"], [b"\xe4\xb8\xad a"], [b"ab"], [b"a b", b"ab"], [b""], []]
    )
    def test_merges_that_are_no_good(self, merges: list[bytes], smollm: Vocabulary, tmp_path: Path) -> None:
        def strings(values: list[bytes]) -> bytes:
            return struct.pack("<IQ", 8, len(values)) + b"".join(
                struct.pack("<Q", len(value)) + value for value in values
            )

        def pair(key: str, kind: int, value: bytes) -> bytes:
            return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value

        path = tmp_path / "odd.gguf"
        content = struct.pack("<4sIQQ", b"GGUF", 3, 0, 4)
        content += pair("tokenizer.ggml.model", 8, struct.pack("<Q", 4) + b"gpt2")
        content += pair("tokenizer.ggml.pre", 8, struct.pack("<Q", 5) + b"gpt-2")
        content += pair("tokenizer.ggml.tokens", 9, strings([b"a", b"b", b"ab", b"\xff"]))
        path.write_bytes(content + pair("tokenizer.ggml.merges", 9, strings(merges)))
        assert self.none(path, smollm)
