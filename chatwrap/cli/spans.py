"""A prompt as spans of control text, special tokens and content, for eyes and for machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rich.console import Console
from rich.text import Text

from chatwrap.chat.text import LlamaText, SpecialToken, SpecialTokensText
from chatwrap.chat.tokenizer import Tokenizer
from chatwrap.cli.streams import on_terminal, printable_json, visible
from chatwrap.tokens.special import special_tokens_of

SpanKind: TypeAlias = Literal["control", "special", "content"]
STYLES: Final[dict[SpanKind, str]] = {"control": "cyan", "special": "bold magenta", "content": ""}


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a prompt: text that the format wrote, a special token in it, or content."""

    kind: SpanKind
    text: str


def spans_of(text: LlamaText, tokenizer: Tokenizer | None) -> tuple[Span, ...]:
    """The spans of a text. Without a vocabulary no special token is told from control text."""
    return tuple(_spans(text, tokenizer))


def _spans(text: LlamaText, tokenizer: Tokenizer | None) -> Iterator[Span]:
    for value in text.values:
        match value:
            case str():
                yield Span("content", value)
            case SpecialToken():
                yield Span("special", value.value)
            case SpecialTokensText() if tokenizer is None:
                yield Span("control", value.value)
            case SpecialTokensText():
                for piece in special_tokens_of(tokenizer).cut(value.value):
                    is_text = isinstance(piece, str)
                    yield Span("control", piece) if is_text else Span("special", piece.text)  # type: ignore[union-attr, arg-type]


def print_spans(spans: Iterable[Span], *, plain: bool = False) -> None:
    """Prints spans: in colours on a terminal that shows them, else or if `plain` one a line.

    Such a line reads ``kind "text"``: where there is no colour (a pipe, ``NO_COLOR``, a dumb terminal),
    the kinds must still be told apart.
    """
    console = Console(highlight=False, soft_wrap=True)
    if plain or not on_terminal() or console.color_system is None or console.no_color:
        for span in spans:
            print(span.kind, printable_json(span.text))
        return
    line = Text()
    for span in spans:
        line.append(visible(span.text), STYLES[span.kind])
    console.print(line)
    console.print(Text.assemble("-- ", *((f"{kind}  ", style) for kind, style in STYLES.items())))


def triggers_text(triggers: Iterable[LlamaText]) -> str:
    """Stop triggers on one line, each as its spans."""
    return " | ".join(
        " ".join(f"{span.kind} {printable_json(span.text)}" for span in spans_of(trigger, None))
        for trigger in triggers
    )
