"""A folder of prompts: names, variants, versions, and no way out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatwrap.dotprompt.store import DirectoryStore, PromptRef, check_name
from chatwrap.errors import DotpromptError, FileError, TextEncodingError

BAD_NAMES = {
    "": "is empty",
    "../x": "has an empty segment, or one of dots alone",
    "a/../b": "has an empty segment, or one of dots alone",
    "a/./b": "has an empty segment, or one of dots alone",
    "..": "has an empty segment, or one of dots alone",
    "a//b": "has an empty segment, or one of dots alone",
    "a/": "has an empty segment, or one of dots alone",
    "..a": "has an empty segment, or one of dots alone",
    "a..": "has an empty segment, or one of dots alone",
    " /a": "has an empty segment, or one of dots alone",
    "/etc/passwd": "starts at the root",
    "C:x": "starts at the root",
    "a\\b": "has a backslash",
    "\\\\server\\x": "has a backslash",
    "a\0b": "has a % or a character that isn't printable ASCII",
    "a%00b": "has a % or a character that isn't printable ASCII",
    "%2e%2e/x": "has an empty segment, or one of dots alone",
    "%252e%252e%252fx": "has an empty segment, or one of dots alone",
    "%25252525252e": "has a % or a character that isn't printable ASCII",
    "100%": "has a % or a character that isn't printable ASCII",
    "zażółć": "has a % or a character that isn't printable ASCII",
    "\u2025/x": "has a % or a character that isn't printable ASCII",
}


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_lead_out_or_are_none(name: str, tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    message = f"name: {name!r} {BAD_NAMES[name]}. Use letters, digits, - _ . and /."
    for use in (store.load, store.load_partial, store.delete, lambda name: store.save(name, "x")):
        with pytest.raises(DotpromptError) as caught:
            use(name)
        assert str(caught.value) == message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "a.b", "dir/sub/a-b_c", "a...b", "abc..def", "a b", ".hidden"])
def test_names(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("variant", ["a/b", "..", "a.b", "%2e", "ż", "\\"])
def test_what_is_no_variant(variant: str, tmp_path: Path) -> None:
    with pytest.raises(DotpromptError) as caught:
        DirectoryStore(tmp_path).load("a", variant=variant)
    assert str(caught.value) == f"variant: {variant!r} can't be one. Use letters, digits, - and _."


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    saved = store.save("dir/a.b", "Hi\r\n żółw", variant="formal")
    assert (tmp_path / "dir" / "a.b.formal.prompt").read_bytes() == "Hi\r\n żółw".encode()
    loaded = store.load("dir/a.b", variant="formal")
    assert loaded == saved and loaded.source == "Hi\r\n żółw" and len(loaded.version) == 8
    assert store.load("dir/a.b", variant="formal", version=saved.version) == saved
    with pytest.raises(FileError) as caught:
        store.load("dir/a.b", variant="formal", version="00000000")
    path = tmp_path / "dir" / "a.b.formal.prompt"
    assert str(caught.value) == f"{path}: its version is {saved.version}, not 00000000."
    assert store.save("dir/a.b", "New", variant="formal").version != saved.version
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    with pytest.raises(TextEncodingError):
        store.save("dir/a.b", "\ud800", variant="formal")
    assert store.load("dir/a.b", variant="formal").source == "New"


def test_the_version_is_the_files_content(tmp_path: Path) -> None:
    (tmp_path / "a.prompt").write_bytes(b"hello")
    assert DirectoryStore(tmp_path).load("a").version == "aaf4c61d"  # of sha1("hello")


def test_lists(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    for name, variant in (("b", None), ("a", "x"), ("d/_p", None), ("_q", "v"), ("d/e/f", None)):
        store.save(name, "x", variant=variant)
    (tmp_path / "note.txt").write_text("x", encoding="utf-8")
    assert store.list() == (PromptRef("a", "x"), PromptRef("b"), PromptRef("d/e/f"))
    assert store.list_partials() == (PromptRef("q", "v"), PromptRef("d/p"))
    assert store.load_partial("d/p") and store.load_partial("q", variant="v")
    assert store.load_partial("gone") is None


def test_what_is_no_prompts_file_is_skipped_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "good.prompt").write_text("x", encoding="utf-8")
    (tmp_path / "żółw.prompt").write_text("x", encoding="utf-8")
    with pytest.warns(UserWarning) as caught:
        assert DirectoryStore(tmp_path).list() == (PromptRef("good"),)
    assert [str(warning.message) for warning in caught] == [
        f"{tmp_path}/żółw.prompt is skipped: name: 'żółw' has a % or a character that isn't printable ASCII. "
        "Use letters, digits, - _ . and /."
    ]


def test_links_stay_inside(tmp_path: Path) -> None:
    folder = tmp_path / "prompts"
    folder.mkdir()
    secret = tmp_path / "secret.prompt"
    secret.write_text("secret", encoding="utf-8")
    (folder / "real.prompt").write_text("real", encoding="utf-8")
    (folder / "inside.prompt").symlink_to(folder / "real.prompt")
    (folder / "out.prompt").symlink_to(secret)
    (folder / "_out.prompt").symlink_to(secret)
    (folder / "up").symlink_to(tmp_path)
    (folder / "loop.prompt").symlink_to(folder / "loop.prompt")
    store = DirectoryStore(folder)
    assert store.load("inside").source == "real"
    for name in ("out", "up/secret"):
        for use in (store.load, store.delete, lambda name: store.save(name, "x")):
            with pytest.raises(FileError) as caught:
                use(name)
            message = f"{folder}/{name}.prompt: a link that leads out of {folder}. Copy the file instead."
            assert str(caught.value) == message
    with pytest.raises(FileError):
        store.load_partial("out")
    with pytest.raises(FileError):
        store.load("loop")
    assert secret.read_text(encoding="utf-8") == "secret"
    linked = tmp_path / "linked"
    linked.symlink_to(folder)
    assert DirectoryStore(linked).load("real").source == "real"


def test_delete(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    store.save("a", "x")
    store.save("_a", "x")
    store.delete("a")
    assert not (tmp_path / "a.prompt").exists() and (tmp_path / "_a.prompt").exists()
    store.delete("a")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileError) as caught:
        store.delete("a")
    assert str(caught.value) == f"{tmp_path}/a.prompt: no such prompt."


def test_what_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "bad.prompt").write_bytes(b"\xff")
    (tmp_path / "folder.prompt").mkdir()
    store = DirectoryStore(tmp_path)
    with pytest.raises(FileError) as caught:
        store.load("bad")
    assert str(caught.value) == f"{tmp_path}/bad.prompt: byte 0 is 0xff, which isn't UTF-8. Save it as UTF-8."
    with pytest.raises(FileError) as caught:
        store.load("folder")
    assert str(caught.value) == f"{tmp_path}/folder.prompt: no such prompt."
    with pytest.raises(FileError) as caught:
        DirectoryStore(tmp_path / "gone").list()
    assert str(caught.value) == f"{tmp_path}/gone: no such folder."


@pytest.mark.parametrize("name", ["a" * 300, "a" * 300 + "/b", "/".join(["abc"] * 2000)])
def test_a_name_too_long_for_a_file(name: str, tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path)
    with pytest.raises(FileError) as caught:
        store.load(name)
    assert str(caught.value) == f"{tmp_path}/{name}.prompt: can't be followed: File name too long."
    for use in (store.load_partial, store.delete, lambda name: store.save(name, "x")):
        with pytest.raises(FileError, match="File name too long"):
            use(name)
    assert list(tmp_path.iterdir()) == []
