"""`JinjaTemplateChatWrapper`: renders histories with the Jinja template inside a GGUF file."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import jinja2
from jinja2 import meta

from chatwrap.chat.functions import FunctionsLike, as_functions
from chatwrap.chat.history import ChatHistory, ChatModelResponse, ChatSystemMessage, HistoryLike, as_history
from chatwrap.chat.openai import functions_to_openai
from chatwrap.chat.text import LlamaText, SpecialToken, control
from chatwrap.chat.tokenizer import Tokenizer
from chatwrap.errors import DefinitionError, Fault, HistoryError, OptionError
from chatwrap.wrapper.base import ChatWrapper, ContextState
from chatwrap.wrapper.content import Content, as_content, plain, to_llama_text
from chatwrap.wrapper.jinja_environment import (
    ChatTemplateEnvironment,
    Clock,
    MarkingEnvironment,
    TemplateRaisedError,
    strftime_with,
)
from chatwrap.wrapper.jinja_messages import MessageShape, fold_system, merge_neighbours, messages_of
from chatwrap.wrapper.look_alikes import LookAlikes

_MAX_TEMPLATE_CHARS: Final = 1 << 20
_ENVIRONMENT_NAMES: Final = frozenset(
    {"messages", "tools", "documents", "bos_token", "eos_token", "add_generation_prompt"}
    | {"raise_exception", "strftime_now", "date_string", "namespace", "range", "dict", "lipsum", "cycler"}
    | {"joiner"}
)


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
    messages folded into the user message behind them (`convert_unsupported_system_messages_to_user_messages`:
    ``"auto"``, or always True, or never False), neighbours of one role merged
    (`join_adjacent_messages_of_the_same_type`: ``"auto"``, True, False). `ContextState.changes` tells what was done.
    A message, function or result that isn't in the prompt in the end is an error that names it.

    Functions go to the template if it reads ``tools``; if not, they are described in a system message
    and written in the default call syntax, and `changes` says so.

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
        self.template = template
        self.roles = RoleNames(system_role_name, user_role_name, model_role_name)
        self.folds_system = _choice(
            convert_unsupported_system_messages_to_user_messages,
            "convert_unsupported_system_messages_to_user_messages",
        )
        self.merges_neighbours = _choice(
            join_adjacent_messages_of_the_same_type, "join_adjacent_messages_of_the_same_type"
        )
        self.additional_render_parameters = dict(additional_render_parameters or {})
        self._tokenizer = tokenizer
        self._name = name
        self._clock = clock
        special = None if tokenizer is None else [entry.text for entry in tokenizer.special_tokens.values()]
        self._look_alikes = LookAlikes(special)
        self._compiled = self._compile(ChatTemplateEnvironment())

    # --- compiling -------------------------------------------------------------------------------

    def _compile(self, environment: ChatTemplateEnvironment) -> jinja2.Template:
        if not isinstance(self.template, str) or len(self.template) > _MAX_TEMPLATE_CHARS:
            problem = (
                f"not a template: {type(self.template).__name__} or over {_MAX_TEMPLATE_CHARS} characters."
            )
            raise DefinitionError.of(self._name, problem)
        environment.globals["strftime_now"] = strftime_with(self._clock)
        try:
            return environment.from_string(self.template)
        except jinja2.TemplateSyntaxError as error:
            offset = _line_start(self.template, error.lineno)
            fault = Fault.at(self.template, offset, f"not a Jinja template: {error.message}", name=self._name)
            raise DefinitionError([fault]) from None
        except RecursionError:
            raise DefinitionError.of(self._name, "nested too deep to compile.") from None

    @cached_property
    def _marking(self) -> jinja2.Template:
        """The template once more, for content that could be taken for control text."""
        return self._compile(MarkingEnvironment())

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names that the template reads from outside, beside those that every template gets."""
        parsed = ChatTemplateEnvironment().parse(self.template)
        return frozenset(meta.find_undeclared_variables(parsed)) - _ENVIRONMENT_NAMES

    @cached_property
    def reads_tools(self) -> bool:
        """Whether the template has a place for functions."""
        parsed = ChatTemplateEnvironment().parse(self.template)
        return "tools" in meta.find_undeclared_variables(parsed)

    @property
    def control_texts(self) -> frozenset[str]:
        return super().control_texts | {self.template}

    # --- rendering -------------------------------------------------------------------------------

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = True,
        marked: bool | None = None,
        **variables: Any,
    ) -> str:
        """What the template makes of OpenAI-shaped `messages`; a `Content` if `marked`.

        `marked` None means: if a message could be taken for control text. Raises `HistoryError` with
        the template's own words if it refuses.
        """
        if marked is None:
            marked = self._look_alikes.in_value(list(map(_content_of, messages))) or bool(
                tools and self._look_alikes.in_value(tools)
            )
        template = self._marking if marked else self._compiled
        context = {
            **self._special_texts,
            **self.additional_render_parameters,
            **variables,
            "messages": [_marked_message(message) for message in messages] if marked else _copy(messages),
            "tools": (as_content(tools) if marked else _copy(tools)) if tools else None,
            "add_generation_prompt": add_generation_prompt,
        }
        return self._run(template, context)

    def _run(self, template: jinja2.Template, context: dict[str, Any]) -> str:
        try:
            return template.render(context)
        except TemplateRaisedError as error:
            raise HistoryError.of(self._name, f"the template refuses this history: {error}") from None
        except RecursionError:
            raise HistoryError.of(self._name, "the template recurses without end on this history.") from None
        except Exception as error:  # whatever a stranger's template runs into, told as its own fault
            problem = f"the template fails on this history: {type(error).__name__}: {error}"
            raise HistoryError.of(self._name, problem) from error

    @cached_property
    def _special_texts(self) -> dict[str, str]:
        return {"bos_token": self._special_text("BOS"), "eos_token": self._special_text("EOS")}

    def _special_text(self, role: Any) -> str:
        token_id = self._tokenizer.role_id(role) if self._tokenizer else None
        entry = (
            self._tokenizer.special_tokens.get(token_id) if self._tokenizer and token_id is not None else None
        )
        return entry.text if entry else ""

    # --- histories -------------------------------------------------------------------------------

    def generate_context_state(
        self,
        chat_history: HistoryLike,
        available_functions: FunctionsLike | None = None,
        document_function_params: bool = True,  # noqa: FBT001, FBT002 - the peers' signature
        **template_variables: Any,
    ) -> ContextState:
        """The prompt, ending in the template's own generation prompt, or in the last model item's text."""
        self._check_variables(template_variables)
        history = as_history(chat_history)
        functions = as_functions(available_functions)
        changes: list[str] = []
        if functions and not self.reads_tools:
            changes.append("functions: the template reads no tools; described in a system message.")
            history = self.add_available_functions_system_message_to_history(
                history, functions, document_function_params
            )
            functions = {}
        tools = functions_to_openai(functions) if functions else None
        text = self._adapted(history, tools, changes, template_variables)
        return ContextState(text, self._stop_generation_triggers, tuple(changes))

    def _check_variables(self, variables: Mapping[str, Any]) -> None:
        unread = sorted(set(variables) - self.variables)
        if unread:
            known = ", ".join(sorted(self.variables)) or "none"
            raise OptionError.of(unread[0], "the template never reads this variable.", f"It reads: {known}.")

    def _adapted(
        self, history: ChatHistory, tools: Any, changes: list[str], variables: Mapping[str, Any]
    ) -> LlamaText:
        """The text of the first adaptation of `history` that the template renders with nothing lost."""
        first: HistoryError | None = None
        for steps in self._adaptations(history):
            adapted = history
            for _, step in steps:
                adapted = step(adapted)
            for shape in self._shapes(adapted):
                try:
                    text = self._rendered(adapted, tools, shape, variables)
                except HistoryError as error:
                    first = first or error
                    continue
                changes += [told for told, _ in steps]
                return text
        assert first is not None
        raise first

    def _adaptations(
        self, history: ChatHistory
    ) -> list[tuple[tuple[str, Callable[[ChatHistory], ChatHistory]], ...]]:
        """Which changes to try, in order; what the options demand is in all of them."""
        fold = ("system: folded into the user message behind it.", fold_system)
        merge = ("neighbours of one role: merged.", merge_neighbours)
        has_system = any(isinstance(item, ChatSystemMessage) for item in history)
        folds = {"auto": (False, True), True: (True,), False: (False,)}[self.folds_system]
        merges = {"auto": (False, True), True: (True,), False: (False,)}[self.merges_neighbours]
        return [
            (*((fold,) if folding and has_system else ()), *((merge,) if merging else ()))
            for folding in folds
            for merging in merges
        ]

    def _shapes(self, history: ChatHistory) -> list[MessageShape]:
        """How to spell what templates disagree on; only histories with calls have more than one way."""
        calls = any(
            not isinstance(part, str) and part.type == "functionCall"
            for item in history
            if isinstance(item, ChatModelResponse)
            for part in item.response
        )
        default = MessageShape(self.roles.system, self.roles.user, self.roles.model)
        if not calls:
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
        text = self.render(messages, tools, add_generation_prompt=not continues, **variables)
        if continues:
            if nonce not in text:
                raise HistoryError.of(
                    f"history[{len(history) - 1}]", "the template drops the last model message."
                )
            text = text[: text.rindex(nonce)]
        self._check_losses(history, tools, text)
        return to_llama_text(text) if isinstance(text, Content) else control(text)

    def _check_losses(self, history: ChatHistory, tools: Any, text: str) -> None:
        """Every text, call, result and function must be in the prompt; thoughts may be left out."""
        prompt = plain(text)
        lost = [
            f"functions.{tool['function']['name']}"
            for tool in tools or ()
            if tool["function"]["name"] not in prompt
        ]
        lost += [where for where, wanted in _texts(history) if wanted.strip() not in prompt]
        if lost:
            raise HistoryError(
                Fault(where, "the template drops it.", "Use another format, or leave it out.")
                for where in lost
            )

    @cached_property
    def _stop_generation_triggers(self) -> tuple[LlamaText, ...]:
        """EOS, and what the template writes behind a model message, found by rendering one."""
        mark = f"M{secrets.token_hex(8)}M"
        question = {"role": self.roles.user, "content": "Q"}
        answer = {"role": self.roles.model, "content": mark}
        try:
            text = self.render([question, answer], add_generation_prompt=False, marked=False)
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


def _line_start(text: str, line: int) -> int:
    return sum(map(len, text.splitlines(keepends=True)[: max(0, line - 1)]))


def _copy(value: Any) -> Any:
    """A deep copy of JSON: templates may change what they get."""
    match value:
        case Mapping():
            return {key: _copy(member) for key, member in value.items()}
        case list() | tuple():
            return [_copy(member) for member in value]
    return value


def _content_of(message: Mapping[str, Any]) -> list[Any]:
    return [value for key, value in message.items() if key != "role"]


def _marked_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with its values as content; its role and part types are the format's own words."""
    return {key: value if key == "role" else as_content(value) for key, value in message.items()}


def _texts(history: ChatHistory) -> list[tuple[str, str]]:
    """Where each text of a history stands, and the text."""
    found: list[tuple[str, str]] = []
    for index, item in enumerate(history):
        where = f"history[{index}]"
        if not isinstance(item, ChatModelResponse):
            found.append((where, str(item.text)))
            continue
        for number, part in enumerate(item.response):
            if isinstance(part, str):
                found.append((f"{where}.response[{number}]", part))
            elif part.type == "functionCall":
                found.append((f"{where}.response[{number}]", part.name))
    return found
