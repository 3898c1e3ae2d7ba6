"""`TemplateChatWrapper`: a chat format in a few template strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any

from chatwrap.chat.functions import FunctionsLike
from chatwrap.chat.history import ChatHistoryItem, HistoryLike
from chatwrap.chat.syntax import (
    FunctionCallSyntax,
    FunctionResultSyntax,
    FunctionsSyntax,
    SegmentsSyntax,
    SegmentSyntax,
    Slot,
    SlottedText,
)
from chatwrap.chat.text import LlamaText, LlamaTextInput, SpecialToken, SpecialTokensText, control
from chatwrap.errors import Fault, TemplateError
from chatwrap.wrapper.base import ChatWrapper, ContextState
from chatwrap.wrapper.slots import SlotRule, SlotString, split

ROLES = ("system", "user", "model")

_TEMPLATE_RULES = (
    SlotRule(Slot.SYSTEM_PROMPT, "the first system message goes", optional=True),
    SlotRule(Slot.HISTORY, "the conversation goes"),
    SlotRule(
        Slot.COMPLETION,
        "the model writes",
        needs_text_after="Put there what ends the model's turn: the stop triggers come from it.",
    ),
)
_MESSAGE_RULES = (SlotRule(Slot.MESSAGE, "the message goes"),)
_PAIR_RULES = (
    SlotRule(Slot.SYSTEM_PROMPT, "the system message goes"),
    SlotRule(Slot.MESSAGE, "the user's message goes"),
)
_CALL_RULES = (
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
_RESULT_RULES = (
    SlotRule(Slot.FUNCTION_NAME, "the function's name goes", optional=True, repeatable=True),
    SlotRule(Slot.FUNCTION_PARAMS, "the arguments go", optional=True, repeatable=True),
    SlotRule(Slot.FUNCTION_CALL_RESULT, "the result goes"),
)
_SEGMENT_RULES = (
    SlotRule(
        Slot.CONTENT,
        "the segment's text goes",
        needs_text_before="Put there what opens the segment.",
    ),
)


class TemplateChatWrapper(ChatWrapper):
    r"""A chat format given by template strings, whose slots are ``{{name}}`` or ``<<name>>``.

    `template` frames the whole: ``{{systemPrompt}}`` (optional) is where the first system message
    goes, ``{{history}}`` the other messages, ``{{completion}}`` what the model writes. The text after
    the completion ends the model's turn, so it is mandatory; the text before it is the generation
    prompt. `history_template` frames the messages of each role (``system``, ``user``, ``model``); an
    optional ``system_and_user`` frames a system message together with the user message behind it, for
    formats that have no system turn. `function_call_message_template` has a ``call`` and a
    ``result``; `segments` has ``thought_template``, ``comment_template``,
    ``reopen_thought_after_function_calls``, ``close_all_segments_template`` and
    ``reiterate_stack_after_function_calls``.

    Neighbouring messages of one role are joined with a blank line unless
    `join_adjacent_messages_of_the_same_type` is off. A message without any text leaves no trace.

    Raises `TemplateError` with every fault of every string.

    >>> wrapper = TemplateChatWrapper(
    ...     template="{{systemPrompt}}\n{{history}}model: {{completion}}\nuser: ",
    ...     history_template={
    ...         "system": "system: {{message}}\n",
    ...         "user": "user: {{message}}\n",
    ...         "model": "model: {{message}}\n",
    ...     },
    ... )
    >>> history = [{"type": "system", "text": "Be kind."}, {"type": "user", "text": "Hi"}]
    >>> str(wrapper.generate_context_state(history).context_text)
    'Be kind.\nuser: Hi\nmodel: '
    """

    wrapper_name = "Template"

    def __init__(
        self,
        template: str,
        history_template: Mapping[str, str],
        *,
        function_call_message_template: Mapping[str, str] | None = None,
        join_adjacent_messages_of_the_same_type: bool = True,
        segments: Mapping[str, Any] | None = None,
    ) -> None:
        reader = _Reader()
        self.template = template
        self._frame = reader.frame(template)
        self._history = reader.history(history_template)
        functions = reader.functions(function_call_message_template)
        read_segments = reader.segments(segments)
        if reader.faults:
            raise TemplateError(reader.faults)
        self.history_template = MappingProxyType(dict(history_template))
        self.join_adjacent_messages_of_the_same_type = join_adjacent_messages_of_the_same_type
        self.settings = replace(
            ChatWrapper.default_settings,
            functions=functions or ChatWrapper.default_settings.functions,
            segments=read_segments,
        )

    @property
    def control_texts(self) -> frozenset[str]:
        frames = chain(self._frame.texts, *(text.texts for text in self._history.values()))
        return super().control_texts | frozenset(filter(None, frames))

    def generate_context_state(
        self,
        chat_history: HistoryLike,
        available_functions: FunctionsLike | None = None,
        document_function_params: bool = True,  # noqa: FBT001, FBT002 - the peers' signature
    ) -> ContextState:
        """The prompt, ending in the generation prompt, or in the model's text if a model item is last."""
        history = self.add_available_functions_system_message_to_history(
            chat_history, available_functions, document_function_params
        )
        exchanges = self._exchanges(history)
        *earlier, last = exchanges or [_Exchange()]
        texts: list[LlamaTextInput] = []
        for index, exchange in enumerate((*earlier, last)):
            texts.append(self._opening(exchange) if index == 0 else self._asked(exchange))
            if exchange is not last and exchange.text("model"):
                texts.append(self._framed("model", exchange.text("model")))
        texts += [control(self._frame.before(Slot.COMPLETION)), last.text("model")]
        return ContextState(LlamaText(texts), self._stop_generation_triggers())

    def _stop_generation_triggers(self) -> tuple[LlamaText, ...]:
        ending = self._frame.after(Slot.COMPLETION)
        return LlamaText(SpecialToken("EOS")), LlamaText(ending), control(ending)

    def _exchanges(self, history: Sequence[ChatHistoryItem]) -> list[_Exchange]:
        """The history cut into exchanges, each at most a system, a user and a model text in that order."""
        exchanges: list[_Exchange] = []
        previous = "model"
        for item in history:
            if not exchanges or self._starts_exchange(item.type, previous):
                exchanges.append(_Exchange())
            exchanges[-1].texts[item.type].append(self.generate_item_text(item))
            previous = item.type
        return exchanges

    def _starts_exchange(self, role: str, previous: str) -> bool:
        if self.join_adjacent_messages_of_the_same_type:
            return ROLES.index(role) < ROLES.index(previous)
        pairs = previous == "system" and role == "user" and "system_and_user" in self._history
        return not pairs

    def _opening(self, exchange: _Exchange) -> LlamaText:
        """The first exchange up to the model's text: the frame's own text stands in it."""
        before_history = control(self._frame.before(Slot.HISTORY))
        if Slot.SYSTEM_PROMPT not in self._frame.slots:
            return LlamaText(before_history, self._asked(exchange))
        before_system = control(self._frame.before(Slot.SYSTEM_PROMPT))
        asked = _Exchange({**exchange.texts, "system": []})
        return LlamaText(before_system, exchange.text("system"), before_history, self._asked(asked))

    def _asked(self, exchange: _Exchange) -> LlamaText:
        """What comes before the model's text: the framed system and user messages."""
        system, user = exchange.text("system"), exchange.text("user")
        pair = self._history.get("system_and_user")
        if pair and system and user:
            before, between, after = map(control, pair.texts)
            return LlamaText(before, system, between, user, after)
        return LlamaText(self._framed("system", system), self._framed("user", user))

    def _framed(self, role: str, text: LlamaText) -> LlamaText:
        if not text:
            return text
        before, after = self._history[role].texts
        return LlamaText(SpecialTokensText(before), text, SpecialTokensText(after))


