"""The data files that come with chatwrap, and reading text files with errors worth reading."""

from __future__ import annotations

import os
from pathlib import Path

from chatwrap.errors import FileError, OptionError, TextEncodingError

_PACKAGE = Path(__file__).resolve().parent


def data_path(name: str) -> Path:
    """The path of a data file or folder (``"wrappers"``, ``"grammars"``, ``"models.txt"``).

    A wheel carries them in ``chatwrap/_data``; a checkout has them at its top.
    """
    packed = _PACKAGE / "_data" / name
    return packed if packed.exists() else _PACKAGE.parent / name


def as_path_text(path: object, name: str) -> str:
    """A path as text. Raises `OptionError` for what is none; `name` is the argument that has it."""
    if not isinstance(path, str | os.PathLike):
        raise OptionError.of(name, f"must be a name or a path, not {path!r}.")
    return os.fsdecode(path)


def read_text(path: str | Path) -> str:
    """The UTF-8 text of a file, a byte order mark removed.

    Raises `FileError` if it is missing, a directory, unreadable, or not UTF-8.
    """
    return decode_utf8(read_bytes(path), name=str(path))


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file. Raises `FileError` as `read_text` does."""
    file = Path(path)
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise FileError(f"{path}: no such file.") from None
    except IsADirectoryError:
        raise FileError(f"{file}: is a directory. Name a file in it.") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: can't be read: {getattr(error, 'strerror', None) or error}.") from error


def decode_utf8(data: bytes, *, name: str) -> str:
    """`data` as text, a byte order mark removed. `name` is what an error calls it."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(
            f"{name}: byte {error.start} is 0x{data[error.start]:02x}, which isn't UTF-8. Save it as UTF-8."
        ) from None


def write_text(path: str | Path, text: str) -> None:
    """Writes `text` as UTF-8, in one step: a reader sees the old file or the new one, never half.

    Raises `TextEncodingError` for a lone surrogate, and `FileError`.
    """
    target = Path(path)
    data = encode_utf8(text)
    try:
        if target.is_dir():
            raise IsADirectoryError
        draft = target.with_name(f".{target.name}.partial")
        draft.write_bytes(data)
        draft.replace(target)
    except IsADirectoryError:
        raise FileError(f"{target}: is a directory. Name a file in it.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{path}: can't be written: {reason}.") from error


def encode_utf8(text: str) -> bytes:
    """`text` as UTF-8. Raises `TextEncodingError` for a lone surrogate."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TextEncodingError(text, error.start) from None
