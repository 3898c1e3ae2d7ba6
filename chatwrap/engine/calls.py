"""`CallConstraint`: what an answer with functions may be, and the grammar of it for one vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from chatwrap.chat.functions import ChatModelFunctions
from chatwrap.chat.history import SegmentType
from chatwrap.chat.model import ToolChoice
from chatwrap.chat.syntax import ChatWrapperSettings
from chatwrap.engine.constrained import NativeGrammar
from chatwrap.engine.marks import TokenMarks
from chatwrap.engine.response_format import ResponseFormat
from chatwrap.engine.vocabulary import Vocabulary
from chatwrap.grammar.answer import AnswerShape, convert_answer
from chatwrap.grammar.grammar import Grammar, checked
from chatwrap.grammar.schema.convert import Options


@dataclass(frozen=True, slots=True)
class TokenConstraint:
    """A grammar of a whole answer in one vocabulary, its special tokens included.

    `stand_ins`: by the id of each special token in the grammar, the id of the token that answers for it
    there; see `chatwrap.engine.marks.TokenMarks`.
    """

    grammar: Grammar
    stand_ins: Mapping[int, int]

    def native(self, vocabulary: Vocabulary) -> NativeGrammar:
        """The grammar in llama.cpp, at the start of an answer."""
        return NativeGrammar(vocabulary, self.grammar, self.stand_ins)


@dataclass(frozen=True, slots=True)
class CallConstraint:
    """What an answer may be: text, thoughts and function calls, or a value of a response format.

    `tool_choice` ``auto`` lets the model write text or calls (with a `response_format` a value of that or
    calls), ``required`` or a ``NamedFunction`` calls alone, ``none`` no calls. Where the format has calls
    made together, `max_parallel_calls` bounds them (None: 16). Parameters are closed. `unsupported`:
    what a grammar can't keep of their schemas is an error, or left open (``relax``) and named in the
    grammar's report.
    """

    functions: ChatModelFunctions = field(default_factory=lambda: MappingProxyType({}))
    tool_choice: ToolChoice = "auto"
    max_parallel_calls: int | None = None
    response_format: ResponseFormat | None = None
    unsupported: Literal["error", "relax"] = "error"

    def compiled(
        self,
        settings: ChatWrapperSettings,
        vocabulary: Vocabulary,
        *,
        opened: SegmentType | None = None,
        stops: Iterable[str] = (),
        prompt_end: str = "",
        thoughts: bool = True,
    ) -> TokenConstraint:
        """The grammar of the answer in a chat format.

        `opened` is the segment that the prompt ends in, `stops` are the texts that end the turn (the
        vocabulary's own end tokens are known). `prompt_end` is the end of the prompt: some formats write
        there what every part of an answer begins with. With `thoughts` the model may think first.

        Raises `GrammarError` without functions where a call is required and for a call syntax that can't
        be written, `UnknownNameError` for a named function that isn't among them, `OptionError` for a bad
        choice or bound, `SchemaError` with the faults of all parameters.
        """
        form = self.response_format
        shape = AnswerShape(
            self.functions,
            self.tool_choice,
            self.max_parallel_calls,
            None if form is None else form.grammar.tree,
            thoughts=thoughts,
            opened=opened,
            prompt_end=prompt_end,
        )
        marks = TokenMarks(vocabulary, stops)
        options = Options(self.unsupported, is_closed=True)
        tree, report = convert_answer(shape, settings, options, marks.marks)
        return TokenConstraint(Grammar(checked(tree), report=report), marks.stand_ins)
