"""Standard input and output that take any text: whatever a model writes, whatever a pipe delivers."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any, Final

_INVISIBLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INVISIBLE_IN_JSON: Final = re.compile("[\x7f-\x9f]")


def prepare_streams() -> None:
    """Makes the standard streams able to take any text.

    A stream that is closed becomes an empty one. Input is read as UTF-8, which every ASCII text is
    too; bytes that aren't UTF-8 come as lone surrogates, so that the text they are in is refused and
    not the whole input. What the terminal's encoding lacks is written as an escape (``\\U0001f600``).
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - never closed
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def argument_text(text: str) -> str:
    """An argument of the command line as the UTF-8 that it is, in whichever locale Python read it."""
    return os.fsencode(text).decode("utf-8", "surrogateescape")


def on_terminal() -> bool:
    """Whether a person reads the output."""
    return sys.stdout.isatty()


def visible(text: str) -> str:
    r"""`text` with its control characters escaped, line breaks and tabs kept.

    A terminal obeys control characters: with them, content could recolour, hide or overwrite text.

    >>> print(visible("a\x1b[31mb\r\n"))
    a\x1b[31mb\x0d
    <BLANKLINE>
    """
    return _INVISIBLE.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def printable_json(value: Any, *, indent: int | None = None) -> str:
    r"""`value` as JSON, non-ASCII kept if standard output can take it, else escaped throughout.

    Control characters are escaped in any case, also those above ASCII that JSON would keep.

    >>> print(printable_json("\x9b2J"))
    "\u009b2J"
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    text = _INVISIBLE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text