@dataclass(slots=True)
class _Exchange:
    """A system, a user and a model text in this order, each joined of several messages or empty."""

    texts: dict[str, list[LlamaText]] = field(default_factory=lambda: {role: [] for role in ROLES})

    def text(self, role: str) -> LlamaText:
        return LlamaText.join_values("\n\n", self.texts[role])


@dataclass(slots=True)
class _Reader:
    """Reads the constructor's strings, collecting every fault before anything is raised."""

    faults: list[Fault] = field(default_factory=list)

    def _split(self, text: str, rules: Sequence[SlotRule], where: str) -> SlotString | None:
        slotted, faults = split(text, rules, where=where)
        self.faults += faults
        return None if faults else slotted

    def frame(self, template: str) -> SlotString:
        return self._split(template, _TEMPLATE_RULES, "template") or _EMPTY

    def history(self, templates: Mapping[str, str]) -> dict[str, SlotString]:
        where = "history_template"
        if not self._is_mapping(templates, where, "a system, a user and a model template"):
            return {}
        self._check_keys(templates, where, ROLES, (*ROLES, "system_and_user"))
        rules = dict.fromkeys(ROLES, _MESSAGE_RULES) | {"system_and_user": _PAIR_RULES}
        return {
            role: self._split(text, rules[role], f"{where}.{role}") or _EMPTY
            for role, text in templates.items()
            if role in rules and text is not None
        }

    def functions(self, templates: Mapping[str, str] | None) -> FunctionsSyntax | None:
        where = "function_call_message_template"
        if templates is None or not self._is_mapping(templates, where, "a call and a result template"):
            return None
        self._check_keys(templates, where, ("call", "result"), ("call", "result"))
        call = self._split(templates.get("call", _VALID_CALL), _CALL_RULES, f"{where}.call")
        result = self._result(templates.get("result", _VALID_RESULT), f"{where}.result")
        if call is None or result is None:
            return None
        name, params = Slot.FUNCTION_NAME, Slot.FUNCTION_PARAMS
        return FunctionsSyntax(
            call=FunctionCallSyntax(
                prefix=_slotted(call.parts_before(name)),
                params_prefix=_slotted(call.parts_between(name, params)),
                suffix=_slotted(call.parts_after(params)),
            ),
            result=result,
        )

    def _result(self, template: str, where: str) -> FunctionResultSyntax | None:
        """A result template: name and arguments may stand anywhere around the result."""
        slots = [rule for rule in _RESULT_RULES if rule.optional]
        text, faults = split(template, _RESULT_RULES, where=where)
        faults = [fault for fault in faults if "stands before" not in fault.problem]
        if not faults:
            before, after = text.parts_before(_RESULT), text.parts_after(_RESULT)
            if not before:
                faults.append(_no_text("before", _RESULT, template, where, "opens a result"))
            if not after:
                faults.append(_no_text("after", _RESULT, template, where, "ends a result"))
        self.faults += faults
        return None if faults or not slots else FunctionResultSyntax(_slotted(before), _slotted(after))

    def segments(self, options: Mapping[str, Any] | None) -> SegmentsSyntax:
        where = "segments"
        if options is None or not self._is_mapping(options, where, "segment templates"):
            return SegmentsSyntax()
        self._check_keys(options, where, (), _SEGMENT_KEYS)
        close_all = options.get("close_all_segments_template")
        return SegmentsSyntax(
            thought=self._segment(options, "thought", where),
            comment=self._segment(options, "comment", where),
            close_all_segments=control(close_all) if close_all else None,
            reiterate_stack_after_function_calls=bool(options.get("reiterate_stack_after_function_calls")),
        )

    def _segment(self, options: Mapping[str, Any], kind: str, where: str) -> SegmentSyntax | None:
        template = options.get(f"{kind}_template")
        text = self._split(template, _SEGMENT_RULES, f"{where}.{kind}_template") if template else None
        if text is None:
            return None
        suffix = text.after(Slot.CONTENT)
        reopen = bool(options.get(f"reopen_{kind}_after_function_calls"))
        return SegmentSyntax(control(text.before(Slot.CONTENT)), control(suffix) if suffix else None, reopen)

    def _is_mapping(self, value: object, where: str, wanted: str) -> bool:
        if isinstance(value, Mapping):
            return True
        self.faults.append(Fault(where, f"must be a mapping, not {value!r}.", f"Give {wanted}."))
        return False

    def _check_keys(
        self, given: Mapping[str, Any], where: str, needed: Sequence[str], known: Sequence[str]
    ) -> None:
        for key in needed:
            if given.get(key) is None:
                self.faults.append(Fault(f"{where}.{key}", "missing.", f"Give all of {', '.join(needed)}."))
        for key in given:
            if key not in known:
                self.faults.append(Fault(f"{where}.{key}", "unknown key.", f"Known are {', '.join(known)}."))


_EMPTY = SlotString(("",), ())
_RESULT = Slot.FUNCTION_CALL_RESULT
_VALID_CALL = "({{functionName}}{{functionParams}})"
_VALID_RESULT = "({{functionCallResult}})"
_SEGMENT_KEYS = (
    "thought_template",
    "comment_template",
    "reopen_thought_after_function_calls",
    "close_all_segments_template",
    "reiterate_stack_after_function_calls",
)


def _slotted(parts: Sequence[str | Slot]) -> SlottedText:
    return SlottedText(tuple(part if isinstance(part, Slot) else SpecialTokensText(part) for part in parts))


def _no_text(side: str, slot: Slot, template: str, where: str, what: str) -> Fault:
    return Fault(where, f"no text {side} {{{{{slot}}}}} in {template!r}.", f"Put there what {what}.")
