"""Template strings such as ``"user: {{message}}\\n"``: split at their slots, check, report.

A slot is written ``{{name}}`` or ``<<name>>``, one style a string; angles are there for strings
kept inside Jinja or Handlebars. In angles only slot names count, so Llama 2's ``<<SYS>>`` stays text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from chatwrap.chat.slotted import Slot
from chatwrap.errors import Fault

_BRACES = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_ANGLES = re.compile(r"<<\s*(\w+)\s*>>")


@dataclass(frozen=True, slots=True)
class SlotRule:
    """A slot that a template string must (or may) hold, and where text has to stand around it.

    `purpose` ends the sentence "Put it once, where ...". A slot that may stand `anywhere` has no
    place in the order of the rules.
    """

    slot: Slot
    purpose: str
    optional: bool = False
    repeatable: bool = False
    anywhere: bool = False
    needs_text_before: str = ""
    needs_text_after: str = ""


@dataclass(frozen=True, slots=True)
class SlotString:
    """A template string cut at its slots: ``texts[0] slots[0] texts[1] slots[1] ... texts[-1]``."""

    texts: tuple[str, ...]
    slots: tuple[Slot, ...]

    @property
    def parts(self) -> tuple[str | Slot, ...]:
        """All texts and slots in a row, empty texts left out."""
        return self._parts(0, len(self.slots))

    def before(self, slot: Slot) -> str:
        """The text between the first `slot` and the slot (or start) before it."""
        return self.texts[self.slots.index(slot)]

    def after(self, slot: Slot) -> str:
        """The text between the first `slot` and the slot (or end) behind it."""
        return self.texts[self.slots.index(slot) + 1]

    def parts_after(self, slot: Slot) -> tuple[str | Slot, ...]:
        """All that follows the first `slot`: texts and repeated slots, empty texts left out."""
        return self._parts(self.slots.index(slot) + 1, len(self.slots))

    def parts_before(self, slot: Slot) -> tuple[str | Slot, ...]:
        """All that stands before the first `slot`, empty texts left out."""
        return self._parts(0, self.slots.index(slot))

    def parts_between(self, first: Slot, second: Slot) -> tuple[str | Slot, ...]:
        """All that stands between the first `first` and the first `second` behind it."""
        start = self.slots.index(first) + 1
        return self._parts(start, self.slots.index(second, start))

    def _parts(self, start: int, end: int) -> tuple[str | Slot, ...]:
        parts: list[str | Slot] = [self.texts[start]]
        for index in range(start, end):
            parts += [self.slots[index], self.texts[index + 1]]
        return tuple(part for part in parts if part)


def split(template: object, rules: Sequence[SlotRule], *, where: str) -> tuple[SlotString, list[Fault]]:
    """`template` cut at the slots of `rules`, which must stand in that order, and its faults.

    The string is usable only if there are no faults; all are found in one pass.

    >>> text, faults = split("<u>{{message}}</u>", [SlotRule(Slot.MESSAGE, "the message goes")], where="user")
    >>> text.texts, faults
    (('<u>', '</u>'), [])
    """
    if not isinstance(template, str):
        kind = type(template).__name__
        return SlotString(("",), ()), [Fault(where, f"must be a string, not a {kind}: {template!r}.")]
    pattern, mark = _style(template)
    text = _cut(template, pattern, {rule.slot for rule in rules})
    faults = _mixed_faults(template, pattern, where) + _order_faults(template, text, rules, where, mark)
    faults += _stranger_faults(template, pattern, {rule.slot for rule in rules}, where, mark)
    faults += _neighbour_faults(template, text, rules, where, mark)
    return text, faults


def _mixed_faults(template: str, pattern: re.Pattern[str], where: str) -> list[Fault]:
    other = _ANGLES if pattern is _BRACES else _BRACES
    strangers = [match[0] for match in other.finditer(template) if match[1] in set(Slot)]
    return [
        Fault(where, f"{slot} beside slots of the other style in {template!r}.", "Use one style in a string.")
        for slot in strangers[:1]
    ]


def _style(template: str) -> tuple[re.Pattern[str], str]:
    known = {str(slot) for slot in Slot}
    angles = any(match[1] in known for match in _ANGLES.finditer(template))
    braces = any(match[1] in known for match in _BRACES.finditer(template))
    return (_ANGLES, "<<{}>>") if angles and not braces else (_BRACES, "{{{{{}}}}}")


def _cut(template: str, pattern: re.Pattern[str], slots: set[Slot]) -> SlotString:
    texts, found, end = [], [], 0
    for match in pattern.finditer(template):
        if match[1] in slots:
            texts.append(template[end : match.start()])
            found.append(Slot(match[1]))
            end = match.end()
    return SlotString((*texts, template[end:]), tuple(found))


def _order_faults(
    template: str, text: SlotString, rules: Sequence[SlotRule], where: str, mark: str
) -> list[Fault]:
    faults = []
    previous: SlotRule | None = None
    for rule in rules:
        name = mark.format(rule.slot)
        if rule.slot not in text.slots:
            if not rule.optional:
                faults.append(
                    Fault(where, f"no {name} in {template!r}.", f"Put it once, where {rule.purpose}.")
                )
            continue
        if text.slots.count(rule.slot) > 1 and not rule.repeatable:
            count = text.slots.count(rule.slot)
            faults.append(
                Fault(
                    where,
                    f"{name} stands {count} times in {template!r}.",
                    f"Put it once, where {rule.purpose}.",
                )
            )
        if rule.anywhere:
            continue
        if previous and text.slots.index(rule.slot) < text.slots.index(previous.slot):
            before = mark.format(previous.slot)
            faults.append(
                Fault(where, f"{name} stands before {before} in {template!r}.", f"Put {before} first.")
            )
        previous = rule
    return faults


def _stranger_faults(
    template: str, pattern: re.Pattern[str], slots: set[Slot], where: str, mark: str
) -> list[Fault]:
    """Slots that belong elsewhere, misspelt and unknown ones: they would reach the model as text."""
    faults = []
    known = {_folded(slot): slot for slot in slots}
    for match in pattern.finditer(template):
        name = match[1]
        if name in slots:
            continue
        if name in set(Slot):
            allowed = ", ".join(mark.format(slot) for slot in sorted(slots))
            faults.append(Fault(where, f"{match[0]} has no place in {template!r}.", f"Here stand {allowed}."))
        elif close := difflib.get_close_matches(_folded(name), known, n=1, cutoff=0.7):
            remedy = f"Did you mean {mark.format(known[close[0]])}?"
            faults.append(Fault(where, f"no slot {match[0]} in {template!r}.", remedy))
        elif pattern is _BRACES:
            allowed = ", ".join(mark.format(slot) for slot in sorted(slots))
            faults.append(Fault(where, f"no slot {match[0]} in {template!r}.", f"Here stand {allowed}."))
    return faults


def _folded(name: str) -> str:
    return name.casefold().replace("_", "")


def _neighbour_faults(
    template: str, text: SlotString, rules: Sequence[SlotRule], where: str, mark: str
) -> list[Fault]:
    faults = []
    fillers = {rule.slot for rule in rules if rule.anywhere or rule.repeatable}
    for rule in rules:
        if rule.slot not in text.slots:
            continue
        name = mark.format(rule.slot)
        if rule.needs_text_before and not _has_text(text.parts_before(rule.slot), fillers):
            faults.append(Fault(where, f"no text before {name} in {template!r}.", rule.needs_text_before))
        if rule.needs_text_after and not _has_text(text.parts_after(rule.slot), fillers):
            faults.append(Fault(where, f"no text after {name} in {template!r}.", rule.needs_text_after))
    return faults


def _has_text(parts: Sequence[str | Slot], fillers: set[Slot]) -> bool:
    """Whether there is text, or a slot that stands in for it; one out of its order doesn't."""
    return any(not isinstance(part, Slot) or part in fillers for part in parts)
