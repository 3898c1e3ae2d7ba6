"""The options that commands which load a model share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

ModelArgument: TypeAlias = Annotated[
    str | None, typer.Argument(help="A GGUF file or a name in `chatwrap models`.")
]
ChatFormat: TypeAlias = Annotated[
    str, typer.Option("--format", "-f", help="Format name or file; 'auto', or 'jinja': the file's template.")
]
ContextSize: TypeAlias = Annotated[
    int | None, typer.Option(help="Context in tokens; the model's own, 8192 at most.")
]
GpuLayers: TypeAlias = Annotated[int, typer.Option(help="Layers on the GPU; -1 for all.")]
Threads: TypeAlias = Annotated[int | None, typer.Option(help="CPU threads; llama.cpp's choice by default.")]
