"""Learns how a chat template writes arguments between tags, from the text of one call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from chatwrap.chat.history import ChatModelFunctionCall
from chatwrap.chat.notation import TaggedNotation
from chatwrap.chat.slotted import Slot, SlottedText
from chatwrap.chat.text import SpecialTokensText
from chatwrap.wrapper.edges import snapped_prefix

KEYS: Final = ("Qkeyaq", "Qkeybq", "Qkeycq")
NUMBER: Final = 907531
_LITERALS: Final = ("json", "python", "python_containers")


def tagged_notations(text: str, call: ChatModelFunctionCall) -> Iterator[TaggedNotation]:
    """The notations in which `text` may have written the call, none if its arguments aren't in their order.

    The call has two texts and a number under `KEYS`. What stands between a value and the next key, and
    between the last value and the result, begins with the suffix.
    """
    assert isinstance(call.arguments, dict)
    marks = [call.name]
    for key, value in call.arguments.items():
        marks += [key, str(value)]
    pieces = _between(text, [*marks, str(call.result)])
    if pieces is None:
        return
    opening, after_key, between, _, _, after_number_key, ending = pieces
    n_suffix = snapped_prefix(between, ending)
    suffix, before_key = between[:n_suffix], between[n_suffix:]
    if not suffix or not before_key or not opening.endswith(before_key):
        return
    prefix = _prefix(before_key, after_key, after_number_key)
    for literals in _LITERALS if prefix else ():
        yield TaggedNotation(prefix, SlottedText((SpecialTokensText(suffix),)), literals=literals)  # type: ignore[arg-type]


def _prefix(before_key: str, after_key: str, after_number_key: str) -> SlottedText | None:
    """The text that opens an argument: it may tell strings from other values in a true or false."""
    parts: tuple[str | Slot, ...] = (before_key, Slot.PARAMETER_NAME, after_key)
    if after_key != after_number_key:
        before, found, behind = after_key.partition("true")
        if not found or after_number_key != f"{before}false{behind}":
            return None
        parts = (before_key, Slot.PARAMETER_NAME, before, Slot.IS_STRING, behind)
    return SlottedText(tuple(part if isinstance(part, Slot) else SpecialTokensText(part) for part in parts))


def _between(text: str, marks: list[str]) -> list[str] | None:
    """What stands between neighbouring marks, from the first mark on; None if one is missing."""
    start = text.rfind(marks[0], 0, max(text.find(marks[1]), 0))
    if start < 0:
        return None
    position = start + len(marks[0])
    pieces = []
    for mark in marks[1:]:
        at = text.find(mark, position)
        if at < 0:
            return None
        pieces.append(text[position:at])
        position = at + len(mark)
    return pieces
