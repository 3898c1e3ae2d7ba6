"""The arguments of a function call as a grammar, in the notation of a chat format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, assert_never

from chatwrap.chat.notation import (
    ArgumentNotation,
    BareKeyNotation,
    JsonNotation,
    KeywordNotation,
    TaggedNotation,
)
from chatwrap.chat.slotted import Slot, SyntaxText, as_slotted
from chatwrap.grammar.automaton import Automaton
from chatwrap.grammar.charset import Ranges
from chatwrap.grammar.free_text import text_before
from chatwrap.grammar.gbnf import (
    EMPTY,
    NEVER,
    Expression,
    GrammarTree,
    Literal,
    alternation,
    optional,
    sequence,
)
from chatwrap.grammar.marks import Marks, core
from chatwrap.grammar.regex import compile_pattern
from chatwrap.grammar.schema.conjunction import Element
from chatwrap.grammar.schema.convert import Converter, Manner, Options
from chatwrap.grammar.schema.document import Document
from chatwrap.grammar.schema.layout import Layout
from chatwrap.grammar.schema.members import Frame
from chatwrap.grammar.schema.report import Recorder, Report
from chatwrap.grammar.schema.spelling import BareKeys, Json, Python, Raw, Spelling, identifiers

_SPACE: Final = optional(Literal(" "))
_OTHERS: Final = ["null", "boolean", "number", "array", "object"]
# Strings that a reader would take for another value.
_VALUE_LIKE: Final = r"^\s*([{\[\"'][\s\S]*|-?[0-9][\s\S]*|(true|false|null|True|False|None)\s*)$"


@dataclass(frozen=True, slots=True)
class CallText:
    """What stands behind a call's arguments, and how control text is spelled."""

    marks: Marks
    suffix: str


def convert_arguments(
    schema: dict[str, Any], options: Options, notation: ArgumentNotation, text: CallText
) -> tuple[GrammarTree, Report]:
    """The grammar of arguments that are valid by `schema`, and what it enforces.

    Law: what it accepts has one reading in the notation, and that is valid by the schema as far as the
    report calls it enforced. A string that stands as it is holds neither what closes its argument nor
    what closes the call, and where it might be taken for another value that the schema allows, no text
    that looks like one. In the notations that name each argument, others than the schema's are
    identifiers. Raises what `convert` does.
    """
    converter = Converter(Document(schema, Recorder()), options)
    return converter.converted(_root(converter, notation, text))


def _root(converter: Converter, notation: ArgumentNotation, text: CallText) -> Manner:
    match notation:
        case JsonNotation():
            return converter.values
        case BareKeyNotation():
            quote = _spelled(notation.quote, text.marks)
            spelling = BareKeys(quote, notation.null, text.marks.reserved)
            return converter.manner(
                Layout(EMPTY, EMPTY, EMPTY, spelling=spelling, sorts_keys=notation.sorts_keys)
            )
        case KeywordNotation():
            return _framed(converter, _Keywords(converter, notation, text.marks))
        case TaggedNotation():
            return _framed(converter, _Tagged(converter, notation, text))
        case _:
            assert_never(notation)


def _framed(converter: Converter, form: _Keywords | _Tagged) -> Manner:
    """The manner of the arguments as a whole: an object in a form of its own, and nothing else."""
    values = converter.values
    return Manner(values.scalars, values.arrays, converter.objects(form), frozenset(["object"]))


def _spelled(text: SyntaxText, marks: Marks) -> str:
    return "".join(marks.spell(str(part)) for part in as_slotted(text).parts)


def _python(converter: Converter) -> Manner:
    return converter.manner(Layout(_SPACE, _SPACE, EMPTY, spelling=Python()))


def _restricted(converter: Converter, schemas: Sequence[Element], types: list[str]) -> list[Element]:
    """The schemas, and that the value is of one of these types."""
    return [*schemas, converter.document.make({"type": types}, "$")]


