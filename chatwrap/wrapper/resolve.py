"""Picks the chat wrapper for a model, and can say why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from chatwrap.chat.history import ChatSystemMessage
from chatwrap.chat.text import LlamaText
from chatwrap.chat.tokenizer import Tokenizer
from chatwrap.errors import DefinitionError, OptionError
from chatwrap.wrapper.base import ChatWrapper
from chatwrap.wrapper.chosen import read_chat_wrapper
from chatwrap.wrapper.definition import (
    ChatWrapperDefinition,
    builtin_definitions,
    load_chat_wrapper,
    load_definition,
)
from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper
from chatwrap.wrapper.likeness import CASES, Case, Comparison, compare
from chatwrap.wrapper.probe import Capabilities, Feature

FALLBACK: Final = "general"
TEMPLATE_KEY: Final = "tokenizer.chat_template"
TOOL_USE_KEY: Final = f"{TEMPLATE_KEY}.tool_use"
_NAME_KEYS: Final = ("general.name", "general.basename", "general.architecture")
_THOUGHTS: Final = (Feature.LAST_THOUGHT, Feature.EARLIER_THOUGHT, Feature.CALL_THOUGHT)


class Rule(StrEnum):
    """What a decision goes by, in the order of precedence."""

    CHOICE = "choice"
    TEMPLATE = "template"
    VOCABULARY = "vocabulary"
    NAME = "name"
    FALLBACK = "fallback"


@dataclass(frozen=True, slots=True)
class ResolutionStep:
    """One rule as it was applied: which format it gave (None: none) and why."""

    rule: Rule
    chosen: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """A chat wrapper and how it was found. The last step is the one that chose it.

    `warnings` tell what the user should know: a template that can't be used, a text that was left out.
    """

    wrapper: ChatWrapper
    steps: tuple[ResolutionStep, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of a model without running it: metadata, vocabulary, file name; each may be missing."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: Tokenizer | None = None
    file_name: str = ""

    @property
    def template(self) -> str | None:
        """The chat template in the file, if there is one."""
        found = self.metadata.get(TEMPLATE_KEY)
        return found if found else None

    @property
    def names(self) -> tuple[str, ...]:
        """What the model is called: by its metadata, and by its file."""
        found = (*(str(self.metadata.get(key, "")) for key in _NAME_KEYS), Path(self.file_name).stem)
        return tuple(name for name in found if name)

    @property
    def special_texts(self) -> frozenset[str]:
        """The texts of the vocabulary's special tokens; none without a vocabulary."""
        entries = self.tokenizer.special_tokens.values() if self.tokenizer else ()
        return frozenset(entry.text for entry in entries)


def resolve(facts: ModelFacts, choice: str | Path | ChatWrapper = "auto") -> Resolution:
    """The chat wrapper for a model, by the first rule that gives one.

    1. `choice`: a wrapper, a built-in format's name, a definition file or a Jinja file; ``"jinja"`` is
       the template in the model's file. The template isn't looked at if another format was chosen.
    2. The template in the file. A built-in format that renders `CASES` as the template does, byte for
       byte, takes its place; so does one that differs only in that the template puts in a system message
       of its own where a conversation has none. Nobody in the conversation wrote that message, and no
       system message means none.
    3. The vocabulary: of the formats all of whose own special tokens it has, the one with the most of
       them; among equals the one that names the model.
    4. The names by metadata and file: the format that names the model.
    5. ``general``.

    A template that can't be used is a warning that names the line, and the next rule decides. Raises
    `OptionError` if ``"jinja"`` was chosen and the file has no template, `DefinitionError` if it can't be
    compiled, and what `load_chat_wrapper` raises.
    """
    return _Resolver(facts).resolve(choice)


