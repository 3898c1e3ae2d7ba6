"""Writes the arguments of a function call in a format's notation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, assert_never

from chatwrap.chat.json_text import dump_json
from chatwrap.chat.notation import (
    ArgumentNotation,
    BareKeyNotation,
    JsonNotation,
    KeywordNotation,
    TaggedNotation,
)
from chatwrap.chat.slotted import Slot, as_slotted
from chatwrap.chat.text import LlamaText, LlamaTextInput
from chatwrap.errors import HistoryError

_MAX_DEPTH: Final = 200


def written_arguments(notation: ArgumentNotation, arguments: Any, *, where: str) -> LlamaText:
    """`arguments` (any JSON value) as `notation` writes them; the marks of the notation are control text.

    Raises `HistoryError`, which calls them `where`, for what can't be written: values that aren't JSON,
    and anything but a mapping in the notations that name each argument.

    >>> str(written_arguments(KeywordNotation(), {"city": "Oslo", "days": 2}, where="arguments"))
    "city='Oslo', days=2"
    """
    as_json = dump_json(arguments, where=where)  # refuses what no notation can hold
    match notation:
        case JsonNotation():
            return LlamaText(as_json)
        case TaggedNotation():
            return LlamaText(list(_tagged(notation, _named(arguments, where))))
        case KeywordNotation():
            pairs = [
                f"{name}={_keyword(value, notation)}" for name, value in _named(arguments, where).items()
            ]
            return LlamaText.join_values(as_slotted(notation.between).fill({}), pairs)
        case BareKeyNotation():
            return _bare(_named(arguments, where), notation, where)
        case _:
            assert_never(notation)


def _named(arguments: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(arguments, Mapping):
        problem = f"{dump_json(arguments)} isn't an object, and the format writes each argument by its name."
        raise HistoryError.of(where, problem, "Give a mapping.")
    return arguments


def _tagged(notation: TaggedNotation, arguments: Mapping[str, Any]) -> Iterator[LlamaTextInput]:
    for index, (name, value) in enumerate(arguments.items()):
        filling = {
            Slot.PARAMETER_NAME: name,
            Slot.IS_STRING: "true" if isinstance(value, str) else "false",
        }
        if index:
            yield as_slotted(notation.between).fill({})
        yield as_slotted(notation.prefix).fill(filling)
        yield _tagged_value(value, notation.literals)
        yield as_slotted(notation.suffix).fill(filling)


def _tagged_value(value: Any, literals: Literal["json", "python", "python_containers"]) -> str:
    if isinstance(value, str):
        return value
    is_container = isinstance(value, Mapping | list | tuple)
    if literals == "json" or (literals == "python" and is_container):
        return dump_json(value)
    return repr(value)


def _keyword(value: Any, notation: KeywordNotation) -> str:
    as_json = notation.mappings == "json" and isinstance(value, Mapping)
    return dump_json(value) if as_json else repr(value)


def _bare(value: Any, notation: BareKeyNotation, where: str, depth: int = 0) -> LlamaText:
    """`value` with bare keys, its strings between quotes."""
    if depth > _MAX_DEPTH:
        raise HistoryError.of(where, "nested too deep to be written.", "Flatten them.")
    match value:
        case str():
            quote = as_slotted(notation.quote).fill({})
            return LlamaText(quote, value, quote)
        case Mapping():
            members = sorted(value.items(), key=_by_key) if notation.sorts_keys else value.items()
            pairs = [
                LlamaText(f"{key}:", _bare(member, notation, where, depth + 1)) for key, member in members
            ]
            return LlamaText("{", LlamaText.join_values(",", pairs), "}")
        case list() | tuple():
            return LlamaText(
                "[",
                LlamaText.join_values(",", [_bare(entry, notation, where, depth + 1) for entry in value]),
                "]",
            )
    return LlamaText(notation.null if value is None else dump_json(value))


def _by_key(member: tuple[str, Any]) -> str:
    """Jinja's ``dictsort`` takes no notice of case."""
    return member[0].lower()
