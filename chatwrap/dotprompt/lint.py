"""What is wrong with a .prompt file, and what in it will surprise."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from chatwrap.dotprompt.answer import in_config, sampling_options
from chatwrap.dotprompt.document import KNOWN_KEYS, ParsedPrompt
from chatwrap.dotprompt.dotprompt import Dotprompt
from chatwrap.dotprompt.handlebars.nodes import Block, Call, Node, Partial, Program
from chatwrap.dotprompt.handlebars.parser import parse
from chatwrap.dotprompt.handlebars.run import PartialError
from chatwrap.dotprompt.validation import faults_by_schema
from chatwrap.errors import DotpromptError, Fault, OptionError, UnknownNameError

Severity: TypeAlias = Literal["error", "trap"]
OptionsCheck: TypeAlias = Callable[[Mapping[str, Any]], object]
_OUTPUT_FORMATS: Final = ("json", "text")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to mend: an error, which keeps the prompt from running, or a trap."""

    severity: Severity
    fault: Fault

    def __str__(self) -> str:
        return f"{self.severity}: {self.fault}"


def lint_prompt(
    text: str, *, name: str, dotprompt: Dotprompt, check_options: OptionsCheck | None = None
) -> tuple[Finding, ...]:
    """The findings in a prompt's text, which they call `name`; partials and tools are `dotprompt`'s.

    `check_options` raises `OptionError` or `UnknownNameError` for sampling options that a model refuses.
    """
    try:
        parsed = dotprompt.parse(text, name=name)
    except DotpromptError as error:
        return tuple(Finding("error", fault) for fault in error.faults)
    checks = (
        (Finding("error", fault) for fault in _errors(parsed, dotprompt)),
        (Finding("error", fault) for fault in _config_faults(parsed, check_options)),
        (Finding("trap", fault) for fault in _traps(parsed, dotprompt)),
    )
    return tuple(finding for check in checks for finding in check)


def _errors(parsed: ParsedPrompt, dotprompt: Dotprompt) -> Iterator[Fault]:
    try:
        dotprompt.render_metadata(parsed)
    except DotpromptError as error:
        yield from error.faults
    try:
        dotprompt.compile(parsed)
        program = parse(parsed.source)
    except DotpromptError as error:
        yield from error.faults
        return
    inline = {str(node.call.params[0].value) for node in _inlines(program)}
    for partial in _partials(program):
        name = getattr(partial.name, "text", None)
        if name is None or name in inline or partial.program is not None or name == "@partial-block":
            continue
        try:
            known = dotprompt.has_partial(name)
        except PartialError as error:
            yield from parsed.source.fault(partial.offset, str(error)).faults
            continue
        except DotpromptError as error:
            yield from error.faults
            continue
        if not known:
            remedy = "Put it into the folder as a file."
            yield from parsed.source.fault(partial.offset, f"no partial {name!r}.", remedy).faults


def _config_faults(parsed: ParsedPrompt, check: OptionsCheck | None) -> Iterator[Fault]:
    """What a model would refuse of the prompt's config, each key on its own."""
    if check is None:
        return
    for key, value in (parsed.fields.get("config") or {}).items():
        try:
            check(sampling_options({key: value}))
        except OptionError as error:
            for fault in map(in_config, error.faults):
                yield parsed.fault(("config", key), f"{fault.where}: {fault.problem}", fault.remedy)
        except UnknownNameError as error:
            known = [in_config(Fault(name, "")).where.removeprefix("config.") for name in error.known]
            closest = difflib.get_close_matches(key, known, 1)
            remedy = f"Did you mean {closest[0]!r}?" if closest else "Remove it."
            yield parsed.fault(("config", key), f"config.{key}: no sampling option.", remedy)


def _traps(parsed: ParsedPrompt, dotprompt: Dotprompt) -> Iterator[Fault]:
    for key in parsed.fields.get("raw") or {}:
        if key not in KNOWN_KEYS and "." not in key:
            closest = difflib.get_close_matches(key, KNOWN_KEYS, 1)
            remedy = f"Did you mean {closest[0]!r}?" if closest else "Put it under metadata."
            yield parsed.fault((key,), f"{key!r} is no field, and ignored.", remedy)
    form = (parsed.fields.get("output") or {}).get("format")
    if form is not None and form not in _OUTPUT_FORMATS:
        yield parsed.fault(("output", "format"), f"the format {form!r} can't be run.", "Use json or text.")
    try:
        declared = dotprompt.render_metadata(parsed).input or {}
    except DotpromptError:
        return
    yield from _default_faults(parsed, declared)


def _default_faults(parsed: ParsedPrompt, declared: Mapping[str, Any]) -> Iterator[Fault]:
    """Defaults that the input's own schema refuses, whatever variables come to them."""
    schema, defaults = declared.get("schema"), declared.get("default")
    if not isinstance(schema, dict) or not isinstance(defaults, dict):
        return
    partial = {key: value for key, value in schema.items() if key != "required"}
    for fault in faults_by_schema(defaults, partial, "input.default"):
        yield parsed.fault(("input", "default"), f"{fault.where}: {fault.problem}")


def _nodes(program: Program | None) -> Iterator[Node]:
    for node in program.body if program else ():
        yield node
        if isinstance(node, Block | Partial):
            yield from _nodes(node.program)
        if isinstance(node, Block):
            yield from _nodes(node.inverse)


def _partials(program: Program) -> Iterable[Partial]:
    return (node for node in _nodes(program) if isinstance(node, Partial) and not isinstance(node.name, Call))


def _inlines(program: Program) -> Iterable[Any]:
    return (node for node in _nodes(program) if isinstance(node, Block) and node.decorator)
