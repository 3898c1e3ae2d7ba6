"""The small GGUF reader: what it reads of real files, and of spoilt ones."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from chatwrap.engine.gguf import read_metadata
from chatwrap.errors import ModelError


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def file(*values: tuple[bytes, int, bytes], version: int = 3) -> bytes:
    head = struct.pack("<4sIQQ", b"GGUF", version, 0, len(values))
    return head + b"".join(text(key) + struct.pack("<I", kind) + value for key, kind, value in values)


NESTED = struct.pack("<IQ", 9, 1) + struct.pack("<IQ", 8, 2) + text(b"a") + text(b"")
VALUES = (
    (b"number", 4, struct.pack("<I", 7)),
    (b"nested", 9, NESTED),
    (b"real", 12, struct.pack("<d", 0.5)),
    (b"flags", 9, struct.pack("<IQ3?", 7, 3, True, False, True)),
    (b"name", 8, text("né".encode())),
)


def test_every_kind_of_value_is_read(tmp_path: Path) -> None:
    path = tmp_path / "all.gguf"
    path.write_bytes(file(*VALUES))
    assert read_metadata(path, ("number", "nested", "real", "flags", "name", "absent")) == {
        "number": 7,
        "nested": [[b"a", b""]],
        "real": 0.5,
        "flags": [True, False, True],
        "name": "né".encode(),
    }
    assert read_metadata(path, ("real",)) == {"real": 0.5}


def test_what_llama_cpp_reads_too(smollm_path: Path) -> None:
    found = read_metadata(smollm_path, ("tokenizer.ggml.tokens", "tokenizer.ggml.merges", "general.name"))
    assert found["general.name"] == b"Smollm2 135M 8k Lc100K Mix1 Ep2"
    assert (len(found["tokenizer.ggml.tokens"]), len(found["tokenizer.ggml.merges"])) == (49152, 48900)


def test_a_file_cut_anywhere_is_an_error(tmp_path: Path) -> None:
    whole, path = file(*VALUES), tmp_path / "cut.gguf"
    for n_bytes in range(1, len(whole)):
        path.write_bytes(whole[:n_bytes])
        with pytest.raises(ModelError, match=f"^{path}: its metadata can't be read: .*[.]$"):
            read_metadata(path, ("number", "nested", "real", "flags", "name"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cannot mmap an empty file"),
        (file(version=1), "no little-endian GGUF of version 2 or 3 (b'GGUF', version 1)"),
        (file(version=3 << 24), "no little-endian GGUF of version 2 or 3 (b'GGUF', version 50331648)"),
        (file((b"x", 9, struct.pack("<IQ", 4, 1 << 60))), f"an array of {1 << 60} values in 49 bytes"),
        (
            file((b"x", 8, struct.pack("<Q", 1 << 60))),
            f"a string of {1 << 60} bytes at 37, past the file's end",
        ),
        (file((b"x", 13, b"")), "13"),
    ],
)
def test_a_file_that_is_no_good(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        read_metadata(path, ("x",))
    assert str(caught.value) == f"{path}: its metadata can't be read: {reason}."


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        read_metadata(tmp_path / "no.gguf", ("x",))
    assert "No such file or directory" in str(caught.value)
