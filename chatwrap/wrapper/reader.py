"""Reads the template strings of a `TemplateChatWrapper` into typed values, and finds all their faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from chatwrap.chat.slotted import Slot, SlottedText
from chatwrap.chat.syntax import (
    FunctionCallSyntax,
    FunctionResultSyntax,
    FunctionsSyntax,
    SegmentsSyntax,
    SegmentSyntax,
)
from chatwrap.chat.text import SpecialTokensText, control
from chatwrap.errors import Fault
from chatwrap.wrapper.slots import SlotRule, SlotString, split

ROLES: Final = ("system", "user", "model")
SYSTEM_AND_USER: Final = "system_and_user"

_FRAME_RULES: Final = (
    SlotRule(Slot.SYSTEM_PROMPT, "the first system message goes", optional=True),
    SlotRule(Slot.HISTORY, "the conversation goes"),
    SlotRule(
        Slot.COMPLETION,
        "the model writes",
        needs_text_after="Put there what ends the model's turn: the stop triggers come from it.",
    ),
)
_OPEN_FRAME_RULES: Final = (*_FRAME_RULES[:2], SlotRule(Slot.COMPLETION, "the model writes"))
_MESSAGE_RULES: Final = (SlotRule(Slot.MESSAGE, "the message goes"),)
_HISTORY_RULES: Final = {
    **dict.fromkeys(ROLES, _MESSAGE_RULES),
    SYSTEM_AND_USER: (
        SlotRule(Slot.SYSTEM_PROMPT, "the system message goes"),
        SlotRule(Slot.MESSAGE, "the user's message goes"),
    ),
}
_CALL_IDS: Final = (
    SlotRule(Slot.CALL_ID, "the call's id goes", optional=True, repeatable=True, anywhere=True),
    SlotRule(Slot.CALL_INDEX, "the call's number goes", optional=True, repeatable=True, anywhere=True),
)
_CALL_RULES: Final = (
    *_CALL_IDS,
    SlotRule(
        Slot.FUNCTION_NAME,
        "the function's name goes",
        repeatable=True,
        needs_text_before="Put there what announces a call, so that it can be told from text.",
    ),
    SlotRule(
        Slot.FUNCTION_PARAMS,
        "the arguments go",
        needs_text_after="Put there what ends a call.",
    ),
)
_FRAMED_CALL_RULES: Final = (
    *_CALL_IDS,
    SlotRule(Slot.FUNCTION_NAME, "the function's name goes", repeatable=True),
    SlotRule(Slot.FUNCTION_PARAMS, "the arguments go"),
)
_RESULT_RULES: Final = (
    *_CALL_IDS,
    SlotRule(Slot.FUNCTION_NAME, "the function's name goes", optional=True, repeatable=True, anywhere=True),
    SlotRule(Slot.FUNCTION_PARAMS, "the arguments go", optional=True, repeatable=True, anywhere=True),
    SlotRule(
        Slot.FUNCTION_CALL_RESULT,
        "the result goes",
        needs_text_before="Put there what opens a result.",
        needs_text_after="Put there what ends a result.",
    ),
)
_SEGMENT_RULES: Final = (
    SlotRule(
        Slot.CONTENT,
        "the segment's text goes",
        needs_text_before="Put there what opens the segment.",
    ),
)
_SEGMENT_TEXTS: Final = (
    "thought_template",
    "comment_template",
    "text_template",
    "between_parts",
    "close_all_segments_template",
)
_SEGMENT_FLAGS: Final = ("reopen_thought_after_function_calls", "reiterate_stack_after_function_calls")


@dataclass(slots=True)
class TemplateReader:
    """Collects the faults of all strings before anything is raised; values are usable if there are none."""

    faults: list[Fault] = field(default_factory=list)

    def frame(self, template: object, *, ends_at_eos: bool = False) -> SlotString:
        """The string around the whole conversation; with `ends_at_eos` nothing need end the model's turn."""
        rules = _OPEN_FRAME_RULES if ends_at_eos else _FRAME_RULES
        return self.split(template, rules, "template") or SlotString(("",), ())

    def history(self, templates: object) -> dict[str, SlotString]:
        """The strings around the messages of each role."""
        where = "history_template"
        given = self.mapping(templates, where, needed=ROLES, optional=(SYSTEM_AND_USER,))
        read = {
            role: self.split(text, _HISTORY_RULES[role], f"{where}.{role}") for role, text in given.items()
        }
        return {role: text for role, text in read.items() if text}

    def functions(self, templates: object, *, are_framed: bool = False) -> FunctionsSyntax | None:
        """How calls and results are written, None if `templates` is None.

        If calls `are_framed` by a section, nothing need stand before the name or behind the arguments.
        """
        if templates is None:
            return None
        where = "function_call_message_template"
        alternates = "alternate_calls"
        given = self.mapping(templates, where, needed=("call", "result"), optional=(alternates,))
        rules = _FRAMED_CALL_RULES if are_framed else _CALL_RULES
        call = self.split(given["call"], rules, f"{where}.call") if "call" in given else None
        result = self.split(given["result"], _RESULT_RULES, f"{where}.result") if "result" in given else None
        if not call or not result:
            return None
        name, params, answer = Slot.FUNCTION_NAME, Slot.FUNCTION_PARAMS, Slot.FUNCTION_CALL_RESULT
        others = [
            read
            for index, text in enumerate(self.texts(given.get(alternates, ()), f"{where}.{alternates}"))
            if (read := self.split(text, rules, f"{where}.{alternates}[{index}]"))
        ]
        return FunctionsSyntax(
            call=FunctionCallSyntax(
                prefix=slotted(call.parts_before(name)),
                params_prefix=slotted(call.parts_between(name, params)),
                suffix=slotted(call.parts_after(params)),
                prefix_alternate_matches=tuple(slotted(other.parts_before(name)) for other in others),
                params_prefix_alternate_matches=tuple(
                    slotted(other.parts_between(name, params)) for other in others
                ),
            ),
            result=FunctionResultSyntax(
                prefix=slotted(result.parts_before(answer)), suffix=slotted(result.parts_after(answer))
            ),
        )

    def segments(self, options: object) -> SegmentsSyntax:
        """How thoughts and comments are marked; no marks at all if `options` is None."""
        if options is None:
            return SegmentsSyntax()
        given = self.mapping(options, "segments", optional=(*_SEGMENT_TEXTS, *_SEGMENT_FLAGS))
        self._check_kinds(given)
        close_all, between = (given.get(key) for key in ("close_all_segments_template", "between_parts"))
        reopen = given.get("reopen_thought_after_function_calls") is True
        return SegmentsSyntax(
            thought=self._segment(given, "thought_template", reopen=reopen),
            comment=self._segment(given, "comment_template", reopen=False),
            text=self._segment(given, "text_template", reopen=False),
            between_parts=control(between) if between and isinstance(between, str) else "",
            close_all_segments=control(close_all) if close_all and isinstance(close_all, str) else None,
            reiterate_stack_after_function_calls=given.get("reiterate_stack_after_function_calls") is True,
        )

    def _segment(self, given: Mapping[str, Any], key: str, *, reopen: bool) -> SegmentSyntax | None:
        text = self.split(given[key], _SEGMENT_RULES, f"segments.{key}") if key in given else None
        if not text:
            return None
        before, after = text.texts
        return SegmentSyntax(control(before), control(after) if after else None, reopen)

    def _check_kinds(self, given: Mapping[str, Any]) -> None:
        texts = ((key, str) for key in ("close_all_segments_template", "between_parts"))
        for key, kind in (*texts, *((flag, bool) for flag in _SEGMENT_FLAGS)):
            if key in given and not isinstance(given[key], kind):
                wanted = "a string" if kind is str else "true or false"
                self.faults.append(Fault(f"segments.{key}", f"must be {wanted}, not {given[key]!r}."))

    def split(self, text: object, rules: Sequence[SlotRule], where: str) -> SlotString | None:
        """`text` cut at its slots, None if it has faults."""
        slotted, faults = split(text, rules, where=where)
        self.faults += faults
        return None if faults else slotted

    def choice(self, value: object, choices: Sequence[str], where: str) -> str:
        """`value` if it is one of `choices`, else the first of them and a fault."""
        if isinstance(value, str) and value in choices:
            return value
        self.faults.append(Fault(where, f"must be one of {', '.join(choices)}, not {value!r}."))
        return choices[0]

    def flag(self, value: object, where: str) -> bool:
        """`value` if it is true or false, else false and a fault."""
        if not isinstance(value, bool):
            self.faults.append(Fault(where, f"must be true or false, not {value!r}."))
        return value is True

    def roles(self, value: object, where: str) -> frozenset[str]:
        """The roles that are listed, all of them for true and none for false."""
        if isinstance(value, bool):
            return frozenset(ROLES if value else ())
        if (
            isinstance(value, Sequence)
            and not isinstance(value, str)
            and all(role in ROLES for role in value)
        ):
            return frozenset(value)
        problem = f"must be true, false or a list of {', '.join(ROLES)}, not {value!r}."
        self.faults.append(Fault(where, problem))
        return frozenset()

    def text(self, value: object, where: str) -> str:
        """`value` if it is a string, else an empty one and a fault."""
        if not isinstance(value, str):
            self.faults.append(Fault(where, f"must be a string, not {value!r}."))
        return value if isinstance(value, str) else ""

    def texts(self, value: object, where: str) -> tuple[str, ...]:
        """The strings of a list, none of them empty."""
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        if not is_list or not all(isinstance(text, str) and text for text in value):  # type: ignore[attr-defined]
            self.faults.append(Fault(where, f"must be a list of strings that aren't empty, not {value!r}."))
            return ()
        return tuple(value)  # type: ignore[arg-type]

    def mapping(
        self, value: object, where: str, *, needed: Sequence[str] = (), optional: Sequence[str] = ()
    ) -> dict[str, Any]:
        """The known members of `value` that are given; reports missing and unknown ones."""
        known = (*needed, *optional)
        if not isinstance(value, Mapping):
            names = ", ".join(known)
            self.faults.append(Fault(where, f"must be a mapping, not {value!r}.", f"Give {names}."))
            return {}
        for key in needed:
            if value.get(key) is None:
                self.faults.append(Fault(f"{where}.{key}", "missing.", f"Give all of {', '.join(needed)}."))
        for key in value:
            if key not in known:
                self.faults.append(Fault(f"{where}.{key}", "unknown key.", f"Known are {', '.join(known)}."))
        return {key: value[key] for key in known if value.get(key) is not None}


def slotted(parts: Sequence[str | Slot]) -> SlottedText:
    """`parts` of a template string as a text of the format: what is no slot is control text."""
    return SlottedText(tuple(part if isinstance(part, Slot) else SpecialTokensText(part) for part in parts))