@dataclass(slots=True)
class _Resolver:
    """Applies the rules in order and notes what each came to."""

    facts: ModelFacts
    steps: list[ResolutionStep] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def resolve(self, choice: str | Path | ChatWrapper) -> Resolution:
        wrapper = (
            self._chosen(choice)
            or self._by_template()
            or self._by_vocabulary()
            or self._by_name()
            or self._fallback()
        )
        return Resolution(wrapper, tuple(self.steps), tuple(self.warnings))

    def _note(self, rule: Rule, chosen: str | None, reason: str) -> None:
        self.steps.append(ResolutionStep(rule, chosen, reason))

    def _chosen(self, choice: str | Path | ChatWrapper) -> ChatWrapper | None:
        if choice == "auto":
            self._note(Rule.CHOICE, None, "no format was chosen.")
            return None
        if choice == "jinja":
            wrapper: ChatWrapper = self._own_template()
            self._note(Rule.CHOICE, wrapper.wrapper_name, "the template in the file was chosen.")
            return wrapper
        if not isinstance(choice, ChatWrapper):
            choice = read_chat_wrapper(choice, self.facts.tokenizer)
        wrapper = choice
        self._note(Rule.CHOICE, wrapper.wrapper_name, "this format was chosen.")
        return wrapper

    def _own_template(self) -> JinjaTemplateChatWrapper:
        template = self.facts.template
        if template is None:
            remedy = "Name a chat format instead; `chatwrap wrappers` lists them."
            raise OptionError.of(
                "chat_wrapper", "'jinja', but the model's file has no chat template.", remedy
            )
        options: dict[str, Any] = {"tokenizer": self.facts.tokenizer, "name": TEMPLATE_KEY}
        own = JinjaTemplateChatWrapper(template, **options)
        tool_use = self.facts.metadata.get(TOOL_USE_KEY)
        if not tool_use:
            return own
        try:
            return JinjaTemplateChatWrapper(template, tool_use_template=tool_use, **options)
        except DefinitionError as error:
            self.warnings.append(f"The model's template for functions can't be used: {error}")
            return own

    def _by_template(self) -> ChatWrapper | None:
        if self.facts.template is None:
            self._note(Rule.TEMPLATE, None, "the file has no chat template.")
            return None
        try:
            own = self._own_template()
        except DefinitionError as error:
            self._give_up_template(str(error))
            return None
        if not own.capabilities.keeps(Feature.QUESTION):
            self._give_up_template(
                f"{TEMPLATE_KEY}: {own.capabilities.refusals.get(Feature.QUESTION, _LOSES)}"
            )
            return None
        self._warn_of_missing_tokens(own)
        return self._equal_definition(own) or self._take_template(own)

    def _give_up_template(self, problem: str) -> None:
        self._note(Rule.TEMPLATE, None, f"the template can't be used. {problem}")
        self.warnings.append(f"The chat template in the model's file can't be used: {problem}")

    def _warn_of_missing_tokens(self, own: JinjaTemplateChatWrapper) -> None:
        if self.facts.tokenizer is None and own.writes_eos:
            self.warnings.append(
                f"{TEMPLATE_KEY}: writes eos_token, which is nothing without a vocabulary. "
                "Resolve from the model or its file."
            )

    def _take_template(self, own: JinjaTemplateChatWrapper) -> ChatWrapper:
        self._note(Rule.TEMPLATE, own.wrapper_name, "no built-in format renders what the template renders.")
        return own

    def _equal_definition(self, own: JinjaTemplateChatWrapper) -> ChatWrapper | None:
        """The first built-in format that can stand for the template."""
        cases = comparable_cases(own.capabilities)
        default = own.capabilities.default_system_message
        for definition in _by_likelihood(self.facts):
            if _all_equal(compare(own, definition.wrapper, cases, self.facts.tokenizer)):
                reason = "it renders what the template renders, byte for byte."
                self._note(Rule.TEMPLATE, definition.name, reason)
                return definition.wrapper
            if default and _equal_with_system(own, definition.wrapper, cases, default, self.facts.tokenizer):
                reason = (
                    "it renders what the template renders, byte for byte, but for a system message that the "
                    f"template adds where a conversation has none: {default!r}."
                )
                self._note(Rule.TEMPLATE, definition.name, reason)
                return definition.wrapper
        return None

    def _by_vocabulary(self) -> ChatWrapper | None:
        fitting = _fitting(self.facts)
        if not fitting:
            reason = "no vocabulary is known." if self.facts.tokenizer is None else _NO_MARKERS
            self._note(Rule.VOCABULARY, None, reason)
            return None
        best = fitting[0]
        shown = ", ".join(sorted(best.special_tokens)[:5])
        self._note(Rule.VOCABULARY, best.name, f"the vocabulary has its markers: {shown}.")
        return best.wrapper

    def _by_name(self) -> ChatWrapper | None:
        best = max(builtin_definitions(), key=lambda definition: _name_match(definition, self.facts.names))
        n_matching = _name_match(best, self.facts.names)
        if not n_matching:
            names = ", ".join(map(repr, self.facts.names)) or "the model has no name"
            self._note(Rule.NAME, None, f"no format names this model: {names}.")
            return None
        names = ", ".join(map(repr, self.facts.names))
        self._note(Rule.NAME, best.name, f"it names this model: {names}.")
        return best.wrapper

    def _fallback(self) -> ChatWrapper:
        self._note(Rule.FALLBACK, FALLBACK, "nothing tells the model's format; most models understand this.")
        return load_chat_wrapper(FALLBACK)


