"""Every error chatwrap raises, in one tree under `ChatwrapError`.

A message reads ``where: what is wrong, with the value. What would be right, or what to do.``
Each class is also the builtin exception it resembles and keeps its data as attributes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self


class ChatwrapError(Exception):
    """Base class of all errors raised on purpose by chatwrap. They survive pickling, attributes included."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, vars(self))


def _restored(kind: type[ChatwrapError], args: tuple[Any, ...], attributes: dict[str, Any]) -> ChatwrapError:
    """The error that was pickled, made without its `__init__`, which takes other arguments."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong in a text or a value: where, what, and what to do about it.

    `where` is a path (``$.properties.age``), a place in a file (``chat.toml:3:9``) or a name.
    `excerpt` holds the source line with a caret below it, or is empty.

    >>> print(Fault("history.user", "no {{message}} in 'user: '.", "Put it where the message goes."))
    history.user: no {{message}} in 'user: '. Put it where the message goes.
    """

    where: str
    problem: str
    remedy: str = ""
    excerpt: str = ""

    @classmethod
    def at(cls, source: str, offset: int, problem: str, remedy: str = "", *, name: str = "") -> Self:
        """The fault at character `offset` of the text `source`, which the user knows as `name`."""
        position = Position.of(source, offset)
        where = f"{name}:{position}" if name else str(position)
        return cls(where, problem, remedy, position.excerpt)

    def __str__(self) -> str:
        message = f"{self.where}: {self.problem}" if self.where else self.problem
        message = f"{message} {self.remedy}" if self.remedy else message
        return f"{message}\n{self.excerpt}" if self.excerpt else message


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text: line and column count from 1, columns in characters.

    >>> print(Position.of("ab\\ncd", 4).excerpt)
      cd
       ^
    """

    line: int
    column: int
    excerpt: str

    @classmethod
    def of(cls, source: str, offset: int) -> Self:
        """The position of character `offset` (0-based, at most ``len(source)``)."""
        start = source.rfind("\n", 0, offset) + 1
        end = source.find("\n", offset)
        text = source[start : end if end >= 0 else len(source)]
        shown_from = max(0, offset - start - 60)
        shown = text[shown_from : shown_from + 100].rstrip("\r").replace("\t", " ")
        caret = " " * (offset - start - shown_from)
        return cls(source.count("\n", 0, start) + 1, offset - start + 1, f"  {shown}\n  {caret}^")

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


class FaultsError(ChatwrapError, ValueError):
    """One or more faults found in one text or value, reported together; see `faults`."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults: tuple[Fault, ...] = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))

    @classmethod
    def of(cls, where: str, problem: str, remedy: str = "") -> Self:
        return cls([Fault(where, problem, remedy)])


class TemplateError(FaultsError):
    """A chat template string lacks a slot, repeats one, or can't be used."""


class DefinitionError(FaultsError):
    """A chat format's definition file can't be read or says something impossible."""


class HistoryError(FaultsError):
    """A value isn't a chat history, a message or a function definition."""


class ArgumentsError(FaultsError):
    """A function was called with arguments that it can't take."""


class ModelsFileError(FaultsError):
    """A list of models (``models.txt``) can't be read."""


class GrammarError(FaultsError):
    """A GBNF grammar can't be parsed or would harm the engine that runs it."""


class SchemaError(FaultsError):
    """A JSON Schema can't be read or can't be written as a grammar."""


class DotpromptError(FaultsError):
    """A .prompt file, its template or its input is wrong."""


class OptionError(FaultsError):
    """An option has a value that it can't have."""


class PromptError(FaultsError):
    """A prompt template, or what it was given, can't be made into a prompt."""


class AnswerError(ChatwrapError, ValueError):
    """An answer isn't what was asked for, cut short or invalid; `text` is all there is of it."""

    def __init__(self, problem: str, remedy: str = "", *, text: str) -> None:
        self.problem, self.remedy, self.text = problem, remedy, text
        super().__init__(str(Fault("answer", problem, remedy)))

    def __reduce__(self) -> tuple[Any, tuple[str, str, str]]:
        return _answer_error, (self.problem, self.remedy, self.text)


def _answer_error(problem: str, remedy: str, text: str) -> AnswerError:
    return AnswerError(problem, remedy, text=text)


class OutputError(ChatwrapError, ValueError):
    """A model's output isn't as its format means it; `kind` and `raw` are the diagnostic's."""

    def __init__(self, kind: str, problem: str, raw: str) -> None:
        self.kind, self.problem, self.raw = kind, problem, raw
        super().__init__(str(Fault("output", problem)))


class TextEncodingError(ChatwrapError, ValueError):
    """A text can't be encoded as UTF-8: it holds a lone surrogate at `char_offset`."""

    def __init__(self, text: str, char_offset: int) -> None:
        self.char_offset = char_offset
        self.code_point = ord(text[char_offset])
        before = text[max(0, char_offset - 20) : char_offset]
        super().__init__(
            f"text[{char_offset}]: lone surrogate U+{self.code_point:04X} after {before!r}. "
            "Replace it, for example with text.encode('utf-8', 'replace').decode()."
        )


class UnknownNameError(ChatwrapError, LookupError):
    """No `kind` (chat wrapper, model, grammar, ...) has the name `name`.

    >>> raise UnknownNameError("chat wrapper", "chatlm", ["chatglm3", "chatml"], "`chatwrap wrappers`")
    Traceback (most recent call last):
    chatwrap.errors.UnknownNameError: No chat wrapper named 'chatlm'. Did you mean 'chatml'? ...
    """

    def __init__(self, kind: str, name: str, known: Sequence[str], listing: str) -> None:
        self.kind, self.name, self.known, self.listing = kind, name, tuple(known), listing
        by_folded = {entry.casefold(): entry for entry in known}
        matches = difflib.get_close_matches(name.casefold(), by_folded)
        # Letters swapped are a likelier slip than letters left out, whatever the longer match's ratio.
        swapped = sorted(name.casefold())
        closest = max(matches, key=lambda match: sorted(match) == swapped, default=None)
        hint = f" Did you mean {by_folded[closest]!r}?" if closest else ""
        super().__init__(f"No {kind} named {name!r}.{hint} {listing} lists all.")


class FileError(ChatwrapError, OSError):
    """A file can't be found, read or written, or isn't what it should be."""


class ModelError(ChatwrapError, RuntimeError):
    """llama.cpp could not load a model, make a context, or evaluate tokens."""


class MissingExtraError(ChatwrapError, ImportError):
    """A package from one of chatwrap's extras isn't installed."""


class ContextOverflowError(ChatwrapError, ValueError):
    """A prompt of `n_tokens` tokens doesn't fit a context of `n_ctx` tokens."""

    def __init__(self, n_tokens: int, n_ctx: int, *, at_least: bool = False) -> None:
        self.n_tokens, self.n_ctx, self.at_least = n_tokens, n_ctx, at_least
        count = f"at least {n_tokens}" if at_least else f"{n_tokens}"
        super().__init__(
            f"prompt: {count} tokens, but the context holds {n_ctx} and needs one free to answer. "
            "Shorten the conversation, or load the model with a larger n_ctx."
        )
