"""Templates with what handlebars.js makes of them, and the helpers that they use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chatwrap.dotprompt.handlebars.helpers import Helper
from chatwrap.dotprompt.handlebars.template import Environment
from chatwrap.dotprompt.handlebars.values import UNDEFINED, text_of
from chatwrap.dotprompt.helpers import HELPERS

FILE = Path(__file__).parent.parent.parent / "cases" / "handlebars.json"


def read_cases() -> dict[str, Any]:
    cases: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return cases


def javascript_text(value: Any) -> str:
    """JavaScript's ``String(value)``."""
    return "undefined" if value is UNDEFINED else "null" if value is None else text_of(value)


def environment(partials: dict[str, str]) -> Environment:
    """The environment that ``tests/parity/handlebars.cjs`` sets up, too."""
    made = Environment()
    made.helpers |= HELPERS
    made.helpers["loud"] = Helper(lambda value: javascript_text(value).upper() + "!", native=True)
    made.helpers["pair"] = Helper(lambda a, b: f"{javascript_text(a)}+{javascript_text(b)}", native=True)
    made.define_helper("time", lambda: "NOON")
    made.define_helper("box", lambda options: f"<{options.fn()}|{options.inverse()}>")
    made.define_helper("repeat", _repeat)
    for name, source in partials.items():
        made.define_partial(name, source)
    return made


def _repeat(items: list[Any], options: Any) -> str:
    return ",".join(options.fn(item, block_params=(item,)) for item in items)
