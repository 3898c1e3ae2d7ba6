"""Function calls as a grammar: a format's call syntax, and a grammar of the arguments of each function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from chatwrap.chat.functions import ChatModelFunction, ChatModelFunctions
from chatwrap.chat.json_text import dump_json
from chatwrap.chat.notation import JsonNotation
from chatwrap.chat.slotted import Slot, SyntaxText, as_slotted
from chatwrap.chat.syntax import ChatWrapperSettings, ParallelCallsSyntax
from chatwrap.chat.text import LlamaTextValue, SpecialToken
from chatwrap.errors import Fault, GrammarError, OptionError, SchemaError, UnknownNameError
from chatwrap.grammar.arguments import CallText, convert_arguments
from chatwrap.grammar.gbnf import (
    EMPTY,
    CharClass,
    Expression,
    Literal,
    Reference,
    Repetition,
    alternation,
    optional,
    sequence,
)
from chatwrap.grammar.marks import PLAIN, Marks, parts_of
from chatwrap.grammar.rules import RuleBook, renamed
from chatwrap.grammar.schema.convert import Options
from chatwrap.grammar.schema.report import Finding

MAX_CALLS: Final = 16

_DIGIT = CharClass(((48, 57),))
_ALPHANUMERIC = CharClass(((48, 57), (65, 90), (97, 122)))
# What a model may write where a call's id or its number in the conversation stands.
_NUMBERS: Final[Mapping[Slot, Expression]] = {
    Slot.CALL_ID: Repetition(_ALPHANUMERIC, 9, 9),
    Slot.CALL_INDEX: alternation([Literal("0"), sequence(CharClass(((49, 57),)), Repetition(_DIGIT, 0, 5))]),
}

_Head = tuple["str | Expression", ...]


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls made together: the texts that they may begin with, and what follows each.

    No text is the beginning of another.
    """

    starts: Mapping[str, Expression]

    @property
    def whole(self) -> Expression:
        return alternation(sequence(Literal(start), rest) for start, rest in self.starts.items())


