"""`JinjaTemplateChatWrapper`: renders histories with the Jinja template inside a GGUF file."""

from __future__ import annotations

import secrets
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from chatwrap.chat.functions import FunctionsLike, as_functions
from chatwrap.chat.history import (
    ChatHistory,
    ChatModelFunctionCall,
    ChatModelResponse,
    ChatSystemMessage,
    ChatUserMessage,
    HistoryLike,
    as_history,
)
from chatwrap.chat.json_text import dump_json
from chatwrap.chat.openai import functions_to_openai
from chatwrap.chat.syntax import ChatWrapperSettings, SegmentsSyntax
from chatwrap.chat.text import LlamaText, SpecialToken, control
from chatwrap.chat.tokenizer import Tokenizer
from chatwrap.errors import Fault, HistoryError, OptionError
from chatwrap.wrapper.base import ChatWrapper, ContextState
from chatwrap.wrapper.content import Content, plain, to_llama_text
from chatwrap.wrapper.jinja_environment import Clock
from chatwrap.wrapper.jinja_messages import (
    MessageShape,
    fold_system,
    merge_neighbours,
    messages_of,
    set_text_apart,
    split_calls,
)
from chatwrap.wrapper.jinja_template import ChatTemplate
from chatwrap.wrapper.learned import LearnedSyntax, learn_syntax, written_result
from chatwrap.wrapper.probe import Capabilities, Feature, Prober


@dataclass(frozen=True, slots=True)
class _Step:
    """A change that may make a template take a history, and what to tell of it."""

    told: str
    change: Callable[[ChatHistory], ChatHistory]


