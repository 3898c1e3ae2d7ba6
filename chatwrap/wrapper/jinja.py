"""`JinjaTemplateChatWrapper`: renders histories with the Jinja template inside a GGUF file."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from chatwrap.chat.functions import FunctionsLike, as_functions
from chatwrap.chat.history import (
    ChatHistory,
    ChatModelResponse,
    HistoryLike,
    as_history,
)
from chatwrap.chat.openai import functions_to_openai
from chatwrap.chat.syntax import ChatWrapperSettings
from chatwrap.chat.text import LlamaText, LlamaTextInput, SpecialToken, control
from chatwrap.chat.tokenizer import Tokenizer
from chatwrap.errors import HistoryError, OptionError
from chatwrap.wrapper.adaptations import CALL_ADAPTATIONS, FOLD, IN_WORDS, MERGE, Step, applied
from chatwrap.wrapper.base import ChatWrapper, ContextState
from chatwrap.wrapper.content import Content, plain, to_llama_text
from chatwrap.wrapper.jinja_environment import Clock
from chatwrap.wrapper.jinja_messages import (
    MessageShape,
    messages_of,
)
from chatwrap.wrapper.jinja_template import ChatTemplate
from chatwrap.wrapper.learned import LearnedSyntax, learn_syntax, written_result
from chatwrap.wrapper.losses import Outline, check_losses
from chatwrap.wrapper.probe import CALLED_TOOLS, OTHER_TOOLS, Capabilities, Feature, Prober, called_history
from chatwrap.wrapper.response import ResponseWriter
from chatwrap.wrapper.spoken import SpokenHistories

_ALLOWED: Final[Mapping[bool | str, tuple[bool, ...]]] = {
    "auto": (False, True),
    True: (True,),
    False: (False,),
}


@dataclass(frozen=True, slots=True)
class RoleNames:
    """What the template calls the roles."""

    system: str = "system"
    user: str = "user"
    model: str = "assistant"


class JinjaTemplateChatWrapper(ChatWrapper):
    """A chat format given by a Jinja chat template, rendered by Jinja2 set up as Hugging Face does it.

    The text is what Jinja2 renders, byte for byte, and content stays content: where a message could
    be taken for control text, the template is rendered on strings that carry their origin with them.
    `tokenizer` gives the special tokens to look for and the texts of ``bos_token`` and ``eos_token``.

    A history that the template refuses is adapted, one step after another, until it renders: system
    messages folded into the user message behind them, and neighbours of one role merged. The two
    options with long names say whether (``"auto"``), always (True) or never (False); function calls
    are split from text and from each other as needed. `ContextState.changes` tells what was done.
    A message, function or result that isn't in the prompt in the end is an error that names it.

    Functions go to the template; if it can't express them, they are described in a system message and
    calls are written in the default syntax, and `changes` says so.

    `tool_use_template` is used in place of `template` where there are functions or calls: some models
    have a template of that name beside their default one.

    `additional_render_parameters` are variables for every render, keywords of `generate_context_state`
    for one; a variable that the template never reads is a warning.

    Content that couldn't be taken for control text isn't told from it, since that would cost time and
    change no token; with `always_mark` it is, for those who want to see.

    Raises `DefinitionError` for a template that can't be compiled, with line and column of the fault.
    """

    wrapper_name = "JinjaTemplate"

    def __init__(
        self,
        template: str,
        *,
        tokenizer: Tokenizer | None = None,
        system_role_name: str = "system",
        user_role_name: str = "user",
        model_role_name: str = "assistant",
        convert_unsupported_system_messages_to_user_messages: bool | str = "auto",
        join_adjacent_messages_of_the_same_type: bool | str = "auto",
        additional_render_parameters: Mapping[str, Any] | None = None,
        tool_use_template: str | None = None,
        always_mark: bool = False,
        clock: Clock = datetime.now,
        name: str = "chat_template",
    ) -> None:
        self._template = ChatTemplate(template, tokenizer, clock, name=name)
        self.roles = RoleNames(system_role_name, user_role_name, model_role_name)
        self.folds_system = _choice(
            convert_unsupported_system_messages_to_user_messages,
            "convert_unsupported_system_messages_to_user_messages",
        )
        self.merges_neighbours = _choice(
            join_adjacent_messages_of_the_same_type, "join_adjacent_messages_of_the_same_type"
        )
        self.additional_render_parameters = dict(additional_render_parameters or {})
        self.always_mark = always_mark
        self._spoken = SpokenHistories(self._default_shape, self._template.looks_alike)
        self._kept_calls: dict[tuple[MessageShape, bool, bool], bool] = {}
        self._for_calls: JinjaTemplateChatWrapper | None = None
        if tool_use_template is not None:
            self._for_calls = self._with(
                ChatTemplate(tool_use_template, tokenizer, clock, name=f"{name}.tool_use")
            )
        self._warn_of_unread(self.additional_render_parameters)

    def _with(self, template: ChatTemplate) -> JinjaTemplateChatWrapper:
        """This wrapper over another template."""
        twin = copy(self)
        twin._template, twin._kept_calls = template, {}
        return twin

    def marking(self) -> JinjaTemplateChatWrapper:
        """This wrapper with `always_mark` on."""
        twin = copy(self)
        twin.always_mark = True
        twin._for_calls = self._for_calls.marking() if self._for_calls else None
        return twin

    @property
    def template(self) -> str:
        """The template's source."""
        return self._template.source

    @property
    def variables(self) -> frozenset[str]:
        """The names that the template reads from outside, beside those that every template gets."""
        return self._template.variables | (self._for_calls.variables if self._for_calls else frozenset())

    @property
    def writes_eos(self) -> bool:
        """Whether the template reads ``eos_token``, which is nothing without a `tokenizer`."""
        return self._template.writes_eos

    @property
    def control_texts(self) -> frozenset[str]:
        own = super().control_texts | {self._template.source}
        return own | self._for_calls.control_texts if self._for_calls else own

    @cached_property
    def capabilities(self) -> Capabilities:
        """What the template can express, found by rendering about 50 short histories, once."""
        own = self._prober.capabilities()
        return own.with_calls_of(self._for_calls.capabilities) if self._for_calls else own

    @cached_property
    def learned_syntax(self) -> LearnedSyntax:
        """How the template writes calls, results and thoughts, as far as it can be learned by rendering."""
        own = learn_syntax(self._prober)
        return replace(self._for_calls.learned_syntax, thought=own.thought) if self._for_calls else own

    @property
    def opens_thought(self) -> bool:
        """Whether the generation prompt ends in the mark that opens a thought."""
        thought = self.learned_syntax.thought
        mark = str(thought.prefix).strip() if thought else ""
        return bool(mark) and self.capabilities.generation_prompt.rstrip().endswith(mark)

    @cached_property
    def settings(self) -> ChatWrapperSettings:  # type: ignore[override]
        """The template's own syntax; where it has none that could be learned, the default one."""
        learned, default = self.learned_syntax, ChatWrapper.default_settings
        return ChatWrapperSettings(
            supports_system_messages=self.capabilities.keeps(Feature.SYSTEM),
            functions=learned.functions or default.functions,
            segments=learned.segments,
        )

    def _written_result(self, function_name: str, result: Any) -> LlamaTextInput:
        if self.learned_syntax.functions is None:
            return super()._written_result(function_name, result)
        return written_result(result, quoted=self.learned_syntax.quotes_results)

    def response_writer(self, *, use_raw: bool, n_earlier_calls: int = 0) -> ResponseWriter:
        writer = super().response_writer(use_raw=use_raw, n_earlier_calls=n_earlier_calls)
        writer.reopening = self.learned_syntax.reopening
        return writer

    @property
    def _prober(self) -> Prober:
        return Prober(self._render, self._default_shape)

    @property
    def _default_shape(self) -> MessageShape:
        return MessageShape(self.roles.system, self.roles.user, self.roles.model)

    def generate_context_state(
        self,
        chat_history: HistoryLike,
        available_functions: FunctionsLike | None = None,
        document_function_params: bool = True,  # noqa: FBT001, FBT002 - the peers' signature
        **template_variables: Any,
    ) -> ContextState:
        """The prompt, ending in the template's own generation prompt, or in the last model item's text."""
        self._warn_of_unread(template_variables)
        history = as_history(chat_history)
        functions = as_functions(available_functions)
        if self._for_calls and (functions or Outline.of(history).has_calls):
            return self._for_calls.generate_context_state(
                history, functions, document_function_params, **template_variables
            )
        text = None if functions or template_variables else self._said(history)
        if text is not None:
            return ContextState(text, self._stop_generation_triggers, ())
        changes: list[str] = []
        tools = functions_to_openai(functions) if functions and self._template.reads_tools else None
        try:
            if functions and tools is None:
                raise HistoryError.of("functions", "the template reads no tools.")
            text = self._adapted(history, tools, changes, template_variables)
        except HistoryError:
            if not functions:
                raise
            changes = ["functions: the template can't express them; described in a system message."]
            described = IN_WORDS.add_available_functions_system_message_to_history(
                history, functions, document_function_params
            )
            text = self._adapted(described, None, changes, template_variables)
        return ContextState(text, self._stop_generation_triggers, tuple(changes))

    def _said(self, history: ChatHistory) -> LlamaText | None:
        """The text of a history of nothing but texts that ends in a question and needs no adaptation."""
        is_adapted = self.merges_neighbours is True or self.folds_system is True
        if is_adapted or not history or isinstance(history[-1], ChatModelResponse):
            return None
        spoken = self._spoken.of(history)
        if spoken is None:
            return None
        messages = [message.copy() for message in spoken.messages]
        marked = spoken.looks_alike or self.always_mark
        try:
            text = self._template.render_own(messages, marked=marked, **self.additional_render_parameters)
        except HistoryError:
            return None
        if not spoken.stands_in(plain(text)):
            return None
        return to_llama_text(text) if isinstance(text, Content) else control(text)

    def _warn_of_unread(self, variables: Mapping[str, Any]) -> None:
        if not variables:
            return
        for name in sorted(set(variables) - self.variables):
            known = ", ".join(sorted(self.variables)) or "none"
            message = f"{self._template.name}: never reads the variable {name!r}. It reads: {known}."
            warnings.warn(message, stacklevel=3)

    def _adapted(
        self, history: ChatHistory, tools: Any, changes: list[str], variables: Mapping[str, Any]
    ) -> LlamaText:
        """The text of the first adaptation of `history` that the template renders with nothing lost."""
        refusals: list[HistoryError] = []
        for of_calls in CALL_ADAPTATIONS if Outline.of(history).has_calls else ((),):
            called = applied(of_calls, history)
            outline = Outline.of(called)
            if outline.has_parallel_calls and not self.capabilities.keeps(Feature.PARALLEL_CALLS):
                continue
            shapes = self._shapes(outline, with_tools=bool(tools))
            if not shapes:
                refusals.append(
                    HistoryError.of("history", "the template drops function calls or their results.")
                )
            for of_roles in self._role_adaptations(outline) if shapes else ():
                adapted = applied(of_roles, called)
                for shape in shapes:
                    try:
                        text = self._rendered(adapted, tools, shape, variables)
                    except HistoryError as error:
                        refusals.append(error)
                    else:
                        changes += [step.told for step in (*of_calls, *of_roles)]
                        return text
        raise refusals[0]

    def _role_adaptations(self, outline: Outline) -> Iterator[tuple[Step, ...]]:
        """Which changes to try, the smallest first; what the options demand is in all of them."""
        for merges in _ALLOWED[self.merges_neighbours]:
            for folds in _ALLOWED[self.folds_system] if outline.has_system else (False,):
                yield (*((FOLD,) if folds else ()), *((MERGE,) if merges else ()))

    def _shapes(self, outline: Outline, *, with_tools: bool) -> tuple[MessageShape, ...]:
        """How to spell what templates disagree on: with calls, in the ways in which calls aren't lost."""
        default = self._default_shape
        if not outline.has_calls:
            return default, replace(default, content_parts=True)
        named = self.capabilities.names_call_ids
        return tuple(
            replace(shape, named_call_ids=named)
            for shape in self._prober.call_shapes()
            if self._keeps_calls(shape, with_tools=with_tools, beside_text=outline.has_text_before_calls)
        )

    def _rendered(
        self, history: ChatHistory, tools: Any, shape: MessageShape, variables: Mapping[str, Any]
    ) -> LlamaText:
        """The text of `history`, cut behind the last model item's text if that comes last."""
        last = history[-1] if history else None
        continues = (
            isinstance(last, ChatModelResponse) and bool(last.response) and isinstance(last.response[-1], str)
        )
        nonce = f"\ue000{secrets.token_hex(8)}\ue000"
        messages = messages_of(history, shape, end_mark=nonce if continues else "")
        text = self._render(messages, tools, add_generation_prompt=not continues, **variables)
        if continues:
            if nonce not in text:
                raise HistoryError.of(
                    f"history[{len(history) - 1}]", "the template drops the last model message."
                )
            text = text[: text.rindex(nonce)]
        check_losses(history, tools, plain(text))
        return to_llama_text(text) if isinstance(text, Content) else control(text)

    def _render(self, messages: list[dict[str, Any]], tools: Any, **variables: Any) -> str:
        """The text, `tools` given as an empty list to templates that fail without any."""
        variables = {**self.additional_render_parameters, **variables}
        marked = self.always_mark or None
        try:
            return self._template.render(messages, tools, marked=marked, **variables)
        except HistoryError:
            if tools is not None or not self._template.reads_tools:
                raise
            return self._template.render(messages, [], marked=marked, **variables)

    def _keeps_calls(self, shape: MessageShape, *, with_tools: bool, beside_text: bool) -> bool:
        """Whether the template writes calls spelled as `shape`, found by rendering one, once."""
        key = (shape, with_tools, beside_text)
        if key not in self._kept_calls:
            self._kept_calls[key] = any(
                self._keeps_a_call(shape, tools, beside_text=beside_text)
                for tools in ((OTHER_TOOLS, CALLED_TOOLS) if with_tools else (None,))
            )
        return self._kept_calls[key]

    def _keeps_a_call(self, shape: MessageShape, tools: Any, *, beside_text: bool) -> bool:
        """Whether a call's arguments and result get into the prompt, and its name unless `tools` has it."""
        history, marks = called_history(beside_text=beside_text)
        try:
            text = self._render(messages_of(history, shape), tools)
        except HistoryError:
            return False
        return all(mark in text for mark in marks)

    @cached_property
    def _stop_generation_triggers(self) -> tuple[LlamaText, ...]:
        """EOS, and what the template writes behind a model message, found by rendering one."""
        mark = f"M{secrets.token_hex(8)}M"
        question = {"role": self.roles.user, "content": "Q"}
        answer = {"role": self.roles.model, "content": mark}
        try:
            text = self._render([question, answer], None, add_generation_prompt=False)
        except HistoryError:
            text = ""
        ending = text.rpartition(mark)[2] if mark in text else ""
        eos = LlamaText(SpecialToken("EOS"))
        if not ending.strip():
            return (eos,)
        return eos, LlamaText(ending), control(ending)


def _choice(value: bool | str, name: str) -> bool | str:  # noqa: FBT001
    if value not in (True, False, "auto"):
        raise OptionError.of(name, f"no choice {value!r}.", "Use 'auto', True or False.")
    return value