@dataclass(slots=True)
class CallsWriter:
    """Writes calls into a rule book; the rules of the n-th function's arguments start with ``f1-``.

    Law: what it writes is a call prefix, a known name, the params prefix, arguments in the format's
    notation that are valid by the function's schema as far as the findings call it enforced, and the
    suffix; where the format has calls made together, a whole section of one to `max_calls` of them.
    A section's end may be missing, from any of its tags on, if it isn't known what ends the turn.
    """

    book: RuleBook
    settings: ChatWrapperSettings
    options: Options
    marks: Marks = PLAIN
    findings: list[Finding] = field(default_factory=list)

    def calls(self, functions: ChatModelFunctions, max_calls: int = MAX_CALLS) -> Calls:
        """Calls of the functions. Raises what `chosen_functions` and the conversion of schemas do."""
        tails = self._tails(functions)
        call = self.settings.functions.call
        starts: dict[str, Expression] = {}
        for prefix in (call.prefix, *call.prefix_alternate_matches):
            start, rest = self._split(prefix, "prefix")
            self._add(starts, start, self._heads(rest, tails))
        first = self._split(call.prefix, "prefix")[0]
        ending = self._ending(sequence(Literal(first), starts[first]), max_calls)
        opening = self._text(self._parallel.section_prefix, "section_prefix")
        return Calls(_merged({opening + s: sequence(rest, ending) for s, rest in starts.items()}))

    @property
    def _parallel(self) -> ParallelCallsSyntax:
        return self.settings.functions.parallelism or ParallelCallsSyntax()

    def _add(self, starts: dict[str, Expression], start: str, rest: Expression) -> None:
        rule = self.book.name(rest, "call")
        starts[start] = alternation([starts[start], rule]) if start in starts else rule

    def _tails(self, functions: ChatModelFunctions) -> dict[str, Expression]:
        """By name, the arguments of each function and what follows them."""
        faults: list[Fault] = []
        tails: dict[str, Expression] = {}
        for number, (name, function) in enumerate(functions.items(), 1):
            try:
                arguments = self._arguments(function, f"f{number}-", f"functions.{name}.params")
            except SchemaError as error:
                faults += error.faults
                continue
            tails[name] = self.book.name(sequence(arguments, self._suffix(name)), "tail")
        if faults:
            raise SchemaError(faults)
        return tails

    def _heads(self, rest: Sequence[LlamaTextValue | Slot], tails: Mapping[str, Expression]) -> Expression:
        """What follows a prefix up to its first slot: names with their arguments."""
        call = self.settings.functions.call
        heads: dict[_Head, Expression] = {}
        for name, tail in tails.items():
            start = self._head(rest, name, "prefix")
            for between in (call.params_prefix, *call.params_prefix_alternate_matches):
                heads[(*start, *name, *self._head(as_slotted(between).parts, name, "params_prefix"))] = tail
        return _factored(heads)

    def _head(self, parts: Sequence[LlamaTextValue | Slot], name: str, where: str) -> _Head:
        found: list[str | Expression] = []
        for part in parts:
            if isinstance(part, Slot) and part in _NUMBERS:
                found.append(_NUMBERS[part])
            else:
                found += name if part == Slot.FUNCTION_NAME else self._plain(part, where)
        return tuple(found)

    def _split(self, text: SyntaxText, where: str) -> tuple[str, Sequence[LlamaTextValue | Slot]]:
        """A text up to its first slot, spelled, and its parts from there on."""
        parts = as_slotted(text).parts
        at = next((at for at, part in enumerate(parts) if isinstance(part, Slot)), len(parts))
        return "".join(self._plain(part, where) for part in parts[:at]), parts[at:]

    def _plain(self, part: LlamaTextValue | Slot, where: str) -> str:
        if isinstance(part, Slot | SpecialToken):
            remedy = "Write the text that stands there."
            raise GrammarError.of(f"functions.call.{where}", f"{part!r} has no text of its own.", remedy)
        return self.marks.spell(str(part))

    def _text(self, text: SyntaxText, where: str) -> str:
        return "".join(self._plain(part, where) for part in as_slotted(text).parts)

    def _suffix(self, name: str) -> Expression:
        """What follows a call's arguments, up to what ends the turn."""
        written: list[Expression] = []
        for part in as_slotted(self.settings.functions.call.suffix).parts:
            if isinstance(part, Slot | SpecialToken):
                written += (_symbol(symbol) for symbol in self._head([part], name, "suffix"))
                continue
            before, stop = self.marks.before_stop(str(part))
            written.append(Literal(self.marks.spell(before)))
            if stop is not None:
                return sequence(*written, self._stop(stop))
        return sequence(*written)

    def _stop(self, stop: str) -> Expression:
        spelled = self.marks.spell(stop)
        return optional(Literal(spelled)) if spelled else EMPTY

    @property
    def _ends_turn(self) -> bool:
        """Whether a call's own suffix ends the turn, so that no other call follows it."""
        parts = as_slotted(self.settings.functions.call.suffix).parts
        return any(self.marks.before_stop(str(part))[1] is not None for part in parts)

    def _ending(self, call: Expression, max_calls: int) -> Expression:
        """What follows the first call: further calls, and the end of their section."""
        parallel = self.settings.functions.parallelism
        between = self._text(self._parallel.between_calls or self._between_parts, "between_calls")
        may_repeat = parallel is not None or bool(between)
        if self._ends_turn:
            return EMPTY
        again = sequence(Literal(between), call)
        more = Repetition(self.book.name(again, "again"), 0, max_calls - 1)
        suffix = self._section_suffix("" if parallel is None else parallel.section_suffix)
        return sequence(more if may_repeat and max_calls > 1 else EMPTY, suffix)

    @property
    def _between_parts(self) -> SyntaxText:
        return self.settings.segments.between_parts

    def _section_suffix(self, text: SyntaxText) -> Expression:
        whole = "".join(map(str, as_slotted(text).parts))
        before, stop = self.marks.before_stop(whole)
        if stop is not None:
            return sequence(Literal(self.marks.spell(before)), self._stop(stop))
        if self.marks.stops:
            return Literal(self._text(text, "section_suffix"))
        self._text(text, "section_suffix")
        ending: Expression = EMPTY
        for part in reversed(parts_of(whole)):
            ending = optional(sequence(Literal(self.marks.spell(part)), ending))
        return ending

    def _arguments(self, function: ChatModelFunction, prefix: str, where: str) -> Expression:
        """The arguments of a function; of one without parameters, none or what stands for none."""
        call = self.settings.functions.call
        notation = call.arguments
        if function.parameters is None and isinstance(notation, JsonNotation):
            placeholder = call.empty_call_params_placeholder
            written = "" if placeholder in ("", None) else dump_json(placeholder)
            return alternation([Literal("{}"), Literal(written)])
        schema = _object_schema(function.parameters or {"additionalProperties": False})
        text = CallText(self.marks, self._call_suffix)
        try:
            tree, report = convert_arguments(schema, self.options, notation, text)
        except SchemaError as error:
            raise SchemaError(replace(f, where=_moved(f.where, where)) for f in error.faults) from None
        self.findings += (replace(f, path=_moved(f.path, where)) for f in report.findings)
        for name, expression in tree.rules.items():
            self.book.rules[prefix + name] = renamed(expression, prefix)
        return Reference(f"{prefix}root")

    @property
    def _call_suffix(self) -> str:
        """What closes every call, up to a name in it."""
        parts = as_slotted(self.settings.functions.call.suffix).parts
        before = next(
            (at for at, part in enumerate(parts) if isinstance(part, Slot | SpecialToken)), len(parts)
        )
        return "".join(self.marks.spell(str(part)) for part in parts[:before])


