"""``chatwrap grammar``: a schema or functions as GBNF, and a GBNF file checked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from chatwrap.chat.json_text import parse_json
from chatwrap.cli.render import read_functions
from chatwrap.cli.streams import argument_text
from chatwrap.errors import Fault, GrammarError, OptionError
from chatwrap.files import decode_utf8, read_text
from chatwrap.grammar.grammar import Grammar
from chatwrap.wrapper.chosen import read_chat_wrapper

_CHECK: Final = "check"
_STDIN: Final = "-"


def grammar(
    source: Annotated[
        str | None, typer.Argument(metavar="[SCHEMA|check]", help="A JSON Schema file; - for stdin.")
    ] = None,
    file: Annotated[str | None, typer.Argument(help="With 'check': a GBNF file; - for stdin.")] = None,
    *,
    functions: Annotated[Path | None, typer.Option(help="JSON file with functions or OpenAI tools.")] = None,
    chat_format: Annotated[
        str | None, typer.Option("--format", "-f", help="The format that writes the functions' calls.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Only calls of this function.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Say what becomes of each keyword.")] = False,
    unsupported: Annotated[
        Literal["error", "relax"], typer.Option(help="What becomes of a keyword that no grammar can keep.")
    ] = "error",
    closed: Annotated[
        bool | None,
        typer.Option("--closed/--open", help="Whether objects have only properties that are named."),
    ] = None,
    accepts: Annotated[str | None, typer.Option(help="Check that the grammar accepts this text.")] = None,
) -> None:
    """Print the grammar of a JSON Schema or of function calls, or check a GBNF file.

    A schema is open unless --closed, functions are closed unless --open. Keywords that the grammar
    leaves open stand in front of it as comments, with --report all of them. With --accepts only the
    text is checked.
    """
    if functions is None and (chat_format or name):
        raise OptionError.of("format" if chat_format else "name", "given without --functions.", "Add them.")
    if functions is not None:
        _refuse_second(source, "--functions")
        found = _of_functions(functions, chat_format, name, unsupported, closed=closed is not False)
    elif source == _CHECK:
        found = Grammar.from_gbnf(_text(file, "A GBNF file"), name=_shown(file))
    else:
        _refuse_second(file, "a schema")
        schema = parse_json(_text(source, "A JSON Schema file"), where=_shown(source))
        found = Grammar.from_json_schema(schema, unsupported=unsupported, closed=bool(closed))
    if accepts is not None:
        _check_text(found, argument_text(accepts))
        print("accepted")
    elif functions is None and source == _CHECK:
        print(f"{_shown(file)}: rules: {len(found.tree.rules)}, safe to run.")
    else:
        _print(found, all_findings=report)


def _of_functions(
    file: Path,
    chat_format: str | None,
    name: str | None,
    unsupported: Literal["error", "relax"],
    *,
    closed: bool,
) -> Grammar:
    if chat_format is None:
        remedy = "`chatwrap wrappers` lists them."
        raise OptionError.of("format", "missing: which format writes the calls?", remedy)
    settings = read_chat_wrapper(chat_format).settings
    return Grammar.from_functions(
        read_functions(file), settings, name=name, unsupported=unsupported, closed=closed
    )


def _print(found: Grammar, *, all_findings: bool) -> None:
    """The grammar as GBNF, findings as comments before it."""
    for finding in found.report.findings:
        if all_findings or finding.verdict in ("relaxed", "unsupported"):
            for line in str(finding).splitlines():
                print(f"# {line}")
    print(found.gbnf)


def _check_text(found: Grammar, text: str) -> None:
    """Raises `GrammarError` at the first character that the grammar refuses."""
    matcher = found.matcher()
    for offset, character in enumerate(text):
        if not matcher.feed(character):
            problem = f"the grammar refuses {character!r} here."
            raise GrammarError([Fault.at(text, offset, problem, name="accepts")])
    if not matcher.is_complete:
        problem = "the text ends before the grammar is complete."
        raise GrammarError([Fault.at(text, len(text), problem, name="accepts")])


def _refuse_second(given: str | None, first: str) -> None:
    if given is not None:
        raise OptionError([Fault("", f"{given!r} given together with {first}.", "Give one of them.")])


def _text(file: str | None, wanted: str) -> str:
    if file is None:
        raise OptionError([Fault("", f"{wanted} is missing.", "`chatwrap grammar -h` shows the ways.")])
    return decode_utf8(sys.stdin.buffer.read(), name="stdin") if file == _STDIN else read_text(file)


def _shown(file: str | None) -> str:
    return "stdin" if file in (None, _STDIN) else str(file)
