"""Opening files that are no good, and reading a vocabulary. Files are opened in a process of their own."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import llama_cpp
import pytest

from chatwrap.engine.vocabulary import Vocabulary, captured_log, load_vocabulary
from chatwrap.errors import FileError, ModelError

REMEDY = "If the file was cut short, download it again."
_OPEN_ALL = """
import json, os, sys
from chatwrap.engine.vocabulary import load_vocabulary
from chatwrap.errors import FileError, ModelError
for path in json.load(sys.stdin):
    try:
        print(json.dumps(["loaded", load_vocabulary(path).n_tokens]), flush=True)
    except (FileError, ModelError) as error:
        print(json.dumps([type(error).__name__, str(error)]), flush=True)
"""


def opened(*paths: Path | str) -> list[list[str]]:
    """What `load_vocabulary` says of each file, in a process of its own, which must not die or print."""
    given = json.dumps(list(map(str, paths))).encode()
    command = [sys.executable, "-c", _OPEN_ALL]
    done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def gguf(vocabulary_folder: Path) -> bytes:
    """The smallest of llama.cpp's vocabulary files: 20 metadata entries, no tensors."""
    return (vocabulary_folder / "ggml-vocab-bert-bge.gguf").read_bytes()


HEADER = "gguf_init_from_reader: failed to read header."
PAIRS = "gguf_init_from_reader: failed to read key-value pairs."
CUTS = {
    **dict.fromkeys((4, 5, 8, 15, 23), HEADER),
    **dict.fromkeys((24, 1000, 156_887, -1), PAIRS),
    40: "read: string length 20 exceeds remaining file size 8 bytes.",
    100: "read: string length 8 exceeds remaining file size 0 bytes.",
}


def test_a_file_cut_short(gguf: bytes, tmp_path: Path) -> None:
    paths = [tmp_path / f"{cut}.gguf" for cut in CUTS]
    for path, cut in zip(paths, CUTS, strict=True):
        path.write_bytes(gguf[:cut])
    assert opened(*paths) == [
        ["ModelError", f"{path}: llama.cpp can't load it: {reason} {REMEDY}"]
        for path, reason in zip(paths, CUTS.values(), strict=True)
    ]


@pytest.mark.parametrize("content", [b"", b"\0", b"GGU", b"Once upon", b"\0" * 4096, b"gguf\x03\0\0\0"])
def test_a_file_of_something_else(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        load_vocabulary(path)
    assert str(caught.value) == f"{path}: not a GGUF file: it starts with {content[:4]!r}, not b'GGUF'."


def test_a_file_with_spoilt_bytes(gguf: bytes, tmp_path: Path) -> None:
    paths = [tmp_path / f"{at}.gguf" for at in (4, 8, 12, 16, 20, 24, 31, 32, 40, 60, 200, 400)]
    for path in paths:
        at = int(path.stem)
        path.write_bytes(gguf[:at] + b"\xff" * 8 + gguf[at + 8 :])
    said = opened(*paths)
    assert [kind for kind, _ in said] == ["ModelError"] * len(paths)
    assert said[0][1] == (
        f"{paths[0]}: llama.cpp can't load it: gguf_init_from_reader: this GGUF file is version 4294967295 "
        f"but this software only supports up to version 3. {REMEDY}"
    )
    assert said[7][1] == (
        f"{paths[7]}: llama.cpp can't load it: llama_model_load: error loading model: "
        f"unknown model architecture: ''. {REMEDY}"
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", ".: is a directory. Name the GGUF file in it."),
        ("/", "/: is a directory. Name the GGUF file in it."),
        ("no/such.gguf", "no/such.gguf: no such file."),
        ("a\0b.gguf", "a\0b.gguf: can't be read: embedded null byte."),
        ("/dev/null/x.gguf", "/dev/null/x.gguf: can't be read: Not a directory."),
        ("x" * 300, "x" * 300 + ": can't be read: File name too long."),
    ],
)
def test_a_path_that_is_no_file(path: str, message: str) -> None:
    with pytest.raises(FileError) as caught:
        load_vocabulary(path)
    assert str(caught.value) == message


def test_a_file_that_cant_be_opened(tmp_path: Path) -> None:
    loop = tmp_path / "loop.gguf"
    loop.symlink_to(loop)
    with pytest.raises(FileError) as caught:
        load_vocabulary(loop)
    assert str(caught.value) == f"{loop}: can't be read: Too many levels of symbolic links."


def test_a_file_whose_name_isnt_unicode(gguf: bytes, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"b\xffge.gguf")
    path.write_bytes(gguf)
    assert load_vocabulary(path).n_tokens == 30522


class TestLog:
    def test_the_logger_is_put_back(self) -> None:
        def logger() -> tuple[int | None, int | None]:
            callback, user_data = ctypes.c_void_p(), ctypes.c_void_p()
            llama_cpp.llama_log_get(
                ctypes.cast(ctypes.byref(callback), ctypes.POINTER(llama_cpp.llama_log_callback)),
                ctypes.byref(user_data),
            )
            return callback.value, user_data.value

        before = logger()
        with pytest.raises(ZeroDivisionError), captured_log():
            assert logger() != before
            _ = 1 / 0
        assert logger() == before


class TestReading:
    def test_what_it_says_of_itself(self, smollm: Vocabulary) -> None:
        assert (smollm.n_tokens, smollm.adds_bos, smollm.architecture) == (49152, False, "llama")
        assert smollm.metadata["tokenizer.ggml.model"] == "gpt2"
        roles = [smollm.role_id(name) for name in ("BOS", "EOS", "EOT", "NL", "SEP")]
        assert roles == [1, 2, 0, 198, None]

    def test_special_tokens(self, smollm: Vocabulary) -> None:
        texts = {token_id: entry.text for token_id, entry in smollm.special_tokens.items()}
        assert len(texts) == 17 and texts[0] == "<|endoftext|>" and texts[1] == "<|im_start|>"
        assert not any(entry.user_defined or entry.unknown for entry in smollm.special_tokens.values())
        assert [token_id for token_id in texts if smollm.is_end_of_generation(token_id)] == [0, 2, 4]

    @pytest.mark.parametrize("vocabulary_name", ["llama-bpe"], indirect=True)
    def test_a_piece_is_whole_however_long(self, vocabulary: Vocabulary) -> None:
        long = [piece for piece in map(vocabulary.piece, range(vocabulary.n_tokens)) if len(piece) > 32]
        assert len(long) == 231
        assert vocabulary.longest_piece == max(map(len, long)) == 128

    @pytest.mark.parametrize("token_id", [-1, 49152, 1 << 40])
    def test_an_id_outside_the_vocabulary(self, smollm: Vocabulary, token_id: int) -> None:
        with pytest.raises(ModelError) as caught:
            smollm.piece(token_id)
        assert str(caught.value) == f"token id: {token_id} isn't in the vocabulary of 49152 tokens."

    def test_threads_read_the_same(self, smollm: Vocabulary) -> None:
        texts = [f"{word} " * 4000 for word in ("one", "two", "three", "four")] * 3
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(smollm.tokenize, texts)) == [smollm.tokenize(text) for text in texts]
        assert threading.stack_size() == 0

    def test_it_outlives_its_maker(self, smollm_path: Path) -> None:
        def make() -> Vocabulary:
            return load_vocabulary(smollm_path)

        assert make().tokenize("hello") == [28120]