def chosen_functions(functions: ChatModelFunctions, name: str | None, max_calls: int) -> ChatModelFunctions:
    """The functions that may be called: all, or the one called `name`.

    Raises `GrammarError` without functions, `OptionError` for a `max_calls` that isn't 1 to 1000,
    `UnknownNameError` for a name that isn't among them.
    """
    if max_calls < 1 or max_calls > 1000:
        raise OptionError.of("max_calls", f"must be from 1 to 1000, not {max_calls!r}.")
    if name is not None and name not in functions:
        raise UnknownNameError("function", name, list(functions), "The functions given")
    if not functions:
        raise GrammarError.of("functions", "there is none to call.", "Give at least one.")
    return functions if name is None else {name: functions[name]}


def _object_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments are named, so a schema that doesn't say its type is an object's."""
    return dict(parameters) if "type" in parameters else {**parameters, "type": "object"}


def _moved(path: str, where: str) -> str:
    return where + path.removeprefix("$")


def _symbol(symbol: str | Expression) -> Expression:
    return Literal(symbol) if isinstance(symbol, str) else symbol


def _factored(tails: Mapping[_Head, Expression]) -> Expression:
    """One of the heads with its tail, shared beginnings written once: llama.cpp follows one reading."""
    groups: dict[_Head, dict[_Head, Expression]] = {}
    for head, tail in tails.items():
        groups.setdefault(head[:1], {})[head] = tail
    options: list[Expression] = []
    for heads in groups.values():
        common = _shared_start(list(heads))
        rest = {head[len(common) :]: tail for head, tail in heads.items()}
        written = sequence(*(_symbol(symbol) for symbol in common))
        options.append(sequence(written, _factored(rest) if len(rest) > 1 else rest[()]))
    return alternation(options)


def _shared_start(heads: Sequence[_Head]) -> _Head:
    shortest = min(map(len, heads))
    length = next((n for n in range(shortest) if len({head[n] for head in heads}) > 1), shortest)
    return heads[0][:length]


def _merged(starts: Mapping[str, Expression]) -> dict[str, Expression]:
    """The starts, one that begins with another written as what follows that one."""
    merged: dict[str, Expression] = {}
    for start in sorted(starts):
        shorter = next((other for other in merged if start.startswith(other)), None)
        if shorter is None:
            merged[start] = starts[start]
        else:
            longer = sequence(Literal(start[len(shorter) :]), starts[start])
            merged[shorter] = alternation([merged[shorter], longer])
    return merged
