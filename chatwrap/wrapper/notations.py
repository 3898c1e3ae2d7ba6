"""Reads how a format writes arguments from the option ``function_call_arguments``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from chatwrap.chat.notation import (
    ArgumentNotation,
    BareKeyNotation,
    JsonNotation,
    KeywordNotation,
    TaggedNotation,
)
from chatwrap.chat.slotted import Slot, SlottedText
from chatwrap.chat.syntax import FunctionsSyntax
from chatwrap.chat.text import control
from chatwrap.errors import Fault
from chatwrap.wrapper.reader import TemplateReader, slotted
from chatwrap.wrapper.slots import SlotRule

_WHERE: Final = "function_call_arguments"
_LITERALS: Final = ("json", "python", "python_containers")
_MAPPINGS: Final = ("python", "json")
_ABSENT: Final = ("nothing", "empty_object")
_IS_STRING: Final = SlotRule(
    Slot.IS_STRING, "true or false goes", optional=True, repeatable=True, anywhere=True
)
_PREFIX_RULES: Final = (
    _IS_STRING,
    SlotRule(
        Slot.PARAMETER_NAME,
        "the argument's name goes",
        repeatable=True,
        needs_text_before="Put there what opens an argument.",
        needs_text_after="Put there what ends the argument's name.",
    ),
)
_SUFFIX_RULES: Final = (
    SlotRule(Slot.PARAMETER_NAME, "the argument's name goes", optional=True, repeatable=True, anywhere=True),
)


def read_notation(options: object, reader: TemplateReader) -> tuple[ArgumentNotation, str | None]:
    """The notation that the option describes, and what it says of absent arguments; faults go to `reader`."""
    if options is None:
        return JsonNotation(), None
    form = options.get("form") if isinstance(options, Mapping) else None
    keys = _KEYS.get(form, ()) if isinstance(form, str) else ()
    if isinstance(options, Mapping):
        reader.choice(form, tuple(_KEYS), f"{_WHERE}.form")
    given = reader.mapping(options, _WHERE, optional=("form", *keys, "absent"))
    absent = given.get("absent")
    if absent is not None:
        absent = reader.choice(absent, _ABSENT, f"{_WHERE}.absent")
    read = _READERS.get(str(form))
    return read(given, reader) if read else JsonNotation(), absent


def with_notation(
    functions: FunctionsSyntax, notation: tuple[ArgumentNotation, str | None]
) -> FunctionsSyntax:
    """`functions` with this notation of arguments, and what stands for absent ones."""
    written, absent = notation
    call = replace(functions.call, arguments=written)
    if absent == "empty_object":
        call = replace(call, empty_call_params_placeholder={})
    return replace(functions, call=call)


def _tagged(given: Mapping[str, Any], reader: TemplateReader) -> TaggedNotation:
    return TaggedNotation(
        prefix=_slotted(given, "prefix", _PREFIX_RULES, reader),
        suffix=_slotted(given, "suffix", _SUFFIX_RULES, reader),
        between=control(reader.text(given.get("between", ""), f"{_WHERE}.between")),
        literals=reader.choice(given.get("literals", "json"), _LITERALS, f"{_WHERE}.literals"),  # type: ignore[arg-type]
    )


def _slotted(
    given: Mapping[str, Any], key: str, rules: tuple[SlotRule, ...], reader: TemplateReader
) -> SlottedText:
    if not given.get(key):
        reader.faults.append(Fault(f"{_WHERE}.{key}", "missing.", "Say what stands around an argument."))
        return SlottedText(())
    text = reader.split(given[key], rules, f"{_WHERE}.{key}")
    return slotted(text.parts) if text else SlottedText(())


def _keywords(given: Mapping[str, Any], reader: TemplateReader) -> KeywordNotation:
    return KeywordNotation(
        between=control(reader.text(given.get("between", ", "), f"{_WHERE}.between")),
        mappings=reader.choice(given.get("mappings", "python"), _MAPPINGS, f"{_WHERE}.mappings"),  # type: ignore[arg-type]
    )


def _bare_keys(given: Mapping[str, Any], reader: TemplateReader) -> BareKeyNotation:
    if not given.get("quote"):
        reader.faults.append(Fault(f"{_WHERE}.quote", "missing.", "Say what stands around a string."))
    return BareKeyNotation(
        quote=control(reader.text(given.get("quote", ""), f"{_WHERE}.quote")),
        sorts_keys=reader.flag(given.get("sorts_keys", False), f"{_WHERE}.sorts_keys"),
        null=reader.text(given.get("null", "null"), f"{_WHERE}.null"),
    )


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any], TemplateReader], ArgumentNotation]]] = {
    "tagged": _tagged,
    "keywords": _keywords,
    "bare_keys": _bare_keys,
}
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "json": (),
    "tagged": ("prefix", "suffix", "between", "literals"),
    "keywords": ("between", "mappings"),
    "bare_keys": ("quote", "sorts_keys", "null"),
}
