"""Renders histories with the frames, openings and sections of a format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import chain, takewhile
from typing import Any, Final, TypeAlias

from chatwrap.chat.functions import ChatModelFunctions, FunctionsLike, as_functions
from chatwrap.chat.history import (
    ChatHistory,
    ChatHistoryItem,
    ChatModelResponse,
    ChatModelSegment,
    ChatUserMessage,
    HistoryLike,
    as_history,
)
from chatwrap.chat.json_text import dump_json
from chatwrap.chat.slotted import Slot
from chatwrap.chat.text import LlamaText, LlamaTextInput, SpecialToken, SpecialTokensText, control
from chatwrap.wrapper.base import ChatWrapper, ContextState
from chatwrap.wrapper.exchanges import Exchange, Opened
from chatwrap.wrapper.opening import FunctionDocumentation, Opening
from chatwrap.wrapper.prefixes import Prefix, Prefixes
from chatwrap.wrapper.reader import ROLES, SYSTEM_AND_USER
from chatwrap.wrapper.response import ResponseWriter
from chatwrap.wrapper.revision import Revision, has_thoughts, last_user_index
from chatwrap.wrapper.sections import CallSections
from chatwrap.wrapper.slots import SlotString

Clock: TypeAlias = Callable[[], datetime]
_NOTHING_YET: Final = Prefix()
_TEXT: Final = frozenset({str})


class FramedChatWrapper(ChatWrapper):
    """A chat format whose frames have been read; see `TemplateChatWrapper` for what they mean.

    What was rendered before the exchange with the last user message is kept for the next turn: a history
    that begins with the same item objects costs only what comes behind them.
    """

    join_adjacent_messages_of_the_same_type: bool
    clock: Clock
    _frame: SlotString
    _history: Mapping[str, SlotString]
    _opening_texts: Opening
    _documentation: FunctionDocumentation
    _sections: CallSections
    _revision: Revision
    _empty_thoughts: str
    _stop_texts: Sequence[str]
    _date_format: str
    _prefixes: Prefixes

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
        circumstances = (functions, document_function_params, self._day)
        begun = self._begun(history, circumstances)
        n_begun = len(begun.items)
        revised, losers = self._revision.of(history[n_begun:])
        opened, rest = begun.opened, revised
        if begun is _NOTHING_YET:
            opened, rest = self._opened(revised, functions, document_params=document_function_params)
        exchanges = self._exchanges(rest, begun.n_calls) or [Exchange()]
        turn = max((index for index, exchange in enumerate(exchanges) if exchange.text("user")), default=0)
        before, last = self._written(exchanges, turn, opened, begun)
        n_items = n_begun + len(revised) - len(rest) + exchanges[turn].first_item
        told = [(n_begun + index, self._revision.told(n_begun + index)) for index in losers]
        if turn and self._lasts(history, n_items):
            changes = (*begun.changes, *(line for index, line in told if index < n_items))
            kept = Prefix(circumstances, history[:n_items], before, opened, exchanges[turn].n_calls, changes)
            self._prefixes.keep(kept)
        changes = (*begun.changes, *(line for _, line in told))
        ignored = self._ignored_start(exchanges[-1])
        return ContextState(before.concat(last), self._stop_generation_triggers, changes, ignored)

    def _begun(self, history: ChatHistory, circumstances: tuple[Any, ...]) -> Prefix:
        """What an earlier turn has of this history, as far as what follows can't change it."""
        found = self._prefixes.find(history, circumstances)
        if found is None:
            return _NOTHING_YET
        rest = history[len(found.items) :]
        parts_here = self._starts_exchange(rest[0].type, found.items[-1].type)
        has_user = any(isinstance(item, ChatUserMessage) and item.text.strip() for item in reversed(rest))
        is_hoisted = self._revision.hoists_system and any(item.type == "system" for item in rest)
        return found if parts_here and has_user and not is_hoisted else _NOTHING_YET

    def _lasts(self, history: ChatHistory, n_items: int) -> bool:
        """Whether nothing that may follow changes how the first `n_items` are written."""
        if self._revision.hoists_system and any(item.type == "system" for item in history[1:]):
            return False
        depends = self._revision.kept_thoughts == "before_open_calls"
        return not (depends and any(map(has_thoughts, history[:n_items])))

    def _written(
        self, exchanges: Sequence[Exchange], turn: int, opened: Opened | None, begun: Prefix
    ) -> tuple[LlamaText, LlamaText]:
        """The text before the exchange number `turn`, and the text from there to the prompt's end."""
        texts: list[LlamaTextInput] = []
        is_first = begun is _NOTHING_YET
        if is_first:
            texts.append(self._beginning(exchanges[0], opened))
        place = self._place(exchanges, opened) if is_first or self._opening_texts.place != "start" else None
        n_before = len(texts)
        for index, exchange in enumerate(exchanges):
            if index == turn:
                n_before = len(texts)
            self._write_asked(exchange, opened if index == place else None, texts)
            if exchange is not exchanges[-1]:
                self._write_framed("model", exchange.text("model"), texts, is_open=exchange.ended_turn)
        self._write_ending(exchanges[-1], texts)
        return begun.text.concat(texts[:n_before]), LlamaText(texts[n_before:])

    @property
    def _day(self) -> str:
        return self.clock().strftime(self._date_format) if self._opening_texts.is_dated else ""

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
        values: dict[Slot, LlamaTextInput] = {Slot.DATE: control(self._day)}
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

    def _write_ending(self, last: Exchange, texts: list[LlamaTextInput]) -> None:
        prompt = SpecialTokensText(self._generation_prompt(last))
        if last.ended_turn:
            self._write_framed("model", last.text("model"), texts, is_open=True)
            texts.append(prompt)
        else:
            texts += [prompt, last.text("model"), last.open_end]

    def _ignored_start(self, last: Exchange) -> str:
        """What a model message's frame has more than the generation prompt, if an answer begins here."""
        is_opened = last.ended_turn and self._sections.results == "own_turns"
        if last.text("model") and not is_opened:
            return ""
        header, prompt = self._history["model"].before(Slot.MESSAGE), self._frame.before(Slot.COMPLETION)
        return header.removeprefix(prompt) if header.startswith(prompt) else ""

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
    def quotes_results(self) -> bool:
        """Whether results that are texts are written as JSON strings."""
        return self._sections.result_form in ("json", "quoted_text")

    @cached_property
    def _stop_generation_triggers(self) -> tuple[LlamaText, ...]:
        endings = filter(None, (self._frame.after(Slot.COMPLETION), *self._stop_texts))
        written = chain.from_iterable((LlamaText(ending), control(ending)) for ending in endings)
        return LlamaText(SpecialToken("EOS")), *written

    def _exchanges(self, history: Sequence[ChatHistoryItem], n_calls: int) -> list[Exchange]:
        """The history cut into exchanges, each at most a system, a user and a model text in that order."""
        exchanges: list[Exchange] = []
        previous = "model"
        n_without_empty_thoughts = self._n_without_empty_thoughts(history)
        for index, item in enumerate(history):
            if not exchanges or self._starts_exchange(item.type, previous):
                exchanges.append(Exchange(first_item=index, n_calls=n_calls))
            exchange = exchanges[-1]
            if isinstance(item, ChatModelResponse):
                with_thought = index >= n_without_empty_thoughts
                n_calls = self._add_model_item(item, exchange, n_calls, with_thought=with_thought)
            else:
                exchange.texts[item.type].append(self.generate_item_text(item))
            previous = item.type
        return exchanges

    def _add_model_item(
        self, item: ChatModelResponse, exchange: Exchange, n_calls: int, *, with_thought: bool
    ) -> int:
        """Adds a model item to its exchange; gives back how many calls there were with those in it."""
        is_text = _TEXT.issuperset(map(type, item.response))
        if is_text and not with_thought and self.settings.segments.text is None:
            exchange.texts["model"].append(LlamaText(*item.response))
            exchange.ended_turn, exchange.open_end = False, LlamaText()
            return n_calls
        writer = self.response_writer(use_raw=True, n_earlier_calls=n_calls)
        if with_thought:
            writer.empty_thought = self._empty_thought
            writer.spares_calls = self._empty_thoughts == "last"
        exchange.texts["model"].append(writer.write(item.response))
        exchange.ended_turn, exchange.open_end = writer.ended_turn, writer.open_end
        return writer.n_calls

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

    def _write_asked(self, exchange: Exchange, opened: Opened | None, texts: list[LlamaTextInput]) -> None:
        """What comes before the model's text: the framed system and user messages."""
        system, user = exchange.text("system"), exchange.text("user")
        pair = self._history.get(SYSTEM_AND_USER)
        if opened:
            self._write_framed("system", system, texts)
            texts.append(opened.filled(user))
        elif pair and system and user:
            before, between, after = map(SpecialTokensText, pair.texts)
            texts += [before, system, between, user, after]
        else:
            self._write_framed("system", system, texts)
            self._write_framed("user", user, texts)

    def _write_framed(
        self, role: str, text: LlamaText, texts: list[LlamaTextInput], *, is_open: bool = False
    ) -> None:
        if text.values:
            before, after = self._frames[role]
            texts += [before, text, "" if is_open else after]

    @cached_property
    def _frames(self) -> Mapping[str, tuple[SpecialTokensText, SpecialTokensText]]:
        """What stands before and behind the messages of each role."""
        texts = {role: self._history[role].texts for role in ROLES}
        return {role: (SpecialTokensText(one[0]), SpecialTokensText(one[-1])) for role, one in texts.items()}
