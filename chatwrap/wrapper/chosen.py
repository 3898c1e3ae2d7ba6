"""Chat wrappers by what a person names: a built-in format, a definition file, or a Jinja file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from chatwrap.chat.tokenizer import Tokenizer
from chatwrap.files import read_text
from chatwrap.wrapper.base import ChatWrapper
from chatwrap.wrapper.definition import load_chat_wrapper
from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper

_TEMPLATE_SUFFIXES: Final = (".jinja", ".jinja2", ".j2")


def is_template_file(name_or_path: object) -> bool:
    """Whether a name is that of a Jinja file, by its ending."""
    return isinstance(name_or_path, str | Path) and str(name_or_path).endswith(_TEMPLATE_SUFFIXES)


def read_chat_wrapper(name_or_path: str | Path, tokenizer: Tokenizer | None = None) -> ChatWrapper:
    """The wrapper of a built-in format (``"chatml"``), of a definition (``"my.toml"``) or of a template
    (``"my.jinja"``), whose ``bos_token`` and ``eos_token`` are those of `tokenizer`.

    Raises `UnknownNameError`, `FileError`, or `DefinitionError` with every fault of the file.
    """
    if not is_template_file(name_or_path):
        return load_chat_wrapper(name_or_path)
    return JinjaTemplateChatWrapper(
        read_text(name_or_path), tokenizer=tokenizer, name=Path(name_or_path).name
    )
