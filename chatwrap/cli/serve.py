"""``chatwrap serve``: an HTTP server that OpenAI's clients can talk to."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from chatwrap.chat.json_text import parse_json
from chatwrap.cli.options import ChatFormat, ContextSize, GpuLayers, ModelArgument, Threads
from chatwrap.cli.streams import visible
from chatwrap.errors import MissingExtraError, OptionError
from chatwrap.models import default_model


def serve(
    model: ModelArgument = None,
    *,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    alias: Annotated[str | None, typer.Option(help="What the model is called in answers.")] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="CHATWRAP_API_KEY", help="Refuse requests that don't bear it.")
    ] = None,
    chat_format: ChatFormat = "auto",
    chat_template_kwargs: Annotated[
        str | None, typer.Option(help='Variables for the chat template: {"enable_thinking": false}')
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For the same answers again; random by default.")] = None,
    n_ctx: ContextSize = None,
    n_gpu_layers: GpuLayers = 0,
    threads: Threads = None,
) -> None:
    """Serve a model to OpenAI's clients: /v1/chat/completions and /v1/models."""
    from chatwrap.engine.build import require_llama_cpp

    require_llama_cpp()
    uvicorn = _uvicorn()
    variables = _variables(chat_template_kwargs)
    from chatwrap.engine.model import load_model
    from chatwrap.engine.server import create_app

    named = default_model().name if model is None else model
    with load_model(
        named,
        n_ctx=n_ctx,
        n_gpu_layers=n_gpu_layers,
        n_threads=threads,
        n_threads_batch=threads,
        chat_wrapper=chat_format,
        seed=seed,
    ) as loaded:
        app = create_app(loaded, name=alias or named, api_key=api_key, chat_template_kwargs=variables)
        title = f"{loaded.name}, format {loaded.chat_wrapper.wrapper_name}, {loaded.n_ctx} tokens"
        typer.echo(f"chatwrap: {visible(title)}", err=True)
        uvicorn.run(app, host=host, port=port, log_level="info", access_log=False)


def _uvicorn() -> Any:
    """The server that runs the application. Raises `MissingExtraError` without the extra."""
    try:
        import starlette  # noqa: F401 - the application needs it
        import uvicorn
    except ImportError as error:
        remedy = 'Run: pip install "chatwrap[server]"'
        raise MissingExtraError(f"serve: {error.name} isn't installed. {remedy}") from error
    return uvicorn


def _variables(text: str | None) -> dict[str, Any]:
    """The variables for the chat template that a JSON object names."""
    if text is None:
        return {}
    value = parse_json(text, where="--chat-template-kwargs")
    if not isinstance(value, dict):
        remedy = "Give a JSON object."
        raise OptionError.of("chat_template_kwargs", f"must map names to values, not {value!r}.", remedy)
    return value
