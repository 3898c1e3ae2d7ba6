"""``chatwrap lint``: what is wrong with a chat template, and where it will surprise."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from chatwrap.cli.subjects import open_vocabulary, template_source
from chatwrap.wrapper.lint import Severity, lint_template

FAULTY: Final = 1


def lint(
    source: Annotated[str, typer.Argument(metavar="TEMPLATE|MODEL", help="A .jinja file, or a model.")],
    *,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="For a .jinja file: the model it is for.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for traps too.")] = False,
) -> None:
    """Check a chat template: errors by line and column, and traps found by rendering. Exits 1 on errors."""
    template = template_source(source, open_vocabulary(model))
    findings = lint_template(template.text, tokenizer=template.vocabulary, name=template.name)
    for finding in findings:
        print(finding)
    n_errors = sum(finding.severity is Severity.ERROR for finding in findings)
    print(f"{source}: {n_errors} errors, {len(findings) - n_errors} traps")
    if n_errors or (strict and findings):
        raise typer.Exit(FAULTY)
