"""`Grammar`: what every place that constrains an answer takes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from chatwrap.chat.functions import FunctionsLike, as_functions
from chatwrap.chat.model import NamedFunction, ToolChoice
from chatwrap.chat.syntax import ChatWrapperSettings
from chatwrap.errors import GrammarError, SchemaError, UnknownNameError
from chatwrap.files import data_path, read_text
from chatwrap.grammar.answer import AnswerShape, convert_answer, convert_calls
from chatwrap.grammar.automaton import of_words
from chatwrap.grammar.calls import MAX_CALLS
from chatwrap.grammar.gbnf import GrammarTree
from chatwrap.grammar.matcher import Matcher
from chatwrap.grammar.reader import read
from chatwrap.grammar.regex import regex_tree
from chatwrap.grammar.rules import RuleBook
from chatwrap.grammar.safety import hazards
from chatwrap.grammar.schema.convert import Options, convert
from chatwrap.grammar.schema.layout import Whitespace
from chatwrap.grammar.schema.report import Report

if TYPE_CHECKING:
    from pydantic import BaseModel


class HasSettings(Protocol):
    """A chat wrapper, so far as a grammar needs to know it."""

    settings: ChatWrapperSettings


@dataclass(frozen=True)
class Grammar:
    """A grammar that llama.cpp can run without harm, and what is known about it.

    `schema` is the JSON Schema it came from, if any; `report` says what of it is enforced.

    >>> grammar = Grammar.from_json_schema({"type": "integer", "minimum": 3})
    >>> grammar.accepts("3"), grammar.accepts("2"), grammar.accepts_prefix("1")
    (True, False, True)
    """

    tree: GrammarTree
    schema: Any = field(default=None, compare=False)
    report: Report = field(default=Report(), compare=False)

    @classmethod
    def from_gbnf(cls, text: str, *, name: str = "") -> Grammar:
        """Reads GBNF. Raises `GrammarError` with line and column of all that is wrong or harmful."""
        return cls(read(text, name=name))

    @classmethod
    def from_file(cls, path: str | Path) -> Grammar:
        """Reads a ``.gbnf`` file. Raises `FileError` and `GrammarError`."""
        return cls.from_gbnf(read_text(path), name=str(path))

    @classmethod
    def get(cls, name: str) -> Grammar:
        """One of the ready-made grammars, by name; `names` lists them. Raises `UnknownNameError`.

        >>> Grammar.get("json").accepts('{"a": [1, 2]}')
        True
        """
        if name not in (known := cls.names()):
            raise UnknownNameError("grammar", name, known, "Grammar.names()")
        return _ready_made(name)

    @classmethod
    def names(cls) -> list[str]:
        """The names of the ready-made grammars."""
        return sorted(path.stem for path in data_path("grammars").glob("*.gbnf"))

    @classmethod
    def from_json_schema(
        cls,
        schema: dict[str, Any] | bool | str,  # noqa: FBT001
        *,
        unsupported: Literal["error", "relax"] = "error",
        closed: bool = False,
        nullable: bool = False,
        whitespace: Whitespace = "flexible",
        timeout_s: float = 5.0,
    ) -> Grammar:
        """The JSON texts that are valid by a schema (2020-12 or draft-07; JSON text or a value).

        `closed`: an object that names properties and doesn't speak of others allows no others (JSON
        Schema allows them). `nullable`: OpenAPI's ``nullable: true`` counts. `unsupported`: what
        can't be written as a grammar is an error, or left open and named in `report`; then validate
        the finished answer. Equal schemas are converted once.

        Raises `SchemaError`, which names each path and its mend.
        """
        text = schema if isinstance(schema, str) else _canonical(schema)
        options = Options(unsupported, closed, nullable, whitespace, timeout_s)
        return _converted(text, options)

    @classmethod
    def from_pydantic(cls, model: type[BaseModel] | Any, **options: Any) -> Grammar:
        """The JSON texts of a pydantic model or of any type pydantic knows; `options` as above."""
        from pydantic import TypeAdapter

        return cls.from_json_schema(TypeAdapter(model).json_schema(), **options)

    @classmethod
    def from_regex(cls, pattern: str) -> Grammar:
        """The texts in which a regular expression finds a match; anchor it to match whole texts.

        Raises `PatternError`, a `GrammarError`, for what no grammar can do: lookarounds, back references.

        >>> Grammar.from_regex(r"^\\d{2}$").accepts("07")
        True
        """
        return cls(checked(regex_tree(pattern)))

    @classmethod
    def from_choices(cls, choices: Iterable[str]) -> Grammar:
        """Exactly one of the texts.

        >>> print(Grammar.from_choices(["yes", "yesterday"]).tree)
        root ::= "yes" ("terday" | "")
        """
        book = RuleBook()
        book.rules["root"] = book.plain_text(of_words(choices))
        return cls(checked(book.tree()))

    @classmethod
    def from_functions(
        cls,
        functions: FunctionsLike,
        settings: ChatWrapperSettings | HasSettings | None = None,
        *,
        name: str | None = None,
        tool_choice: ToolChoice = "required",
        max_calls: int = MAX_CALLS,
        unsupported: Literal["error", "relax"] = "error",
        closed: bool = True,
        whitespace: Whitespace = "flexible",
        timeout_s: float = 5.0,
    ) -> Grammar:
        """Calls of the functions as a chat format (a chat wrapper, or the settings of one) writes them.

        ``required``: a call of any of the functions; `name` or ``NamedFunction(name)``: of that one;
        ``auto``: an answer of text, thoughts and calls, free up to where a call begins. Where the format
        has calls made together, up to `max_calls` are. The other options are those of
        `from_json_schema` for each function's parameters, closed by default.

        Raises `GrammarError` without functions or for a syntax that has no text, `OptionError`,
        `UnknownNameError`, and `SchemaError` with the faults of all parameters.

        >>> now = Grammar.from_functions({"now": {"params": {"properties": {"zone": {"type": "null"}}}}})
        >>> now.accepts('||call: now({"zone": null})'), now.accepts('||call: then({})')
        (True, False)
        """
        found = settings or ChatWrapperSettings()
        found = found if isinstance(found, ChatWrapperSettings) else found.settings
        options = Options(unsupported, closed, whitespace=whitespace, timeout_s=timeout_s)
        choice = tool_choice if name is None else NamedFunction(name)
        shape = AnswerShape(as_functions(functions), choice, max_calls)
        tree, report = (convert_answer if choice == "auto" else convert_calls)(shape, found, options)
        return cls(checked(tree), report=report)

    @cached_property
    def gbnf(self) -> str:
        """The grammar as GBNF text."""
        return str(self.tree)

    def matcher(self) -> Matcher:
        """A matcher at the start of a text, to follow an answer chunk by chunk."""
        return Matcher(self.tree)

    def accepts(self, text: str) -> bool:
        """Whether the whole text is in the grammar."""
        matcher = self.matcher()
        return matcher.feed(text) and matcher.is_complete

    def accepts_prefix(self, text: str) -> bool:
        """Whether some text in the grammar starts with this one."""
        return self.matcher().feed(text)

    def to_llama(self) -> Any:
        """llama-cpp-python's ``LlamaGrammar`` of this grammar.

        This is the one place outside the engine that imports llama_cpp, and only when called.
        """
        from llama_cpp.llama_grammar import LlamaGrammar

        return LlamaGrammar.from_string(self.gbnf, verbose=False)


def _canonical(schema: Any) -> str:
    try:
        return json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError.of("$", f"the schema isn't JSON: {error}.", "Pass plain JSON values.") from None


@lru_cache(maxsize=256)
def _converted(text: str, options: Options) -> Grammar:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError.of("$", f"the schema isn't JSON: {error}.", "Pass a JSON Schema.") from None
    tree, report = convert(schema, options)
    return Grammar(tree, schema, report)


@lru_cache(maxsize=64)
def _ready_made(name: str) -> Grammar:
    return Grammar.from_file(data_path("grammars") / f"{name}.gbnf")


def checked(tree: GrammarTree) -> GrammarTree:
    """The tree, if it is safe and matches something. Raises `GrammarError`."""
    if found := hazards(tree):
        raise GrammarError.of(found[0].rule, found[0].problem, found[0].remedy)
    return tree
