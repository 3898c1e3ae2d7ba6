"""Grammars of the answers that output parsers read, for models that can be held to one.

A parser that reads a form of its own (marks around a final answer, ReAct's steps) can say what that form
is; a small model then keeps it where the prompt alone wouldn't make it do so. Law: what the grammar
accepts, the parser reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chatwrap.chat.model import NamedFunction, ToolChoice
from chatwrap.errors import OptionError, SchemaError
from chatwrap.grammar.gbnf import (
    ANY_CHARACTER,
    CharClass,
    Expression,
    GrammarTree,
    Literal,
    Reference,
    Repetition,
    alternation,
    sequence,
)
from chatwrap.grammar.grammar import Grammar
from chatwrap.grammar.rules import renamed
from chatwrap.prompts.tools import Tool

_LINE = Repetition(CharClass(((10, 10), (13, 13)), negated=True), 1, 300)


@dataclass(frozen=True, slots=True)
class AnswerRules:
    """What an answer may be: JSON valid by `schema`, calls of `tools` as `tool_choice` lets them be."""

    schema: Mapping[str, Any] | None = None
    tools: Sequence[Tool] = ()
    tool_choice: ToolChoice = "auto"

    @property
    def offered(self) -> list[Tool]:
        """The tools that may be called. Raises `OptionError` for a choice that isn't among them."""
        choice = self.tool_choice
        if choice == "none":
            return []
        if not isinstance(choice, NamedFunction):
            return list(self.tools)
        found = [tool for tool in self.tools if tool.name == choice.name]
        if not found:
            known = ", ".join(tool.name for tool in self.tools) or "none"
            raise OptionError.of("tool_choice", f"no tool named {choice.name!r}.", f"Tools are: {known}.")
        return found

    @property
    def may_answer(self) -> bool:
        """Whether there may be an answer without a call."""
        return self.tool_choice in ("auto", "none") or not self.tools


def marked_json(rules: AnswerRules, prefix: str, suffix: str) -> str | None:
    """GBNF of JSON between two marks; None without a schema that a grammar can keep."""
    tree = None if rules.schema is None else _json_tree(dict(rules.schema))
    if tree is None:
        return None
    return _gbnf(sequence(Literal(prefix), Reference("json-root"), Literal(suffix)), tree)


def json_calls(rules: AnswerRules) -> str | None:
    """GBNF of a call as JSON, where one is demanded; None where there may be any text."""
    tree = _calls_tree(rules.offered)
    return None if rules.may_answer or tree is None else _gbnf(Reference("json-root"), tree)


def react_steps(rules: AnswerRules) -> str | None:
    """GBNF of a ReAct step: a thought, then an action or an answer; None without tools."""
    tree = _calls_tree(rules.offered)
    if tree is None:
        return None
    action = sequence(Literal("## Action:\n```json\n"), Reference("json-root"), Literal("\n```"))
    answer = sequence(Literal("## Answer: "), Repetition(ANY_CHARACTER, 1))
    ways = [action, answer] if rules.may_answer else [action]
    return _gbnf(sequence(Literal("## Thought: "), _LINE, Literal("\n"), alternation(ways)), tree)


def _calls_tree(tools: Sequence[Tool]) -> GrammarTree | None:
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.name}, "parameters": tool.schema},
            "required": ["name", "parameters"],
        }
        for tool in tools
    ]
    return _json_tree({"anyOf": calls}) if calls else None


def _json_tree(schema: dict[str, Any]) -> GrammarTree | None:
    try:
        return Grammar.from_json_schema(schema, closed=True, unsupported="relax").tree
    except SchemaError:  # the model answers freely then, and the parser reads what it can
        return None


def _gbnf(root: Expression, json: GrammarTree) -> str:
    rules = {f"json-{name}": renamed(rule, "json-") for name, rule in json.rules.items()}
    return str(GrammarTree({"root": root, **rules}))
