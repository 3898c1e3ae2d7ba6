"""``chatwrap bench``: what chatwrap costs on this machine with this model, beside llama.cpp's own parts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from chatwrap.cli.plot import growth_plot
from chatwrap.files import write_text
from chatwrap.models import default_model

if TYPE_CHECKING:
    from chatwrap.engine.bench import Measure

_COLUMNS: Final = ("what", "at", "chatwrap", "beside", "takes", "ratio")


def bench(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="GGUF file or name; the demo model if left out.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write bench.json, bench.md and growth.svg there.")
    ] = None,
    n_threads: Annotated[int | None, typer.Option("--threads", help="CPU threads to evaluate on.")] = None,
) -> None:
    """Measure what chatwrap costs beside llama.cpp's own parts. Takes a minute with a small model."""
    from chatwrap.engine.bench import machine, measures
    from chatwrap.engine.model import load_model

    with load_model(model or default_model().name, n_ctx=4096, n_threads=n_threads) as loaded:
        name, told, found = loaded.name, machine(), []
        for measure in measures(loaded):
            found.append(measure)
            typer.echo(f"{measure.name}, {measure.size}: {measure.ratio:.3g}", err=True)
    table = Table(*_COLUMNS, title=f"{name} on {told}")
    for row in map(_row, found):
        table.add_row(*row)
    Console().print(table)
    if out is not None:
        _write(out, name, told, found)


def _row(measure: Measure) -> tuple[str, ...]:
    times = (duration(measure.ours_s), measure.yardstick, duration(measure.yardstick_s))
    return (measure.name, f"{measure.size:,}", *times, f"{measure.ratio:.3g} x")


def duration(seconds: float) -> str:
    """A time with the unit that suits it.

    >>> duration(0.0000021), duration(0.0123), duration(2.5)
    ('2.1 µs', '12.3 ms', '2.5 s')
    """
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _write(folder: Path, name: str, told: str, found: Sequence[Measure]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {"model": name, "machine": told, "measures": [m.to_json() for m in found]}
    write_text(folder / "bench.json", json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    write_text(folder / "bench.md", markdown(name, told, found))
    turns = [measure for measure in found if measure.name.startswith("next turn")]
    write_text(folder / "growth.svg", growth_plot(turns, title=f"{turns[0].name}: {name}"))


def markdown(name: str, told: str, found: Iterable[Measure]) -> str:
    """The table for a README, with the machine named."""
    lines = [f"{name} on {told}:", "", f"| {' | '.join(_COLUMNS)} |", "| --- " * len(_COLUMNS) + "|"]
    lines += [f"| {' | '.join(_row(measure))} |" for measure in found]
    return "\n".join(lines) + "\n"
