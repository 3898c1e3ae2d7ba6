"""``chatwrap render``: the prompt that a history becomes, without running a model."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from chatwrap.chat.functions import ChatModelFunctions, as_functions
from chatwrap.chat.history import ChatHistory, as_history
from chatwrap.chat.openai import functions_from_openai, history_from_openai
from chatwrap.chat.text import LlamaText
from chatwrap.cli.spans import print_spans, spans_of
from chatwrap.cli.streams import printable_json
from chatwrap.errors import Fault, HistoryError
from chatwrap.files import decode_utf8, read_text
from chatwrap.models import default_model, find_model
from chatwrap.tokens.encode import encode
from chatwrap.wrapper.base import ChatWrapper, ContextState
from chatwrap.wrapper.definition import load_chat_wrapper

if TYPE_CHECKING:
    from chatwrap.engine.vocabulary import Vocabulary

_FROM_MODEL: Final = ("auto", "jinja")


def render(
    history: Annotated[
        str, typer.Argument(help="A JSON file: a history or OpenAI messages; - for stdin.")
    ] = "-",
    *,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="GGUF file or name; only read its vocabulary.")
    ] = None,
    chat_format: Annotated[
        str,
        typer.Option("--format", "-f", help="Format name or file; 'auto', or 'jinja': the file's template."),
    ] = "auto",
    functions: Annotated[Path | None, typer.Option(help="JSON file with functions or OpenAI tools.")] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Print the token ids.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the prompt for a history: control text, special tokens and content told apart."""
    request = _read_request(history, functions)
    needs_vocabulary = bool(model or tokens or chat_format in _FROM_MODEL)
    vocabulary = _vocabulary(model or default_model().name) if needs_vocabulary else None
    wrapper = _wrapper(chat_format, vocabulary)
    state = wrapper.generate_context_state(request.history, request.functions)
    ids = (
        encode(state.context_text, vocabulary, control_texts=wrapper.control_texts)
        if tokens and vocabulary
        else None
    )
    if as_json:
        print(printable_json(_as_json(wrapper, state, vocabulary, ids), indent=2))
        return
    print_spans(spans_of(state.context_text, vocabulary))
    if ids is not None and vocabulary is not None:
        _print_tokens(ids, vocabulary)
    print("stop:", " | ".join(map(_trigger, state.stop_generation_triggers)))
    for change in state.changes:
        print("changed:", change)


@dataclass(frozen=True, slots=True)
class _Request:
    history: ChatHistory
    functions: ChatModelFunctions


def _read_request(source: str, functions: Path | None) -> _Request:
    """A history in its own JSON form, or OpenAI messages, alone or in a request with tools."""
    name = "stdin" if source == "-" else source
    text = decode_utf8(sys.stdin.buffer.read(), name=name) if source == "-" else read_text(source)
    value = _parse(text, name)
    tools: Any = None
    if isinstance(value, Mapping) and "messages" in value:
        value, tools = value["messages"], value.get("tools")
    is_openai = (
        isinstance(value, list) and bool(value) and isinstance(value[0], Mapping) and "role" in value[0]
    )
    history = history_from_openai(value, where=name) if is_openai else as_history(value, where=name)
    given = functions_from_openai(tools) if functions is None else _read_functions(functions)
    return _Request(history, given)


def _read_functions(path: Path) -> ChatModelFunctions:
    value = _parse(read_text(path), str(path))
    if isinstance(value, list):
        return functions_from_openai(value, where=str(path))
    return as_functions(value, where=str(path))


def _parse(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise HistoryError([Fault.at(text, error.pos, f"not JSON: {error.msg}.", name=name)]) from None
    except RecursionError:
        raise HistoryError.of(name, "JSON nested too deep to read.", "Flatten it.") from None


def _vocabulary(model: str) -> Vocabulary:
    from chatwrap.engine.vocabulary import load_vocabulary

    return load_vocabulary(find_model(model))


def _wrapper(chat_format: str, vocabulary: Vocabulary | None) -> ChatWrapper:
    if vocabulary is None:
        return load_chat_wrapper(chat_format)
    from chatwrap.engine.model import resolved_wrapper

    return resolved_wrapper(chat_format, vocabulary)


def _as_json(
    wrapper: ChatWrapper, state: ContextState, vocabulary: Vocabulary | None, ids: list[int] | None
) -> dict[str, Any]:
    spans = spans_of(state.context_text, vocabulary)
    return {
        "format": wrapper.wrapper_name,
        "prompt": str(state.context_text),
        "spans": [{"kind": span.kind, "text": span.text} for span in spans],
        "stop": [trigger.to_json() for trigger in state.stop_generation_triggers],
        "changes": list(state.changes),
        **({} if ids is None else {"token_ids": ids}),
    }


def _trigger(trigger: LlamaText) -> str:
    """A stop trigger as its spans, control text and roles in angle brackets of their kind."""
    return " ".join(f"{span.kind} {printable_json(span.text)}" for span in spans_of(trigger, None))


def _print_tokens(ids: list[int], vocabulary: Vocabulary) -> None:
    print(f"{len(ids)} tokens:", *ids)
    for token_id in ids:
        print(f"{token_id:>8} {printable_json(vocabulary.piece(token_id).decode('utf-8', 'replace'))}")