_LOSES: Final = "the template loses a plain question."
_NO_MARKERS: Final = "the vocabulary has no format's markers."


def comparable_cases(capabilities: Capabilities) -> tuple[Case, ...]:
    """The cases that a template has something to say on: with thoughts or functions only if it has them."""
    has_thoughts = any(map(capabilities.keeps, _THOUGHTS))
    has_functions = capabilities.keeps(Feature.TOOLS) or capabilities.keeps(Feature.CALLS)
    return tuple(
        case
        for case in CASES
        if (has_thoughts or not case.holds_thoughts) and (has_functions or not case.holds_calls)
    )


def _all_equal(comparisons: Iterable[Comparison]) -> bool:
    """Whether the prompts are equal wherever the template takes a history as it is."""
    return all(comparison.equal for comparison in comparisons if not comparison.problems[0])


def _equal_with_system(
    own: ChatWrapper, other: ChatWrapper, cases: Iterable[Case], default: str, tokenizer: Tokenizer | None
) -> bool:
    """Whether `other`, given the template's own system message where there is none, renders the same."""
    added = ChatSystemMessage(text=LlamaText(default))
    return _all_equal(compare(own, _WithSystem(other, added), cases, tokenizer))


class _WithSystem(ChatWrapper):
    """A format that puts a system message in front of histories that have none."""

    def __init__(self, wrapped: ChatWrapper, message: ChatSystemMessage) -> None:
        self._wrapped = wrapped
        self._message = message

    def generate_context_state(self, chat_history: Any, *options: Any) -> Any:
        starts = bool(chat_history) and isinstance(chat_history[0], ChatSystemMessage)
        history = chat_history if starts else (self._message, *chat_history)
        return self._wrapped.generate_context_state(history, *options)


def definition_for_vocabulary(tokenizer: Tokenizer) -> ChatWrapperDefinition:
    """The built-in format whose special tokens the vocabulary has, of several the one with most of them.

    A definition names them itself (``special_tokens``), because markers that families share (``<s>``)
    or that several formats write (``<|im_start|>``) tell nothing: a format with more of its own is
    picked only if none of them is missing. Among equals the first by name is picked. If none fits, the
    answer is ``general``. Costs one pass over the special tokens, and reading each built-in format.
    """
    fitting = _fitting(ModelFacts(tokenizer=tokenizer))
    return fitting[0] if fitting else load_definition(FALLBACK)


def _fitting(facts: ModelFacts) -> list[ChatWrapperDefinition]:
    """The formats all of whose own special tokens the vocabulary has, the likeliest first."""
    known = facts.special_texts
    fitting = [
        definition
        for definition in builtin_definitions()
        if definition.special_tokens and definition.special_tokens <= known
    ]
    return sorted(fitting, key=lambda one: _rank(one, facts), reverse=True)


def _by_likelihood(facts: ModelFacts) -> list[ChatWrapperDefinition]:
    """The built-in formats, those that share the most with the vocabulary and the names first."""
    return sorted(builtin_definitions(), key=lambda one: _rank(one, facts), reverse=True)


def _rank(definition: ChatWrapperDefinition, facts: ModelFacts) -> tuple[int, int, bool]:
    used = definition.special_tokens & facts.special_texts
    return len(used), _name_match(definition, facts.names), definition.name == FALLBACK


def _name_match(definition: ChatWrapperDefinition, names: tuple[str, ...]) -> int:
    """How many characters of a model's name a format's list of models gives, 0 if it isn't there."""
    plain_names = [_letters(name) for name in names]
    listed = [_letters(model) for model in (*definition.models, definition.name)]
    return max((len(one) for one in listed if one and any(one in name for name in plain_names)), default=0)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
