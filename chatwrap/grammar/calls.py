"""Function calls as a grammar: a format's call syntax, and a grammar of the arguments of each function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from chatwrap.chat.functions import ChatModelFunction, ChatModelFunctions
from chatwrap.chat.json_text import dump_json
from chatwrap.chat.slotted import Slot, SyntaxText, as_slotted
from chatwrap.chat.syntax import FunctionsSyntax
from chatwrap.chat.text import SpecialToken
from chatwrap.errors import Fault, GrammarError, OptionError, SchemaError, UnknownNameError
from chatwrap.grammar.gbnf import (
    EMPTY,
    Alternation,
    CharClass,
    Expression,
    GrammarTree,
    Literal,
    Reference,
    Repetition,
    Sequence,
    alternation,
    sequence,
)
from chatwrap.grammar.schema.convert import Options, convert
from chatwrap.grammar.schema.report import Finding, Report


def convert_calls(
    functions: ChatModelFunctions,
    syntax: FunctionsSyntax,
    options: Options,
    *,
    name: str | None = None,
    max_calls: int = 1,
) -> tuple[GrammarTree, Report]:
    """The grammar of a call to one of the functions (only `name`, if given), and what it enforces.

    Law: what it accepts is a call prefix, a known name, the params prefix, JSON arguments that are valid
    by the function's schema as far as the report calls it enforced, and the suffix. Where the format has
    parallel calls, it is a whole section of one to `max_calls` calls.

    Raises `GrammarError` without functions or for a syntax that has no text, `OptionError` for a
    `max_calls` below 1, `UnknownNameError` for a name that isn't among them, `SchemaError` with the
    faults of all parameters.
    """
    if max_calls < 1:
        raise OptionError.of("max_calls", f"must be at least 1, not {max_calls!r}.")
    if name is not None and name not in functions:
        raise UnknownNameError("function", name, list(functions), "The functions given")
    chosen = functions if name is None else {name: functions[name]}
    if not chosen:
        raise GrammarError.of("functions", "there is none to call.", "Give at least one.")
    writer = _CallWriter(syntax, options)
    return writer.tree(chosen, max_calls), Report(tuple(writer.findings))


@dataclass(slots=True)
class _CallWriter:
    """Rules being written; the rules of the n-th function's arguments start with ``fn-``."""

    syntax: FunctionsSyntax
    options: Options
    rules: dict[str, Expression] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def tree(self, functions: Mapping[str, ChatModelFunction], max_calls: int) -> GrammarTree:
        self.rules["root"] = EMPTY
        faults: list[Fault] = []
        tails: dict[str, Expression] = {}
        for number, (name, function) in enumerate(functions.items(), 1):
            try:
                arguments = self._arguments(function, f"f{number}-", f"functions.{name}.params")
            except SchemaError as error:
                faults += error.faults
                continue
            head, suffix = self._around(name)
            tails[head] = sequence(arguments, Literal(suffix))
        if faults:
            raise SchemaError(faults)
        self.rules["call"] = _factored(tails)
        self.rules["root"] = self._section(max_calls)
        return GrammarTree(self.rules)

    def _section(self, max_calls: int) -> Expression:
        parallel, call = self.syntax.parallelism, Reference("call")
        if parallel is None:
            return call
        between = Literal(_text(parallel.between_calls, "between_calls"))
        more = Repetition(sequence(between, call), 0, max_calls - 1) if max_calls > 1 else EMPTY
        return sequence(
            Literal(_text(parallel.section_prefix, "section_prefix")),
            call,
            more,
            Literal(_text(parallel.section_suffix, "section_suffix")),
        )

    def _around(self, name: str) -> tuple[str, str]:
        """What stands before and behind the arguments of a call."""
        call = self.syntax.call
        prefix, params_prefix = _text(call.prefix, "prefix", name), _text(call.params_prefix, "params", name)
        return prefix + name + params_prefix, _text(call.suffix, "suffix", name)

    def _arguments(self, function: ChatModelFunction, prefix: str, where: str) -> Expression:
        """The arguments of a function; of one without parameters what a call without any has, or ``{}``."""
        if function.parameters is None:
            placeholder = self.syntax.call.empty_call_params_placeholder
            written = "" if placeholder in ("", None) else dump_json(placeholder)
            return alternation([Literal("{}"), Literal(written)])
        try:
            tree, report = convert(_object_schema(function.parameters), self.options)
        except SchemaError as error:
            raise SchemaError(replace(f, where=_moved(f.where, where)) for f in error.faults) from None
        self.findings += (replace(f, path=_moved(f.path, where)) for f in report.findings)
        for name, expression in tree.rules.items():
            self.rules[prefix + name] = _renamed(expression, prefix)
        return Reference(f"{prefix}root")


def _object_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments are named, so a schema that doesn't say its type is an object's."""
    return dict(parameters) if "type" in parameters else {**parameters, "type": "object"}


def _moved(path: str, where: str) -> str:
    return where + path.removeprefix("$")


def _text(text: SyntaxText, where: str, name: str = "") -> str:
    """A piece of the call syntax as text. Raises `GrammarError` for what is no text without a model."""
    return "".join(_pieces(text, where, name))


def _pieces(text: SyntaxText, where: str, name: str) -> Iterator[str]:
    for part in as_slotted(text).parts:
        if part == Slot.FUNCTION_NAME:
            yield name
        elif isinstance(part, Slot | SpecialToken):
            remedy = "Write the text that stands there."
            raise GrammarError.of(f"functions.call.{where}", f"{part!r} has no text of its own.", remedy)
        else:
            yield str(part)


def _factored(tails: Mapping[str, Expression]) -> Expression:
    """One of the heads with its tail, shared beginnings written once: llama.cpp follows one reading."""
    groups: dict[str, dict[str, Expression]] = {}
    for head, tail in tails.items():
        groups.setdefault(head[:1], {})[head] = tail
    options: list[Expression] = []
    for heads in groups.values():
        common = _shared_start(min(heads), max(heads))
        rest = {head[len(common) :]: tail for head, tail in heads.items()}
        options.append(sequence(Literal(common), _factored(rest) if len(rest) > 1 else rest[""]))
    return alternation(options)


def _shared_start(first: str, last: str) -> str:
    length = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:length]


def _renamed(expression: Expression, prefix: str) -> Expression:
    """An expression with `prefix` before the names of all rules."""
    match expression:
        case Literal() | CharClass():
            return expression
        case Reference(name):
            return Reference(prefix + name)
        case Sequence(items):
            return Sequence(tuple(_renamed(item, prefix) for item in items))
        case Alternation(options):
            return Alternation(tuple(_renamed(option, prefix) for option in options))
        case Repetition(item, minimum, maximum):
            return Repetition(_renamed(item, prefix), minimum, maximum)
        case _:
            assert_never(expression)
