"""Measures on this machine and writes the README's table: ``uv run python benchmarks/readme.py [MODEL]``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from chatwrap.cli.bench import markdown
from chatwrap.engine.bench import machine, measures
from chatwrap.engine.model import load_model
from chatwrap.models import default_model

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"(?<=<!-- bench -->\n).*(?=<!-- /bench -->)", re.DOTALL)


def main() -> None:
    """Replaces what stands between the two comments."""
    text = README.read_text(encoding="utf-8")
    if not BLOCK.search(text):
        sys.exit(f"{README}: no <!-- bench --> and <!-- /bench --> to write between. Put them in.")
    with load_model(sys.argv[1] if sys.argv[1:] else default_model().name, n_ctx=4096) as model:
        table = markdown(model.name, machine(), list(measures(model)))
    README.write_text(BLOCK.sub(lambda _: table, text), encoding="utf-8")


if __name__ == "__main__":
    main()
