"""``chatwrap lint``: what is wrong with a chat template or a .prompt file, and where it will surprise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from chatwrap.cli.prompts import is_prompt, opened
from chatwrap.cli.streams import visible
from chatwrap.cli.subjects import open_vocabulary, template_source
from chatwrap.files import read_text
from chatwrap.wrapper.lint import Severity, lint_template

FAULTY: Final = 1


def lint(
    source: Annotated[
        str, typer.Argument(metavar="TEMPLATE|PROMPT|MODEL", help="A .jinja or .prompt file, or a model.")
    ],
    *,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="For a .jinja file: the model it is for.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for traps too.")] = False,
) -> None:
    """Check a chat template or a prompt: errors by line and column, and traps. Exits 1 on errors."""
    if is_prompt(source):
        _end(source, *_lint_prompt(source), strict=strict)
        return
    template = template_source(source, open_vocabulary(model))
    findings = lint_template(template.text, tokenizer=template.vocabulary, name=template.name)
    for finding in findings:
        print(finding)
    n_errors = sum(finding.severity is Severity.ERROR for finding in findings)
    _end(source, n_errors, len(findings) - n_errors, strict=strict)


def _lint_prompt(source: str) -> tuple[int, int]:
    """Prints what is wrong with a .prompt file; the numbers of errors and of traps."""
    from chatwrap.chat.model import ChatRequest
    from chatwrap.dotprompt.lint import lint_prompt
    from chatwrap.engine.request import AnswerRequest

    def check(options: Mapping[str, Any]) -> None:
        AnswerRequest.of_chat_request(ChatRequest(history=(), options=options))

    findings = lint_prompt(read_text(source), name=source, dotprompt=opened(source), check_options=check)
    for finding in findings:
        print(visible(str(finding)))
    n_errors = sum(finding.severity == "error" for finding in findings)
    return n_errors, len(findings) - n_errors


def _end(source: str, n_errors: int, n_traps: int, *, strict: bool) -> None:
    print(f"{source}: {n_errors} errors, {n_traps} traps")
    if n_errors or (strict and n_traps):
        raise typer.Exit(FAULTY)
