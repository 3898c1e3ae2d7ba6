"""A small SVG: how two times grow with the number of messages, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from chatwrap.engine.bench import Measure

_WIDTH, _HEIGHT, _LEFT, _EDGE = 640, 400, 70, 50
_COLOURS: Final = ("#0b7285", "#c92a2a")


def growth_plot(measures: Sequence[Measure], *, title: str) -> str:
    """Time by number of messages, ours and the yardstick's. Needs at least two sizes and no time of 0."""
    sizes = [measure.size for measure in measures]
    lines = {
        "chatwrap": [measure.ours_s for measure in measures],
        measures[0].yardstick: [measure.yardstick_s for measure in measures],
    }
    times = [time for line in lines.values() for time in line]
    decades = range(floor(log10(min(times))), ceil(log10(max(times))) + 1)

    def x(size: int) -> float:
        share = log10(size / min(sizes)) / log10(max(sizes) / min(sizes))
        return _LEFT + share * (_WIDTH - _LEFT - _EDGE)

    def y(time_s: float) -> float:
        share = (log10(time_s) - decades[0]) / (decades[-1] - decades[0])
        return _HEIGHT - _EDGE - share * (_HEIGHT - 2 * _EDGE)

    shapes = [_text(_WIDTH / 2, 24, title, anchor="middle")]
    for decade in decades:
        shapes.append(_line([(_LEFT, y(10**decade)), (_WIDTH - _EDGE, y(10**decade))], "#ddd"))
        shapes.append(_text(_LEFT - 8, y(10**decade) + 4, f"{1e3 * 10**decade:g} ms", anchor="end"))
    shapes += [_text(x(size), _HEIGHT - 28, str(size), anchor="middle") for size in sizes]
    shapes.append(_text(_WIDTH / 2, _HEIGHT - 8, "messages", anchor="middle"))
    for (label, line), colour in zip(lines.items(), _COLOURS, strict=True):
        shapes.append(_line([(x(n), y(time)) for n, time in zip(sizes, line, strict=True)], colour, width=2))
        shapes.append(_text(_LEFT + 8, y(line[0]) - 8, label, colour=colour))
    return _document(shapes)


def _line(points: Iterable[tuple[float, float]], colour: str, *, width: int = 1) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _document(shapes: Iterable[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif"'
    )
    return "\n".join(
        [f'{head} font-size="13">', '<rect width="100%" height="100%" fill="white"/>', *shapes, "</svg>\n"]
    )