_FOLD: Final = _Step("system: folded into the user message behind it.", fold_system)
_MERGE: Final = _Step("neighbours of one role: merged.", merge_neighbours)
_APART: Final = _Step("text before function calls: a message of its own.", set_text_apart)
_ONE_BY_ONE: Final = _Step("parallel function calls: made one after the other.", split_calls)
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

    `additional_render_parameters` are variables for every render, keywords of `generate_context_state`
    for one; a variable that the template never reads is a warning.

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
        self._kept_calls: dict[tuple[MessageShape, bool, bool], bool] = {}
        self._warn_of_unread(self.additional_render_parameters)

    @property
    def template(self) -> str:
        """The template's source."""
        return self._template.source

    @property
    def variables(self) -> frozenset[str]:
        """The names that the template reads from outside, beside those that every template gets."""
        return self._template.variables

    @property
    def writes_eos(self) -> bool:
        """Whether the template reads ``eos_token``, which is nothing without a `tokenizer`."""
        return self._template.writes_eos

    @property
    def control_texts(self) -> frozenset[str]:
        return super().control_texts | {self._template.source}

    @cached_property
    def capabilities(self) -> Capabilities:
        """What the template can express, found by rendering about 50 short histories, once."""
        return self._prober.capabilities()

    @cached_property
    def learned_syntax(self) -> LearnedSyntax:
        """How the template writes calls, results and thoughts, as far as it can be learned by rendering."""
        return learn_syntax(self._prober)

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
            segments=SegmentsSyntax(thought=learned.thought),
        )

    def _written_result(self, function_name: str, result: Any) -> str:
        if self.learned_syntax.functions is None:
            return super()._written_result(function_name, result)
        return written_result(result, quoted=self.learned_syntax.quotes_results)

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
            described = self.add_available_functions_system_message_to_history(
                history, functions, document_function_params
            )
            text = self._adapted(described, None, changes, template_variables)
        return ContextState(text, self._stop_generation_triggers, tuple(changes))

    def _warn_of_unread(self, variables: Mapping[str, Any]) -> None:
        for name in sorted(set(variables) - self.variables):
            known = ", ".join(sorted(self.variables)) or "none"
            message = f"{self._template.name}: never reads the variable {name!r}. It reads: {known}."
            warnings.warn(message, stacklevel=3)

    def _adapted(
        self, history: ChatHistory, tools: Any, changes: list[str], variables: Mapping[str, Any]
    ) -> LlamaText:
        """The text of the first adaptation of `history` that the template renders with nothing lost."""
        refusals: list[HistoryError] = []
        for adaptation in self._adaptations(history):
            adapted = history
            for step in adaptation:
                adapted = step.change(adapted)
            for shape in self._shapes(adapted):
                try:
                    text = self._rendered(adapted, tools, shape, variables)
                except HistoryError as error:
                    refusals.append(error)
                else:
                    changes += [step.told for step in adaptation]
                    return text
        raise refusals[0]

    def _adaptations(self, history: ChatHistory) -> Iterator[tuple[_Step, ...]]:
        """Which changes to try, the smallest first; what the options demand is in all of them."""
        has_system = any(isinstance(item, ChatSystemMessage) for item in history)
        folds = _ALLOWED[self.folds_system] if has_system else (False,)
        for of_calls in self._call_adaptations if _has_calls(history) else ((),):
            for merges in _ALLOWED[self.merges_neighbours]:
                for fold in folds:
                    yield (*of_calls, *((_FOLD,) if fold else ()), *((_MERGE,) if merges else ()))

    @cached_property
    def _call_adaptations(self) -> tuple[tuple[_Step, ...], ...]:
        as_text = _Step("function calls: written as the model's text.", self._calls_as_text)
        return ((), (_APART,), (_ONE_BY_ONE,), (_APART, _ONE_BY_ONE), (as_text,))

    def _calls_as_text(self, history: ChatHistory) -> ChatHistory:
        return tuple(
            ChatModelResponse(response=(str(self.generate_model_response_text(item.response)),))
            if isinstance(item, ChatModelResponse)
            else item
            for item in history
        )

    def _shapes(self, history: ChatHistory) -> list[MessageShape]:
        """How to spell what templates disagree on; only histories with calls have more than one way."""
        default = self._default_shape
        if not _has_calls(history):
            return [default, replace(default, content_parts=True)]
        return [
            default,
            replace(default, null_content=True),
            replace(default, arguments_as_text=True),
            replace(default, arguments_as_text=True, null_content=True),
        ]

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
        if _has_calls(history) and not self._keeps_calls(
            shape, with_tools=bool(tools), beside_text=_has_calls(history, beside_text=True)
        ):
            raise HistoryError.of("history", "the template drops function calls or their results.")
        self._check_losses(history, tools, text)
        return to_llama_text(text) if isinstance(text, Content) else control(text)

    def _render(self, messages: list[dict[str, Any]], tools: Any, **variables: Any) -> str:
        """The text, `tools` given as an empty list to templates that fail without any."""
        variables = {**self.additional_render_parameters, **variables}
        try:
            return self._template.render(messages, tools, **variables)
        except HistoryError:
            if tools is not None or not self._template.reads_tools:
                raise
            return self._template.render(messages, [], **variables)

    def _keeps_calls(self, shape: MessageShape, *, with_tools: bool, beside_text: bool) -> bool:
        """Whether the template writes calls spelled as `shape`, found by rendering one, once."""
        key = (shape, with_tools, beside_text)
        if key in self._kept_calls:
            return self._kept_calls[key]
        marks = [f"x{secrets.token_hex(8)}" for _ in range(3)]
        call = ChatModelFunctionCall(name=marks[0], arguments={"key": marks[1]}, result=marks[2])
        asked = ChatUserMessage(text="Q")
        response = ("T", call, "A") if beside_text else (call, "A")
        probe = (asked, ChatModelResponse(response=response), asked)
        tools = functions_to_openai({"other": {"description": "D"}}) if with_tools else None
        try:
            text = self._render(messages_of(probe, shape), tools)
        except HistoryError:
            return True  # the history at hand will tell
        self._kept_calls[key] = all(mark in text for mark in marks)
        return self._kept_calls[key]

    def _check_losses(self, history: ChatHistory, tools: Any, text: str) -> None:
        """Every text, call, result and function must be in the prompt; thoughts may be left out."""
        prompt = plain(text)
        lost = [
            f"functions.{tool['function']['name']}"
            for tool in tools or ()
            if tool["function"]["name"] not in prompt
        ]
        n_seen: Counter[str] = Counter()
        for where, wanted, is_model_text in _texts(history):
            n_seen[wanted] += 1
            if not _stands_in(prompt, wanted, n_seen[wanted], is_model_text=is_model_text):
                lost.append(where)
        if lost:
            raise HistoryError(
                Fault(where, "the template drops or edits it.", "Use another format, or leave it out.")
                for where in lost
            )

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


def _stands_in(prompt: str, text: str, count: int, *, is_model_text: bool) -> bool:
    """Whether the prompt has `text` `count` times: trimmed, as JSON, or a model's without its thought."""
    if prompt.count(text.strip()) >= count or prompt.count(dump_json(text)[1:-1].strip()) >= count:
        return True
    return is_model_text and text.rpartition("</think>")[2].strip() in prompt


def _has_calls(history: ChatHistory, *, beside_text: bool = False) -> bool:
    """Whether there are function calls; with `beside_text`, ones that text stands right before."""
    for item in history:
        parts = item.response if isinstance(item, ChatModelResponse) else ()
        for before, part in zip(("", *parts), parts, strict=False):
            if isinstance(part, ChatModelFunctionCall) and (
                not beside_text or (before and isinstance(before, str))
            ):
                return True
    return False


def _texts(history: ChatHistory) -> Iterator[tuple[str, str, bool]]:
    """Where each text of a history stands, the text, and whether the model said it."""
    for index, item in enumerate(history):
        where = f"history[{index}]"
        if not isinstance(item, ChatModelResponse):
            yield where, str(item.text), False
            continue
        for number, part in enumerate(item.response):
            if isinstance(part, str):
                yield f"{where}.response[{number}]", part, True
            elif isinstance(part, ChatModelFunctionCall):
                yield f"{where}.response[{number}].name", part.name, False
                if isinstance(part.result, str):
                    yield f"{where}.response[{number}].result", part.result, False
