"""Whole answers as a grammar: thoughts, text, function calls and a response schema, as a format writes them.

One grammar from the first token does for the tool choice ``auto``, too: its text is free up to where a
call begins (`free_text`), so nothing has to be switched on in the middle of an answer. llama.cpp's lazy
sampler does that, but runs a regular expression over all text so far for every token, takes a call
inside a thought for one, and ends the process where a token that completes the trigger goes on with
what the grammar refuses (`llama_sampler_grammar_accept_impl` in llama.cpp's llama-grammar.cpp).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from chatwrap.chat.functions import ChatModelFunctions
from chatwrap.chat.history import SegmentType
from chatwrap.chat.model import NamedFunction, ToolChoice
from chatwrap.chat.slotted import SyntaxText, as_slotted
from chatwrap.chat.syntax import ChatWrapperSettings, SegmentSyntax
from chatwrap.errors import OptionError
from chatwrap.grammar.calls import MAX_CALLS, Calls, CallsWriter, chosen_functions
from chatwrap.grammar.charset import complement, intersection, union
from chatwrap.grammar.free_text import free_text
from chatwrap.grammar.gbnf import (
    EMPTY,
    NEVER,
    Alternation,
    CharClass,
    Expression,
    GrammarTree,
    Literal,
    Reference,
    Repetition,
    alternation,
    sequence,
)
from chatwrap.grammar.gbnf import Sequence as Series
from chatwrap.grammar.marks import PLAIN, Marks, core
from chatwrap.grammar.rules import RuleBook, renamed
from chatwrap.grammar.schema.convert import Options
from chatwrap.grammar.schema.report import Report

_GAP: Final = Repetition(CharClass(((9, 10), (13, 13), (32, 32))), 0, 4)


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """What an answer may be made of.

    `tool_choice` ``none`` (or no `functions`) leaves text, ``auto`` text or calls, ``required`` and a
    named function calls alone. `response` is the grammar that text has to be in. `thoughts` lets the
    format's thoughts stand before (in free text, within) the answer; `opened` is the segment that the
    prompt ends in. `prompt_end` is the end of the prompt, as far as it may have written the beginning
    of what every part of the answer begins with.
    """

    functions: ChatModelFunctions
    tool_choice: ToolChoice = "auto"
    max_calls: int | None = None
    response: GrammarTree | None = None
    thoughts: bool = True
    opened: SegmentType | None = None
    prompt_end: str = ""

    def __post_init__(self) -> None:
        known = ("auto", "none", "required")
        if not isinstance(self.tool_choice, NamedFunction) and self.tool_choice not in known:
            remedy = f"Give one of {', '.join(known)}, or NamedFunction(name)."
            raise OptionError.of("tool_choice", f"{self.tool_choice!r} is none.", remedy)

    @property
    def has_calls(self) -> bool:
        return self.tool_choice != "none" and (bool(self.functions) or self.tool_choice != "auto")

    @property
    def has_text(self) -> bool:
        return self.tool_choice in ("auto", "none")


def convert_answer(
    shape: AnswerShape, settings: ChatWrapperSettings, options: Options, marks: Marks = PLAIN
) -> tuple[GrammarTree, Report]:
    """The grammar of an answer in a chat format, and what it enforces of the functions' schemas.

    Law: every call that begins in what it accepts is whole, of a known function, with arguments that are
    valid as far as the report calls it enforced. Raises what `CallsWriter.calls` does.
    """
    writer = _AnswerWriter(shape, settings, options, marks)
    return writer.tree(), Report(tuple(writer.calls_writer.findings))


def convert_calls(
    shape: AnswerShape, settings: ChatWrapperSettings, options: Options, marks: Marks = PLAIN
) -> tuple[GrammarTree, Report]:
    """As `convert_answer`, of the calls alone."""
    writer = _AnswerWriter(shape, settings, options, marks)
    calls = writer.calls()
    writer.book.rules["root"] = NEVER if calls is None else calls.whole
    return writer.book.tree(), Report(tuple(writer.calls_writer.findings))


@dataclass(slots=True)
class _AnswerWriter:
    shape: AnswerShape
    settings: ChatWrapperSettings
    options: Options
    marks: Marks
    book: RuleBook = field(default_factory=RuleBook)
    calls_writer: CallsWriter = field(init=False)

    def __post_init__(self) -> None:
        self.calls_writer = CallsWriter(self.book, self.settings, self.options, self.marks)

    def tree(self) -> GrammarTree:
        calls = self.calls()
        has_parts = self.settings.segments.text is not None
        body = self._parts(calls) if has_parts else self._body(calls)
        self.book.rules["root"] = body if has_parts else self._behind_opened(body)
        return self.book.tree()

    def calls(self) -> Calls | None:
        shape, choice = self.shape, self.shape.tool_choice
        if not shape.has_calls:
            return None
        name = choice.name if isinstance(choice, NamedFunction) else None
        max_calls = MAX_CALLS if shape.max_calls is None else shape.max_calls
        return self.calls_writer.calls(chosen_functions(shape.functions, name, max_calls), max_calls)

    def _body(self, calls: Calls | None) -> Expression:
        """An answer whose text has no marks of its own."""
        if self.shape.has_text and self.shape.response is None:
            return self._free(calls)
        options: list[Expression] = []
        if calls is not None:
            options.append(sequence(_GAP, calls.whole))
        if self.shape.has_text:
            options.append(self._response())
        return sequence(self._thoughts(), alternation(options))

    def _free(self, calls: Calls | None) -> Expression:
        """Text up to the first call, thoughts in it exempt."""
        exits: dict[str, Expression] = {}
        for start, rest in (calls.starts if calls else {}).items():
            trigger = self.marks.trigger(start)
            exits[trigger] = sequence(Literal(start.removeprefix(trigger)), rest)
        thought = self._thought
        if thought is not None:
            self.book.rules["answer"] = EMPTY
            opening, inside = thought
            exits.setdefault(opening, sequence(inside, Reference("answer")))
        self.book.rules["answer"] = free_text(self.book, exits, self.marks.reserved, may_end=True)
        return Reference("answer")

    @property
    def _thought(self) -> tuple[str, Expression] | None:
        """The mark that opens a thought, and the thought up to its end; None where there can be none."""
        syntax = self.settings.segments.thought
        opening = core(self._spelled(syntax.prefix)) if syntax and self.shape.thoughts else ""
        return (opening, self._until_end(syntax)) if syntax and opening else None

    def _until_end(self, syntax: SegmentSyntax) -> Expression:
        """The rest of a segment, its closing mark included; all of the answer where it has none."""
        ending = syntax.suffix or self.settings.segments.close_all_segments or ""
        before, stop = self.marks.before_stop(self._raw(ending))
        mark = core(self.marks.spell(before)) if before.strip() else ""
        if not mark:
            return free_text(self.book, {}, self.marks.reserved, may_end=stop is not None or not ending)
        return self.book.name(free_text(self.book, {mark: EMPTY}, self.marks.reserved), "thought")

    def _thoughts(self) -> Expression:
        thought = self._thought
        if thought is None:
            return EMPTY
        opening, inside = thought
        return Repetition(sequence(_GAP, Literal(opening), inside, _GAP), 0, 1)

    def _behind_opened(self, body: Expression) -> Expression:
        """`body` behind what is left of the segment that the prompt has opened."""
        syntax = self.settings.segments.of(self.shape.opened) if self.shape.opened else None
        if syntax is None:
            return body
        return sequence(self._until_end(syntax), _GAP, body)

    def _response(self) -> Expression:
        """The response grammar, its rules under names of their own, tokens' stand-ins out of its classes."""
        assert self.shape.response is not None
        for name, expression in self.shape.response.rules.items():
            kept = _without(expression, self.marks) if self.marks.reserved else expression
            self.book.rules[f"r-{name}"] = renamed(kept, "r-")
        return Reference("r-root")

    def _parts(self, calls: Calls | None) -> Expression:
        """An answer each part of which is a message with marks of its own."""
        segments = self.settings.segments
        between = Literal(self._spelled(segments.between_parts))
        opened = segments.of(self.shape.opened) if self.shape.opened else None
        if opened is not None:
            return sequence(self._part_end(opened, calls), between, self._messages(calls, ""))
        return self._messages(calls, self._written(calls))

    def _messages(self, calls: Calls | None, written: str) -> Expression:
        """Messages up to the one that ends the answer, the first without what is `written` of it."""
        segments = self.settings.segments
        between = Literal(self._spelled(segments.between_parts))
        aside: dict[str, Expression] = {}
        for syntax in (segments.thought, segments.comment) if self.shape.thoughts else ():
            if syntax is not None:
                aside[self._spelled(syntax.prefix)] = self._part_end(syntax, calls)
        last = dict(calls.starts) if calls is not None else {}
        if self.shape.has_text and segments.text is not None:
            text = self._text_end(segments.text, calls)
            last[self._spelled(segments.text.prefix)] = text
            if self.shape.response is None and segments.between_parts:
                aside[self._spelled(segments.text.prefix)] = text
        again = self.book.name(sequence(_begun(aside, ""), between), "part")
        more = sequence(Repetition(again, 0), _begun(last, ""))
        if not written:
            return more if aside else _begun(last, "")
        first = sequence(_begun(aside, written), between, more)
        return alternation([_begun(last, written), *([first] if aside else [])])

    def _written(self, calls: Calls | None) -> str:
        """What the prompt has written already of every part's beginning."""
        segments = self.settings.segments
        known = (segments.thought, segments.comment, segments.text)
        starts = [self._spelled(syntax.prefix) for syntax in known if syntax is not None]
        starts += calls.starts if calls else ()
        end = self.marks.spell(self.shape.prompt_end)
        beginnings = (starts[0][:length] for length in range(len(starts[0]), 0, -1))
        fitting = (text for text in beginnings if all(start.startswith(text) for start in starts))
        return next((text for text in fitting if end.endswith(text)), "")

    def _text_end(self, syntax: SegmentSyntax, calls: Calls | None) -> Expression:
        if self.shape.response is None:
            return self._part_end(syntax, calls)
        before, _ = self.marks.before_stop(self._raw(syntax.suffix or ""))
        return sequence(self._response(), Literal(self.marks.spell(before)))

    def _part_end(self, syntax: SegmentSyntax, calls: Calls | None) -> Expression:
        """A part's text and its closing mark; up to what may stand between parts where it has none."""
        mark = self.marks.spell(self.marks.before_stop(self._raw(syntax.suffix or ""))[0])
        between = self._spelled(self.settings.segments.between_parts)
        if mark:
            return free_text(self.book, {mark: EMPTY}, self.marks.reserved)
        if between:
            return free_text(self.book, {}, union([*self.marks.reserved, *_first(between)]), may_end=True)
        return free_text(self.book, calls.starts if calls else {}, self.marks.reserved, may_end=True)

    def _raw(self, text: SyntaxText) -> str:
        return "".join(map(str, as_slotted(text).parts))

    def _spelled(self, text: SyntaxText) -> str:
        return self.marks.spell(self._raw(text))


def _begun(parts: Mapping[str, Expression], written: str) -> Expression:
    """One of the parts, without what is `written` of it."""
    return alternation(sequence(Literal(start[len(written) :]), rest) for start, rest in parts.items())


def _first(text: str) -> Sequence[tuple[int, int]]:
    return [(ord(text[0]), ord(text[0]))]


def _without(expression: Expression, marks: Marks) -> Expression:
    """The expression with the characters that stand for tokens taken out of its classes."""
    match expression:
        case CharClass(ranges, negated):
            members = complement(union(ranges)) if negated else union(ranges)
            if not intersection(members, marks.reserved):
                return expression
            if negated:
                return CharClass(union([*ranges, *marks.reserved]), negated=True)
            return CharClass(intersection(members, complement(marks.reserved)))
        case Series(items):
            return Series(tuple(_without(item, marks) for item in items))
        case Alternation(options):
            return Alternation(tuple(_without(option, marks) for option in options))
        case Repetition(item, minimum, maximum):
            return Repetition(_without(item, marks), minimum, maximum)
        case _:
            return expression
