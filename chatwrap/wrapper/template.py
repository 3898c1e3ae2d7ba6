"""`TemplateChatWrapper`: a chat format in a few template strings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from itertools import chain, takewhile
from types import MappingProxyType
from typing import Any, Self, TypeAlias

from chatwrap.chat.functions import ChatModelFunctions, FunctionsLike, as_functions
from chatwrap.chat.history import (
    ChatHistory,
    ChatHistoryItem,
    ChatModelResponse,
    ChatModelSegment,
    HistoryLike,
    as_history,
)
from chatwrap.chat.json_text import dump_json
from chatwrap.chat.slotted import Slot
from chatwrap.chat.syntax import default_functions
from chatwrap.chat.text import LlamaText, LlamaTextInput, SpecialToken, control
from chatwrap.errors import TemplateError
from chatwrap.wrapper.base import ChatWrapper, ContextState
from chatwrap.wrapper.exchanges import Exchange, Opened
from chatwrap.wrapper.notations import read_notation, with_notation
from chatwrap.wrapper.opening import read_documentation, read_opening, texts_of
from chatwrap.wrapper.reader import ROLES, SYSTEM_AND_USER, TemplateReader
from chatwrap.wrapper.response import ResponseWriter
from chatwrap.wrapper.revision import EMPTY_THOUGHTS, KEPT_THOUGHTS, Revision, last_user_index
from chatwrap.wrapper.sections import read_sections

Clock: TypeAlias = Callable[[], datetime]


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
    ``reiterate_stack_after_function_calls``; and for formats whose model writes each part of its turn as
    a message of its own, ``text_template`` and what stands ``between_parts``.

    Without a ``thought_template`` thoughts are left out, since nothing would tell them from answers.

    Neighbouring messages of one role are joined with a blank line unless
    `join_adjacent_messages_of_the_same_type` is off. A message without any text leaves no trace.

    What formats need beyond that:

    - `opening`: how the conversation opens, for each of the cases ``plain``, ``system``, ``functions``
      and ``system_and_functions``; a case that isn't given is written with the frames above. The slots
      are ``{{systemPrompt}}``, ``{{functions}}`` (their documentation), ``{{date}}`` (today's, written as
      `date_format` says), and ``{{message}}`` for an opening that stands in the frame of a user message:
      of the first one, or of the last one if ``at`` is ``last_user`` (by default ``start``).
    - `function_documentation`: a ``template`` with ``{{functions}}``; their ``form`` (``json_lines``,
      ``json_array``, ``bare_json_lines``: without OpenAI's wrapping, ``typescript``), what stands between
      two of them (``separator``), and the ``indent`` of the JSON.
    - `function_call_arguments`: how arguments are written. ``form`` is ``json``; ``tagged`` with a
      ``prefix`` (in which ``{{parameterName}}`` stands, and ``{{isString}}`` where needed), a ``suffix``, a
      text ``between`` arguments and ``literals`` (``json``, ``python``, ``python_containers``);
      ``keywords`` with a text ``between`` and ``mappings`` (``python``, ``json``); or ``bare_keys`` with a
      ``quote``, ``sorts_keys`` and ``null``. Calls without arguments write ``{}`` if ``absent`` is
      ``empty_object``, as it is by default where the arguments are a member of a JSON object.
      ``{{callId}}`` and ``{{callIndex}}`` in calls and results number the conversation's calls from 0.
    - `function_call_sections`: the texts around calls made together and around their results
      (``calls_prefix``, ``between_calls``, ``calls_suffix``, and the same for ``results``), and
      ``text_before_calls``, written between a text and the calls behind it. ``result_form`` ``text``
      writes strings as they are, ``trimmed_text`` without white space around them, ``quoted_text`` the
      text of any result as a JSON string, and ``json`` (by default) any result as JSON. ``results`` tells
      whether they stand ``in_turn``, in ``own_turns`` after which the model's turn is opened again, or in
      ``own_turns_unopened`` after which it goes on as it is. ``one_by_one``: each call's result comes
      before the next call.
    - `trim_messages`: no white space around messages, or around those of the roles given.
      `trim_thoughts`: none around thoughts. `hoist_system_messages`: all of them in one, at the front.
    - `kept_thoughts`: ``all`` (by default), those ``after_last_user``, of these only those
      ``before_calls``, those ``before_open_calls`` that no answer has followed, or ``none``.
      `empty_thoughts`: turns of the model without a thought begin with an empty one: ``none`` of them,
      the ``last`` if it is an answer, those ``after_last_user``, or ``all``.
    - `stop_texts`: what else ends the model's turn. `ends_at_eos`: nothing need stand behind
      ``{{completion}}``, since the model ends its turn with EOS alone.

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
        function_call_arguments: Mapping[str, Any] | None = None,
        join_adjacent_messages_of_the_same_type: bool = True,
        segments: Mapping[str, Any] | None = None,
        opening: Mapping[str, str] | None = None,
        function_documentation: Mapping[str, Any] | None = None,
        function_call_sections: Mapping[str, str] | None = None,
        trim_messages: bool | Sequence[str] = False,
        trim_thoughts: bool = False,
        hoist_system_messages: bool = False,
        kept_thoughts: str = "all",
        empty_thoughts: str = "none",
        stop_texts: Sequence[str] = (),
        ends_at_eos: bool = False,
        date_format: str = "%Y-%m-%d",
        clock: Clock = datetime.now,
    ) -> None:
        reader = TemplateReader()
        self._frame = reader.frame(template, ends_at_eos=reader.flag(ends_at_eos, "ends_at_eos"))
        self._history = reader.history(history_template)
        functions = reader.functions(
            function_call_message_template, are_framed=function_call_sections is not None
        )
        notation = read_notation(function_call_arguments, reader)
        functions = with_notation(functions, notation) if functions else default_functions()
        read_segments = reader.segments(segments)
        joins = reader.flag(
            join_adjacent_messages_of_the_same_type, "join_adjacent_messages_of_the_same_type"
        )
        self._opening_texts = read_opening(opening, reader)
        self._documentation = read_documentation(function_documentation, reader)
        self._sections = read_sections(function_call_sections, reader)
        self._revision = Revision(
            trimmed_roles=reader.roles(trim_messages, "trim_messages"),
            trims_thoughts=reader.flag(trim_thoughts, "trim_thoughts"),
            hoists_system=reader.flag(hoist_system_messages, "hoist_system_messages"),
            kept_thoughts=reader.choice(kept_thoughts, KEPT_THOUGHTS, "kept_thoughts"),
            writes_thoughts=read_segments.thought is not None,
        )
        self._empty_thoughts = reader.choice(empty_thoughts, EMPTY_THOUGHTS, "empty_thoughts")
        self._stop_texts = reader.texts(stop_texts, "stop_texts")
        self._date_format = reader.text(date_format, "date_format")
        if reader.faults:
            raise TemplateError(reader.faults)
        self.template = template
        self.history_template = MappingProxyType(dict(history_template))
        self.join_adjacent_messages_of_the_same_type = joins
        self.clock = clock
        self.settings = replace(
            ChatWrapper.default_settings,
            functions=self._sections.applied_to(functions),
            segments=read_segments,
        )

    @property
    def control_texts(self) -> frozenset[str]:
        frames = chain(self._frame.texts, *(text.texts for text in self._history.values()))
        others = chain(self._opening_texts.texts, texts_of(self._documentation), self._stop_texts)
        before_calls = map(str, self._sections.text_before_calls.values)
        return super().control_texts | frozenset(filter(None, chain(frames, others, before_calls)))

    def with_clock(self, clock: Clock) -> Self:
        """This format with another clock for the date in its opening."""
        other = copy(self)
        other.clock = clock
        return other

    def generate_context_state(
        self,
        chat_history: HistoryLike,
        available_functions: FunctionsLike | None = None,
        document_function_params: bool = True,  # noqa: FBT001, FBT002 - the peers' signature
    ) -> ContextState:
        """The prompt, ending in the generation prompt, or in the model's text if a model item is last."""
        functions, history = as_functions(available_functions), as_history(chat_history)
        if not self._opening_texts.documents_functions:
            history = self.add_available_functions_system_message_to_history(
                history, functions, document_function_params
            )
            functions = {}
        history, changes = self._revision.of(history)
        opened, history = self._opened(history, functions, document_params=document_function_params)
        exchanges = self._exchanges(history) or [Exchange()]
        texts: list[LlamaTextInput] = [self._beginning(exchanges[0], opened)]
        place = self._place(exchanges, opened)
        for index, exchange in enumerate(exchanges):
            texts.append(self._asked(exchange, opened if index == place else None))
            if exchange is not exchanges[-1] and exchange.text("model"):
                texts.append(self._framed("model", exchange.text("model"), is_open=exchange.ended_turn))
        generation_prompt = self._generation_prompt(exchanges[-1])
        texts += self._ending(exchanges[-1], generation_prompt)
        is_opened = exchanges[-1].ended_turn and self._sections.results == "own_turns"
        ignored = "" if exchanges[-1].text("model") and not is_opened else self._text_behind_generation_prompt
        return ContextState(LlamaText(texts), self._stop_generation_triggers(), changes, ignored)

    def _opened(
        self, history: ChatHistory, functions: ChatModelFunctions, *, document_params: bool
    ) -> tuple[Opened | None, ChatHistory]:
        """The opening that fits, filled but for the user's message, and the history without what it holds."""
        joins = self.join_adjacent_messages_of_the_same_type
        leading = list(takewhile(lambda item: item.type == "system", history))[: None if joins else 1]
        system = LlamaText.join_values("\n\n", [self.generate_item_text(item) for item in leading])
        case = self._opening_texts.case(has_system=bool(system), has_functions=bool(functions))
        if case is None:
            return None, history
        text = self._opening_texts.cases[case]
        values: dict[Slot, LlamaTextInput] = {Slot.DATE: control(self.clock().strftime(self._date_format))}
        if functions:
            values[Slot.RECIPIENTS] = self._documentation.recipients(functions)
            values[Slot.FUNCTIONS] = self._documentation.text(functions, document_params=document_params)
        if Slot.SYSTEM_PROMPT not in text.slots:
            return Opened(text, values), history
        values[Slot.SYSTEM_PROMPT] = system
        return Opened(text, values), history[len(leading) :]

    def _place(self, exchanges: Sequence[Exchange], opened: Opened | None) -> int | None:
        """The index of the exchange whose user message stands in the opening, if it has a place there."""
        if opened is None or not opened.holds_message:
            return None
        if self._opening_texts.place == "start":
            return 0
        with_user = [index for index, exchange in enumerate(exchanges) if exchange.text("user")]
        return with_user[-1] if with_user else 0

    def _generation_prompt(self, last: Exchange) -> str:
        """What opens the model's turn: nothing if it is still open, the plain header if it has text."""
        prompt, header = self._frame.before(Slot.COMPLETION), self._history["model"].before(Slot.MESSAGE)
        if last.ended_turn:
            return "" if self._sections.results == "own_turns_unopened" else prompt
        goes_on = bool(header) and prompt.startswith(header) and bool(last.text("model"))
        return header if goes_on else prompt

    def _ending(self, last: Exchange, generation_prompt: str) -> list[LlamaTextInput]:
        if last.ended_turn:
            framed = self._framed("model", last.text("model"), is_open=True)
            return [framed, control(generation_prompt)]
        return [control(generation_prompt), last.text("model"), last.open_end]

    def _written_result(self, function_name: str, result: Any) -> LlamaTextInput:
        """As `ChatWrapper`'s; a string stands as it is where the format's results are text."""
        written = super()._written_result(function_name, result)
        match self._sections.result_form:
            case "quoted_text":
                return written if isinstance(result, str) else dump_json(written)
            case "trimmed_text" if isinstance(result, str):
                return result.strip()
            case "text" if isinstance(result, str):
                return result
        return written

    def response_writer(self, *, use_raw: bool, n_earlier_calls: int = 0) -> ResponseWriter:
        writer = super().response_writer(use_raw=use_raw, n_earlier_calls=n_earlier_calls)
        writer.text_before_calls = self._sections.text_before_calls
        writer.one_by_one = self._sections.one_by_one
        if self._sections.results == "own_turns":
            writer.reopening = control(self._history["model"].before(Slot.MESSAGE))
        elif self._sections.are_turns:
            writer.reopening = LlamaText()
        return writer

    @property
    def _text_behind_generation_prompt(self) -> str:
        """What the frame of a model message has more than the generation prompt, if it begins with it."""
        header, prompt = self._history["model"].before(Slot.MESSAGE), self._frame.before(Slot.COMPLETION)
        return header.removeprefix(prompt) if header.startswith(prompt) else ""

    def _stop_generation_triggers(self) -> tuple[LlamaText, ...]:
        endings = filter(None, (self._frame.after(Slot.COMPLETION), *self._stop_texts))
        written = chain.from_iterable((LlamaText(ending), control(ending)) for ending in endings)
        return LlamaText(SpecialToken("EOS")), *written

    def _exchanges(self, history: Sequence[ChatHistoryItem]) -> list[Exchange]:
        """The history cut into exchanges, each at most a system, a user and a model text in that order."""
        exchanges: list[Exchange] = []
        previous = "model"
        n_calls = 0
        n_without_empty_thoughts = self._n_without_empty_thoughts(history)
        for index, item in enumerate(history):
            if not exchanges or self._starts_exchange(item.type, previous):
                exchanges.append(Exchange())
            exchange = exchanges[-1]
            if isinstance(item, ChatModelResponse):
                writer = self.response_writer(use_raw=True, n_earlier_calls=n_calls)
                if index >= n_without_empty_thoughts:
                    writer.empty_thought = self._empty_thought
                    writer.spares_calls = self._empty_thoughts == "last"
                exchange.texts[item.type].append(writer.write(item.response))
                exchange.ended_turn, exchange.open_end = writer.ended_turn, writer.open_end
                n_calls = writer.n_calls
            else:
                exchange.texts[item.type].append(self.generate_item_text(item))
            previous = item.type
        return exchanges

    def _n_without_empty_thoughts(self, history: Sequence[ChatHistoryItem]) -> int:
        """The index of the first item from which on turns without a thought get an empty one."""
        match self._empty_thoughts:
            case "all":
                return 0
            case "after_last_user":
                return last_user_index(history) + 1
            case "last":
                return len(history) - 1
        return len(history)

    @property
    def _empty_thought(self) -> LlamaText:
        return self.response_writer(use_raw=False).write([ChatModelSegment(segment_type="thought", text="")])

    def _starts_exchange(self, role: str, previous: str) -> bool:
        if self._sections.are_turns and previous == "model":
            return True
        if self.join_adjacent_messages_of_the_same_type:
            return ROLES.index(role) < ROLES.index(previous)
        pairs = previous == "system" and role == "user" and SYSTEM_AND_USER in self._history
        return not pairs

    def _beginning(self, first: Exchange, opened: Opened | None) -> LlamaText:
        """What stands before the conversation: the frame's own text, the first system text if it has a
        slot there, and an opening that holds no message.
        """
        before_history = control(self._frame.before(Slot.HISTORY))
        standing = opened.filled() if opened and not opened.holds_message else LlamaText()
        if Slot.SYSTEM_PROMPT not in self._frame.slots:
            return LlamaText(before_history, standing)
        before_system = control(self._frame.before(Slot.SYSTEM_PROMPT))
        system = first.text("system")
        first.texts["system"] = []
        return LlamaText(before_system, system, before_history, standing)

    def _asked(self, exchange: Exchange, opened: Opened | None) -> LlamaText:
        """What comes before the model's text: the framed system and user messages."""
        system, user = exchange.text("system"), exchange.text("user")
        if opened:
            return LlamaText(self._framed("system", system), opened.filled(user))
        pair = self._history.get(SYSTEM_AND_USER)
        if pair and system and user:
            before, between, after = map(control, pair.texts)
            return LlamaText(before, system, between, user, after)
        return LlamaText(self._framed("system", system), self._framed("user", user))

    def _framed(self, role: str, text: LlamaText, *, is_open: bool = False) -> LlamaText:
        if not text:
            return text
        before, after = self._history[role].texts
        return LlamaText(control(before), text, "" if is_open else control(after))
