"""`TemplateChatWrapper`: a chat format in a few template strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any

from chatwrap.chat.functions import FunctionsLike
from chatwrap.chat.history import ChatHistoryItem, HistoryLike
from chatwrap.chat.syntax import Slot
from chatwrap.chat.text import LlamaText, LlamaTextInput, SpecialToken, SpecialTokensText, control
from chatwrap.errors import TemplateError
from chatwrap.wrapper.base import ChatWrapper, ContextState
from chatwrap.wrapper.reader import ROLES, SYSTEM_AND_USER, TemplateReader


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
        reader = TemplateReader()
        self._frame = reader.frame(template)
        self._history = reader.history(history_template)
        functions = reader.functions(function_call_message_template)
        read_segments = reader.segments(segments)
        joins = reader.flag(
            join_adjacent_messages_of_the_same_type, "join_adjacent_messages_of_the_same_type"
        )
        if reader.faults:
            raise TemplateError(reader.faults)
        self.template = template
        self.history_template = MappingProxyType(dict(history_template))
        self.join_adjacent_messages_of_the_same_type = joins
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
        generation_prompt, begun = self._frame.before(Slot.COMPLETION), last.text("model")
        texts += [control(generation_prompt), begun]
        ignored = "" if begun else self._text_behind_generation_prompt
        return ContextState(LlamaText(texts), self._stop_generation_triggers(), ignore_start_text=ignored)

    @property
    def _text_behind_generation_prompt(self) -> str:
        """What the frame of a model message has more than the generation prompt, if it begins with it."""
        header, prompt = self._history["model"].before(Slot.MESSAGE), self._frame.before(Slot.COMPLETION)
        return header.removeprefix(prompt) if header.startswith(prompt) else ""

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
        pairs = previous == "system" and role == "user" and SYSTEM_AND_USER in self._history
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
        pair = self._history.get(SYSTEM_AND_USER)
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
