"""Prompts in a folder: ``name.variant.prompt`` files, and partials in ``_name.prompt``."""

from __future__ import annotations

import hashlib
import re
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote

from chatwrap.errors import DotpromptError, FileError
from chatwrap.files import decode_utf8, encode_utf8, read_bytes, write_text

_SUFFIX: Final = ".prompt"
_MAX_DECODINGS: Final = 3
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_VARIANT: Final = re.compile(r"[^./\\]+")


@dataclass(frozen=True, slots=True)
class PromptRef:
    """A prompt or partial in a store, by name; sub-folders stand before the name, with ``/`` between."""

    name: str
    variant: str | None = None


@dataclass(frozen=True, slots=True)
class StoredPrompt:
    """A prompt's or partial's text. `version` is the start of its SHA-1; errors call the text `where`."""

    ref: PromptRef
    source: str
    version: str
    where: str


class PromptStore(Protocol):
    """Where prompts come from."""

    def load(self, name: str, *, variant: str | None = None, version: str | None = None) -> StoredPrompt: ...

    def load_partial(
        self, name: str, *, variant: str | None = None, version: str | None = None
    ) -> StoredPrompt | None: ...


@dataclass(frozen=True, slots=True)
class DirectoryStore:
    """The prompts in a folder and its sub-folders. No name leads out of it, also not through links.

    In ``a.b.c.prompt`` the name is ``a.b`` and the variant ``c``. Files that can't be a prompt's are
    skipped in lists with a warning.
    """

    folder: Path

    def load(self, name: str, *, variant: str | None = None, version: str | None = None) -> StoredPrompt:
        """The prompt with this name, in this variant and, if one is asked for, in this version.

        Raises `FileError` if there is none or its version is another, `DotpromptError` for a name that
        can't be one.
        """
        return self._read(self._path(name, variant), PromptRef(name, variant), version)

    def load_partial(
        self, name: str, *, variant: str | None = None, version: str | None = None
    ) -> StoredPrompt | None:
        """The partial with this name, given without its underscore; None if there is none."""
        check_name(name)
        path = self._path(_partial_file(name), variant)
        return self._read(path, PromptRef(name, variant), version) if path.is_file() else None

    def list(self) -> tuple[PromptRef, ...]:
        """The prompts, in alphabetical order."""
        return tuple(ref for ref, is_partial in self._refs() if not is_partial)

    def list_partials(self) -> tuple[PromptRef, ...]:
        """The partials, by their names without the underscore."""
        return tuple(ref for ref, is_partial in self._refs() if is_partial)

    def save(self, name: str, source: str, *, variant: str | None = None) -> StoredPrompt:
        """Writes a prompt in one step, in place of the one with this name. A partial's name is ``_name``.

        Sub-folders are made as needed.
        """
        path = self._path(name, variant)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"{path.parent}: can't be made: {error.strerror}.") from error
        write_text(path, source)
        return StoredPrompt(PromptRef(name, variant), source, _version(encode_utf8(source)), str(path))

    def delete(self, name: str, *, variant: str | None = None) -> None:
        """Removes a prompt, or if there is none the partial with this name. Raises `FileError`."""
        paths = [self._path(name, variant)]
        if not name.rpartition("/")[2].startswith("_"):
            paths.append(self._path(_partial_file(name), variant))
        for path in paths:
            if path.is_file() or path.is_symlink():
                try:
                    path.unlink()
                except OSError as error:
                    raise FileError(f"{path}: can't be removed: {error.strerror}.") from error
                return
        raise FileError(f"{paths[0]}: no such prompt.")

    def _read(self, path: Path, ref: PromptRef, version: str | None) -> StoredPrompt:
        if not path.is_file():
            raise FileError(f"{path}: no such prompt.")
        data = read_bytes(path)
        found = _version(data)
        if version is not None and version != found:
            raise FileError(f"{path}: its version is {found}, not {version}.")
        return StoredPrompt(ref, decode_utf8(data, name=str(path)), found, str(path))

    def _path(self, name: str, variant: str | None) -> Path:
        """The file of a prompt. Raises `DotpromptError` if the name is none or leads out of the folder."""
        check_name(name)
        if variant is not None and (not _VARIANT.fullmatch(variant) or not _is_plain(variant)):
            raise DotpromptError.of("variant", f"{variant!r} can't be one.", "Use letters, digits, - and _.")
        file = f"{name}.{variant}{_SUFFIX}" if variant else f"{name}{_SUFFIX}"
        path = self.folder / file
        root = self.folder.resolve()
        try:
            is_inside = path.resolve().is_relative_to(root)
            path.is_file()  # tells of names too long and folders that can't be searched
        except (OSError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise FileError(f"{path}: can't be followed: {reason}.") from error
        if not is_inside:
            raise FileError(f"{path}: a link that leads out of {self.folder}. Copy the file instead.")
        return path

    def _refs(self) -> Iterator[tuple[PromptRef, bool]]:
        if not self.folder.is_dir():
            raise FileError(f"{self.folder}: no such folder.")
        for path in sorted(self.folder.rglob(f"*{_SUFFIX}")):
            *folders, file = path.relative_to(self.folder).parts
            name, variant = split_file_name(file)
            is_partial = name.startswith("_")
            full = "/".join((*folders, name))
            try:
                if not self._path(full, variant).is_file():
                    continue
            except (DotpromptError, FileError) as error:
                warnings.warn(f"{path} is skipped: {error}", UserWarning, stacklevel=4)
                continue
            yield PromptRef("/".join((*folders, name.removeprefix("_"))), variant), is_partial


def split_file_name(file: str) -> tuple[str, str | None]:
    """The name and the variant that a file's name tells.

    >>> split_file_name("greet.formal.prompt"), split_file_name("greet.prompt")
    (('greet', 'formal'), ('greet', None))
    """
    stem = file.removesuffix(_SUFFIX)
    name, _, variant = stem.rpartition(".")
    return (name, variant) if name and variant else (stem, None)


def check_name(name: str) -> None:
    """Raises `DotpromptError` for a name that isn't one of a prompt, or could lead out of a folder."""
    decoded = unicodedata.normalize("NFC", name)
    for _ in range(_MAX_DECODINGS):
        decoded = unquote(decoded, errors="replace")
    problem = next(
        (
            problem
            for problem, applies in (
                ("is empty", not decoded),
                ("has a % or a character that isn't printable ASCII", not _is_plain(decoded)),
                ("has a backslash", "\\" in decoded),
                ("starts at the root", decoded.startswith("/") or bool(_DRIVE.match(decoded))),
                ("has an empty segment, or one of dots alone", _has_bad_segment(decoded)),
            )
            if applies
        ),
        None,
    )
    if problem:
        raise DotpromptError.of("name", f"{name!r} {problem}.", "Use letters, digits, - _ . and /.")


def _is_plain(text: str) -> bool:
    return "%" not in text and all(" " <= character <= "~" for character in text)


def _has_bad_segment(name: str) -> bool:
    segments = name.split("/")
    return any(
        not segment.strip(" .") or re.match(r"\.\.(?!\.)", segment) or re.search(r"(?<!\.)\.\.\Z", segment)
        for segment in segments
    )


def _partial_file(name: str) -> str:
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}_{file}"


def _version(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()[:8]
