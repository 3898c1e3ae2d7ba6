"""``chatwrap render``: the prompt that a history becomes, without running a model."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from chatwrap.chat.functions import ChatModelFunctions, as_functions
from chatwrap.chat.history import ChatHistory, as_history
from chatwrap.chat.json_text import parse_json
from chatwrap.chat.openai import functions_from_openai, history_from_openai
from chatwrap.cli.prompts import is_prompt, opened, read_input, read_tools
from chatwrap.cli.spans import print_spans, spans_of, triggers_text
from chatwrap.cli.streams import printable_json
from chatwrap.errors import HistoryError, OptionError
from chatwrap.files import decode_utf8, read_text
from chatwrap.models import default_model, find_model
from chatwrap.tokens.encode import encode
from chatwrap.wrapper.base import ChatWrapper, ContextState
from chatwrap.wrapper.chosen import read_chat_wrapper
from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper

if TYPE_CHECKING:
    from chatwrap.engine.vocabulary import Vocabulary

_FROM_MODEL: Final = ("auto", "jinja")


def render(
    history: Annotated[
        str, typer.Argument(help="A JSON file: a history or OpenAI messages; - for stdin. Or a .prompt file.")
    ] = "-",
    variables: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="A .prompt file's variables.")
    ] = None,
    *,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="GGUF file or name; only read its vocabulary.")
    ] = None,
    chat_format: Annotated[
        str,
        typer.Option("--format", "-f", help="Format name or file; 'auto', or 'jinja': the file's template."),
    ] = "auto",
    functions: Annotated[Path | None, typer.Option(help="JSON file with functions or OpenAI tools.")] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", help="JSON file with an object of a .prompt file's variables.")
    ] = None,
    tools: Annotated[
        Path | None, typer.Option(help="Python file whose functions are a .prompt file's tools.")
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Print the token ids.")] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="No colours: one piece of the prompt a line.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the prompt for a history: control text, special tokens and content told apart."""
    if is_prompt(history):
        request, model = _render_prompt(history, variables, input_file, tools, model, show=not as_json)
    elif variables or input_file or tools:
        raise OptionError.of("", f"variables, but {history} isn't a .prompt file.", "Leave them out.")
    else:
        request = _read_request(history, functions)
    needs_vocabulary = model is not None or tokens or chat_format in _FROM_MODEL
    vocabulary = _vocabulary(default_model().name if model is None else model) if needs_vocabulary else None
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
    print_spans(spans_of(state.context_text, vocabulary), plain=plain)
    if ids is not None and vocabulary is not None:
        _print_tokens(ids, vocabulary)
    print("stop:", triggers_text(state.stop_generation_triggers))
    for change in state.changes:
        print("changed:", change)


@dataclass(frozen=True, slots=True)
class _Request:
    history: ChatHistory
    functions: ChatModelFunctions


def _render_prompt(
    file: str,
    variables: list[str] | None,
    input_file: Path | None,
    tools: Path | None,
    model: str | None,
    *,
    show: bool,
) -> tuple[_Request, str | None]:
    """The history that a .prompt file makes, and the model to show it for. Prints the messages if `show`."""
    from chatwrap.dotprompt.dotprompt import model_name

    dotprompt = opened(file, tools=read_tools(tools))
    prompt = dotprompt.load_file(file)
    metadata = prompt.metadata()
    given = read_input(variables, input_file, metadata, option="input")
    dotprompt.check(prompt, given)
    rendered = prompt.render({"input": given})
    if show:
        for message in rendered.messages:
            for part in message.to_json()["content"]:
                print(f"{message.role}:", printable_json(part))
    request = dotprompt.request(rendered)
    named = model_name(metadata) if model is None and metadata.model else model
    return _Request(request.history, request.functions), named


def _read_request(source: str, functions: Path | None) -> _Request:
    """A history in its own JSON form, or OpenAI messages, alone or in a request with tools."""
    name = "stdin" if source == "-" else source
    text = decode_utf8(sys.stdin.buffer.read(), name=name) if source == "-" else read_text(source)
    value = parse_json(text, where=name)
    if not isinstance(value, Mapping) or "messages" not in value:
        return _Request(_history(value, name), read_functions(functions))
    tools = value.get("tools", value.get("functions"))
    if tools and functions is not None:
        raise OptionError.of("functions", f"given, but {name} has functions, too.", "Give one of them.")
    given = read_functions(functions) if functions else functions_from_openai(tools, where=f"{name}.tools")
    return _Request(_history(value["messages"], f"{name}.messages"), given)


def _history(value: Any, where: str) -> ChatHistory:
    if isinstance(value, str):  # which `as_history` would take for JSON text
        raise HistoryError.of(
            where, "a str, not a list of messages.", "Put it in a list, or read it with json.loads first."
        )
    is_openai = (
        isinstance(value, list) and bool(value) and isinstance(value[0], Mapping) and "role" in value[0]
    )
    return history_from_openai(value, where=where) if is_openai else as_history(value, where=where)


def read_functions(path: Path | None) -> ChatModelFunctions:
    """Functions by name, OpenAI tools, or a request with tools."""
    if path is None:
        return as_functions(None)
    value = parse_json(read_text(path), where=str(path))
    if isinstance(value, Mapping) and isinstance(value.get("tools"), list):
        return functions_from_openai(value["tools"], where=f"{path}.tools")
    if isinstance(value, list):
        return functions_from_openai(value, where=str(path))
    return as_functions(value, where=str(path))


def _vocabulary(model: str) -> Vocabulary:
    from chatwrap.engine.build import require_llama_cpp

    require_llama_cpp()
    from chatwrap.engine.vocabulary import load_vocabulary

    return load_vocabulary(find_model(model))


def _wrapper(chat_format: str, vocabulary: Vocabulary | None) -> ChatWrapper:
    """The format; a template's content is marked even where no token depends on it, to be seen."""
    if vocabulary is None:
        return read_chat_wrapper(chat_format)
    from chatwrap.engine.formats import resolved_wrapper

    wrapper = resolved_wrapper(chat_format, vocabulary)
    return wrapper.marking() if isinstance(wrapper, JinjaTemplateChatWrapper) else wrapper


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


def _print_tokens(ids: list[int], vocabulary: Vocabulary) -> None:
    print(f"{len(ids)} tokens:", *ids)
    for token_id in ids:
        print(f"{token_id:>8} {printable_json(vocabulary.piece(token_id).decode('utf-8', 'replace'))}")