class _Keywords:
    """``name=value``; `between` stands between arguments."""

    sorts_keys = False

    def __init__(self, converter: Converter, notation: KeywordNotation, marks: Marks) -> None:
        self._converter, self._notation = converter, notation
        self._python = _python(converter)
        self._between = Literal(_spelled(notation.between, marks))

    @property
    def frame(self) -> Frame:
        return Frame(EMPTY, self._between, EMPTY, EMPTY)

    def member(self, name: str, schemas: Sequence[Element]) -> Expression:
        return sequence(Literal(f"{name}="), self._value(schemas))

    def other_member(self, names: Automaton | None, schemas: Sequence[Element]) -> Expression:
        key = self._converter.book.plain_text(identifiers(names))
        return NEVER if key == NEVER else sequence(key, Literal("="), self._value(schemas))

    def _value(self, schemas: Sequence[Element]) -> Expression:
        converter = self._converter
        if self._notation.mappings == "python":
            return converter.later(schemas, self._python)
        others = _restricted(converter, schemas, [*_OTHERS[:-1], "string"])
        mappings = _restricted(converter, schemas, ["object"])
        return alternation([
            converter.later(others, self._python),
            converter.later(mappings, converter.values),
        ])  # fmt: skip


class _Tagged:
    """Each argument between marks of its own: strings as they are, other values as literals."""

    sorts_keys = False

    def __init__(self, converter: Converter, notation: TaggedNotation, text: CallText) -> None:
        self._converter, self._notation, self._text = converter, notation, text
        self._nested = _python(converter) if notation.literals == "python_containers" else converter.values
        words: Spelling = Json() if notation.literals == "json" else Python()
        self._others = self._manner(words)
        self._raw: dict[tuple[str, bool], Manner] = {}
        self._tells_strings = Slot.IS_STRING in as_slotted(notation.prefix).parts

    def _manner(self, spelling: Spelling) -> Manner:
        """Values of an argument: scalars in `spelling`, arrays and objects in the nested manner."""
        nested = self._nested
        layout = Layout(EMPTY, EMPTY, EMPTY, spelling=spelling, nested=nested.scalars.layout)
        return Manner(self._converter.scalars(layout), nested.arrays, nested.objects, nested=nested)

    @property
    def frame(self) -> Frame:
        between = Literal(_spelled(self._notation.between, self._text.marks))
        return Frame(EMPTY, between, EMPTY, EMPTY)

    def member(self, name: str, schemas: Sequence[Element]) -> Expression:
        return self._argument(Literal(name), name, schemas)

    def other_member(self, names: Automaton | None, schemas: Sequence[Element]) -> Expression:
        if Slot.PARAMETER_NAME in as_slotted(self._notation.suffix).parts:
            return NEVER  # a grammar can't say the same unknown name twice
        key = self._converter.book.plain_text(identifiers(names))
        return NEVER if key == NEVER else self._argument(key, "", schemas)

    def _argument(self, key: Expression, name: str, schemas: Sequence[Element]) -> Expression:
        converter = self._converter
        suffix = self._filled(self._notation.suffix, name)
        text_only = converter.is_text_only(schemas)
        texts = converter.later(
            _restricted(converter, schemas, ["string"]), self._raw_manner(suffix, text_only=text_only)
        )
        others = converter.later(_restricted(converter, schemas, _OTHERS), self._others)
        options = [sequence(self._opening(key, is_string="true"), texts, Literal(suffix))]
        if not text_only:
            options.append(sequence(self._opening(key, is_string="false"), others, Literal(suffix)))
        return alternation(options)

    def _opening(self, key: Expression, *, is_string: str) -> Expression:
        written: list[Expression] = []
        for part in as_slotted(self._notation.prefix).parts:
            if part == Slot.PARAMETER_NAME:
                written.append(key)
            else:
                text = is_string if part == Slot.IS_STRING else self._text.marks.spell(str(part))
                written.append(Literal(text))
        return sequence(*written)

    def _filled(self, text: SyntaxText, name: str) -> str:
        parts = as_slotted(text).parts
        return "".join(
            name if part == Slot.PARAMETER_NAME else self._text.marks.spell(str(part)) for part in parts
        )

    def _raw_manner(self, suffix: str, *, text_only: bool) -> Manner:
        key = (suffix, text_only or self._tells_strings)
        if key not in self._raw:
            closing = (core(suffix), core(self._text.suffix), *map(core, self._text.marks.stops))
            allowed = _raw_texts(suffix, closing, self._text.marks.reserved, is_marked=key[1])
            self._raw[key] = self._manner(Raw(allowed))
        return self._raw[key]


@lru_cache(maxsize=64)
def _raw_texts(suffix: str, closing: tuple[str, ...], reserved: Ranges, *, is_marked: bool) -> Automaton:
    """The strings that may stand as they are."""
    allowed = text_before(suffix, closing, reserved)
    return allowed if is_marked else allowed - compile_pattern(_VALUE_LIKE)
