from __future__ import annotations

from pathlib import Path

import pytest

from chatwrap.errors import FileError, TextEncodingError
from chatwrap.files import data_path, read_text, write_text


@pytest.mark.parametrize("name", ["wrappers", "grammars", "models.txt"])
def test_the_data_files_are_there(name: str) -> None:
    assert data_path(name).exists()


@pytest.mark.parametrize("text", ["", "Łódź\r\n\n", "\ufeffx", "a\0b"])
def test_text_survives_writing_and_reading(text: str, tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", text)
    assert read_text(str(tmp_path / "a.txt")) == text.removeprefix("\ufeff")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", ".: is a directory. Name a file in it."),
        ("/", "/: is a directory. Name a file in it."),
        ("no/such.txt", "no/such.txt: no such file."),
        ("a\0b", "a\0b: can't be read: embedded null byte."),
        ("/dev/null/x", "/dev/null/x: can't be read: Not a directory."),
    ],
)
def test_what_cant_be_read(path: str, message: str) -> None:
    with pytest.raises(FileError) as caught:
        read_text(path)
    assert str(caught.value) == message


def test_what_isnt_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin1.txt"
    path.write_bytes("Łódź é".encode() + b" \xe9")
    with pytest.raises(FileError) as caught:
        read_text(path)
    assert str(caught.value) == f"{path}: byte 11 is 0xe9, which isn't UTF-8. Save it as UTF-8."


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", ".: is a directory. Name a file in it."),
        ("/", "/: is a directory. Name a file in it."),
        ("/no/such.txt", "/no/such.txt: can't be written: No such file or directory."),
        ("a\0b", "a\0b: can't be written: embedded null byte."),
        ("/dev/null/x", "/dev/null/x: can't be written: Not a directory."),
    ],
)
def test_what_cant_be_written(path: str, message: str) -> None:
    with pytest.raises(FileError) as caught:
        write_text(path, "x")
    assert str(caught.value) == message


def test_a_text_that_isnt_unicode_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(TextEncodingError):
        write_text(path, "new \ud800")
    assert [(file.name, read_text(file)) for file in tmp_path.iterdir()] == [("a.txt", "old")]
