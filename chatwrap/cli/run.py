"""``chatwrap run``: the model's answer to a .prompt file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from chatwrap.cli.options import ContextSize, GpuLayers, Threads
from chatwrap.cli.prompts import opened, read_input, read_tools
from chatwrap.cli.streams import on_terminal, printable_json, visible
from chatwrap.dotprompt.dotprompt import model_name
from chatwrap.models import default_model


def run(
    file: Annotated[str, typer.Argument(metavar="FILE.prompt", help="The prompt.")],
    variables: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", help="What the template's variables are.")
    ] = None,
    *,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="GGUF file or name, in place of the prompt's.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="JSON file with an object of variables.")
    ] = None,
    tools: Annotated[
        Path | None, typer.Option(help="Python file whose functions are the prompt's tools.")
    ] = None,
    chat_format: Annotated[str, typer.Option("--format", "-f", help="Format name or file.")] = "auto",
    n_ctx: ContextSize = None,
    n_gpu_layers: GpuLayers = 0,
    threads: Threads = None,
) -> None:
    """Answer a .prompt file: its template filled in, its model, options, tools and output schema."""
    from chatwrap.engine.build import require_llama_cpp

    require_llama_cpp()
    from chatwrap.engine.model import load_model

    dotprompt = opened(file, tools=read_tools(tools))
    prompt = dotprompt.load_file(file)
    metadata = prompt.metadata()
    given = read_input(variables, json_file, metadata, option="json")
    dotprompt.check(prompt, given)
    name = model or (model_name(metadata) if metadata.model else default_model().name)
    with load_model(
        name,
        n_ctx=n_ctx,
        n_gpu_layers=n_gpu_layers,
        n_threads=threads,
        n_threads_batch=threads,
        chat_wrapper=chat_format,
    ) as loaded:
        stream = dotprompt.stream(prompt, given, model=loaded)
        shown = visible if on_terminal() else str
        with closing(stream):
            try:
                for piece in stream:
                    print(shown(piece), end="", flush=True)
            finally:
                print(flush=True)
            for call in stream.answer.calls:
                print(f"call: {call.name} {printable_json(call.arguments)}")
