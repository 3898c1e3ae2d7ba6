from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from chatwrap.cli.bench import markdown
from chatwrap.cli.plot import growth_plot
from chatwrap.engine import bench
from tests.cli.conftest import MainRun

TURNS = [
    bench.Measure("next turn: render and encode", "format & tokenize", size, 1e-5 * size, 1e-3 * size)
    for size in (10, 100)
]


def test_a_table_a_document_and_a_plot(
    run_here: MainRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bench, "measures", lambda _: iter(TURNS))
    code, out, err = run_here("bench", "--out", str(tmp_path / "new" / "folder"), "--threads", "1")
    assert code == 0 and out.count("100 x") == 2
    assert err == "next turn: render and encode, 10: 100\nnext turn: render and encode, 100: 100\n"
    folder = tmp_path / "new" / "folder"
    document = json.loads((folder / "bench.json").read_text())
    assert document["machine"] == bench.machine()
    assert [measure["size"] for measure in document["measures"]] == [10, 100]
    assert markdown(document["model"], document["machine"], TURNS) == (folder / "bench.md").read_text()
    ElementTree.fromstring((folder / "growth.svg").read_text())


def test_the_plot_shows_both_lines_over_all_sizes() -> None:
    plot = ElementTree.fromstring(growth_plot(TURNS, title="a < b"))
    texts = [node.text for node in plot.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b", "chatwrap", "format & tokenize", "10", "100", "messages"} <= set(texts)
    lines = [node.get("points", "") for node in plot.iter("{http://www.w3.org/2000/svg}polyline")]
    ours, theirs = lines[-2:]
    assert [point.split(",")[0] for point in ours.split()] == ["70.0", "590.0"]
    heights = [float(line.split()[0].split(",")[1]) for line in (ours, theirs)]
    assert heights[0] > heights[1], "the slower one is higher up"


def test_the_table_names_the_machine() -> None:
    assert markdown("m", "a machine", TURNS[:1]) == (
        "m on a machine:\n\n"
        "| what | at | chatwrap | beside | takes | ratio |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| next turn: render and encode | 10 | 100 µs | format & tokenize | 10 ms | 100 x |\n"
    )
