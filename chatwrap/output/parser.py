"""`OutputParser`: what a model writes, read as texts, segments and function calls while it arrives."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from chatwrap.chat.events import ParserEvent
from chatwrap.chat.functions import ChatModelFunctions
from chatwrap.chat.history import ChatModelResponse, SegmentType
from chatwrap.chat.syntax import ChatWrapperSettings
from chatwrap.chat.text import LlamaTextInput
from chatwrap.errors import OptionError
from chatwrap.output.answer import AnswerReader
from chatwrap.output.response import response_of
from chatwrap.output.source import Reading


class OutputParser:
    r"""Reads a model's output by the settings that its prompt was rendered by.

    In a chunk, plain strings are text that the model spelled and `SpecialTokensText` are special tokens.
    Marks that are `special_tokens` are read only as such, all others only in text; without `special_tokens`
    all marks are read in text, as in a saved answer. `functions` are those that may be called (None: any);
    their schemas type values that stand without quotes. `opened` is the segment in which the prompt ended.

    Laws: the `raw` of all events joined is the output; how it is cut into chunks only decides how texts
    are cut into events; an event is given once no further output can change it. Cost: linear. Whatever is
    wrong with the output is told in diagnostics, or raised as an `OutputError` if the parser is `strict`.

    >>> parser = OutputParser(ChatWrapperSettings())
    >>> parser.feed("Wait. ||call: now("), parser.flush()[-1].kind
    ([TextEvent(text='Wait.', raw='Wait.')], 'cut_call')
    """

    def __init__(
        self,
        settings: ChatWrapperSettings,
        *,
        functions: ChatModelFunctions | None = None,
        special_tokens: Collection[str] = (),
        opened: SegmentType | None = None,
        strict: bool = False,
    ) -> None:
        if opened is not None and settings.segments.of(opened) is None:
            raise OptionError.of("opened", f"the format has no {opened}.", "Give None.")
        self._answer = AnswerReader(
            settings, functions=functions, special_tokens=special_tokens, opened=opened, strict=strict
        )
        self._reading: Reading[None] = self._answer.read()
        self._is_flushed = False

    def feed(self, chunk: LlamaTextInput) -> list[ParserEvent]:
        """The events that are certain after `chunk`."""
        if self._is_flushed:
            raise OptionError.of("chunk", "the answer has ended.", "Make a new parser for another answer.")
        self._answer.source.feed(chunk)
        return self._go_on()

    def flush(self, *, stopped_by: str = "") -> list[ParserEvent]:
        """The last events: no more output follows, since the text `stopped_by` ended it, if any did."""
        if self._is_flushed:
            return []
        self._is_flushed = True
        self._answer.source.end(stopped_by)
        return self._go_on()

    def _go_on(self) -> list[ParserEvent]:
        next(self._reading, None)
        return self._answer.writer.events()


def parse(
    text: LlamaTextInput,
    settings: ChatWrapperSettings,
    *,
    functions: ChatModelFunctions | None = None,
    special_tokens: Collection[str] = (),
    opened: SegmentType | None = None,
    strict: bool = False,
) -> ChatModelResponse:
    """What a whole answer says; see `OutputParser` for the options."""
    parser = OutputParser(
        settings, functions=functions, special_tokens=special_tokens, opened=opened, strict=strict
    )
    return response_of([*parser.feed(text), *parser.flush()])


def events_of(chunks: Iterator[LlamaTextInput], parser: OutputParser) -> Iterator[ParserEvent]:
    """The events of an answer that comes in `chunks`, the last ones included."""
    for chunk in chunks:
        yield from parser.feed(chunk)
    yield from parser.flush()
