"""A Jinja chat template, compiled once: OpenAI-shaped messages in, the prompt's text out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import jinja2
from jinja2 import meta, nodes

from chatwrap.chat.json_text import dump_json
from chatwrap.chat.tokenizer import Tokenizer
from chatwrap.errors import DefinitionError, Fault, HistoryError
from chatwrap.wrapper.content import as_content
from chatwrap.wrapper.jinja_environment import (
    ChatTemplateEnvironment,
    Clock,
    MarkingEnvironment,
    TemplateRaisedError,
    strftime_with,
)
from chatwrap.wrapper.look_alikes import LookAlikes

_MAX_TEMPLATE_CHARS: Final = 1 << 20
_GIVEN_TO_ALL: Final = frozenset(
    {"messages", "tools", "documents", "bos_token", "eos_token", "add_generation_prompt"}
    | {"raise_exception", "strftime_now", "namespace", "range", "dict", "lipsum", "cycler", "joiner"}
)


class ChatTemplate:
    """A chat template that renders messages as Hugging Face's Jinja2 does, byte for byte.

    It is compiled twice at most: plain, and for content that could be taken for control text in an
    environment that marks it. `tokenizer` gives the special tokens to look for and the texts of
    ``bos_token`` and ``eos_token``. Raises `DefinitionError`, with the line, if it can't be compiled.
    """

    def __init__(self, source: str, tokenizer: Tokenizer | None, clock: Clock, *, name: str) -> None:
        self.source = source
        self.name = name
        self._tokenizer = tokenizer
        self._clock = clock
        special = None if tokenizer is None else [entry.text for entry in tokenizer.special_tokens.values()]
        self._look_alikes = LookAlikes(special)
        self._plain = self._compile(ChatTemplateEnvironment())

    def _compile(self, environment: ChatTemplateEnvironment) -> jinja2.Template:
        if not isinstance(self.source, str) or len(self.source) > _MAX_TEMPLATE_CHARS:
            problem = (
                f"not a template: {type(self.source).__name__} or over {_MAX_TEMPLATE_CHARS} characters."
            )
            raise DefinitionError.of(self.name, problem)
        environment.globals["strftime_now"] = strftime_with(self._clock)
        try:
            return environment.from_string(self.source)
        except jinja2.TemplateSyntaxError as error:
            raise DefinitionError([_syntax_fault(self.source, error, self.name)]) from None
        except RecursionError:
            raise DefinitionError.of(self.name, "nested too deep to compile.") from None

    @cached_property
    def _marking(self) -> jinja2.Template:
        """The template once more, for content that could be taken for control text."""
        return self._compile(MarkingEnvironment())

    @property
    def variables(self) -> frozenset[str]:
        """The names that the template reads from outside, beside those that every template gets.

        A name that it sets itself somewhere counts only if it asks whether the name is defined.
        """
        return self._undeclared - _GIVEN_TO_ALL - self._own_names

    @property
    def reads_tools(self) -> bool:
        """Whether the template has a place for functions."""
        return "tools" in self._undeclared

    @property
    def writes_eos(self) -> bool:
        """Whether the template reads ``eos_token``, whose text only a vocabulary tells."""
        return "eos_token" in self._undeclared

    @cached_property
    def _parsed(self) -> nodes.Template:
        return ChatTemplateEnvironment().parse(self.source)

    @cached_property
    def _undeclared(self) -> frozenset[str]:
        return frozenset(meta.find_undeclared_variables(self._parsed))

    @cached_property
    def _own_names(self) -> frozenset[str]:
        names = self._parsed.find_all(nodes.Name)
        asked = {
            test.node.name
            for test in self._parsed.find_all(nodes.Test)
            if test.name in ("defined", "undefined") and isinstance(test.node, nodes.Name)
        }
        return frozenset(name.name for name in names if name.ctx == "store") - asked

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
            marked = self._look_alikes.in_messages(messages) or self._look_alikes.in_value(tools)
        variables["add_generation_prompt"] = add_generation_prompt
        given = messages if marked else _copy(messages)
        return self.render_own(given, tools if marked else _copy(tools), marked=marked, **variables)

    def render_own(
        self, messages: Sequence[Mapping[str, Any]], tools: Any = None, *, marked: bool, **variables: Any
    ) -> str:
        """As `render`, with messages and tools that the template may change."""
        context = {
            **self._special_texts,
            **(self._functions_variables(tools, marked=marked) if self._reads_functions else {}),
            "add_generation_prompt": True,
            **variables,
            "messages": [_marked_message(message) for message in messages] if marked else messages,
            "tools": as_content(tools) if marked else tools,
        }
        return self._run(self._marking if marked else self._plain, context)

    def looks_alike(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Whether a message could be taken for control text."""
        return self._look_alikes.in_messages(messages)

    @cached_property
    def _reads_functions(self) -> bool:
        return not self.variables.isdisjoint(("functions", "datetime"))

    def _functions_variables(self, tools: Any, *, marked: bool) -> dict[str, Any]:
        """What templates with variables of their own for functions and the date read (Firefunction)."""
        functions = dump_json(tools or [])
        own = {
            "functions": as_content(functions) if marked else functions,
            "datetime": self._clock().strftime("%Y-%m-%d %H:%M:%S"),
        }
        return {name: value for name, value in own.items() if name in self.variables}

    def _run(self, template: jinja2.Template, context: dict[str, Any]) -> str:
        try:
            return template.render(context)
        except TemplateRaisedError as error:
            raise HistoryError.of(self.name, f"the template refuses this history: {error}") from None
        except RecursionError:
            raise HistoryError.of(self.name, "the template recurses without end on this history.") from None
        except Exception as error:  # whatever a stranger's template runs into, told as its own fault
            problem = f"the template fails on this history: {type(error).__name__}: {error}"
            raise HistoryError.of(self.name, problem) from error

    @cached_property
    def _special_texts(self) -> dict[str, str]:
        return {"bos_token": self._special_text("BOS"), "eos_token": self._special_text("EOS")}

    def _special_text(self, role: Any) -> str:
        token_id = self._tokenizer.role_id(role) if self._tokenizer else None
        entry = (
            self._tokenizer.special_tokens.get(token_id) if self._tokenizer and token_id is not None else None
        )
        return entry.text if entry else ""


_AT_CHARACTER: Final = re.compile(r" at \d+$")
_NAMED: Final = re.compile(r"(?:got|named|tag|unexpected|char|block) '(.+?)'")


def _syntax_fault(source: str, error: jinja2.TemplateSyntaxError, name: str) -> Fault:
    """Jinja2's complaint, at the word that it names if that stands once in the line, else at the line."""
    message = _AT_CHARACTER.sub("", (error.message or "").rstrip("."))
    start = _line_start(source, error.lineno)
    line = source[start:].partition("\n")[0]
    named = _NAMED.search(message)
    found = named is not None and line.count(named[1]) == 1
    offset = start + (line.index(named[1]) if found and named else 0)
    return Fault.at(source, offset, f"not a Jinja template: {message}.", name=name)


def _line_start(text: str, line: int) -> int:
    return sum(map(len, text.splitlines(keepends=True)[: max(0, line - 1)]))


def _copy(value: Any) -> Any:
    """A deep copy of JSON: templates may change what they get."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {key: member if isinstance(member, str) else _copy(member) for key, member in value.items()}
    return [_copy(member) for member in value] if isinstance(value, list | tuple) else value


def _marked_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with its values as content; its role and part types are the format's own words."""
    return {key: value if key == "role" else as_content(value) for key, value in message.items()}
