"""``chatwrap convert``: the definition that equals a chat template."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from chatwrap.cli.subjects import open_vocabulary, template_source
from chatwrap.wrapper.conversion import convert_template
from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper


def convert(
    source: Annotated[str, typer.Argument(metavar="TEMPLATE|MODEL", help="A .jinja file, or a model.")],
    *,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="For a .jinja file: the model it is for.")
    ] = None,
) -> None:
    """Print the TOML definition that renders what a chat template renders, byte for byte, if there is one."""
    template = template_source(source, open_vocabulary(model))
    own = JinjaTemplateChatWrapper(template.text, tokenizer=template.vocabulary, name=template.name)
    found = convert_template(own, template.vocabulary)
    if found.builtin is not None:
        print(f"The built-in format {found.builtin!r} equals it.", file=sys.stderr)
    print(found.text, end="")
