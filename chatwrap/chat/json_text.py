"""JSON as chat models were trained to read it: the look of Python's ``json.dumps``, UTF-8 kept."""

from __future__ import annotations

import json
import re
from typing import Any

from chatwrap.errors import Fault, HistoryError

_SURROGATE = re.compile("[\ud800-\udfff]")


def dump_json(value: Any, *, where: str = "value", indent: int | None = None) -> str:
    r"""`value` as JSON with ``", "`` and ``": "`` between, non-ASCII kept, key order kept.

    With `indent` each member has a line, indented by so many spaces a level. A lone surrogate is written
    as its escape. Raises `HistoryError` for what JSON can't hold.

    >>> print(dump_json({"city": "Łódź", "n": [1, None], "q": 'say "hi"'}))
    {"city": "Łódź", "n": [1, null], "q": "say \"hi\""}
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    except RecursionError:
        raise HistoryError.of(where, "nested too deep to be written as JSON.", "Flatten it.") from None
    except (TypeError, ValueError) as error:
        raise HistoryError.of(where, f"can't be written as JSON: {error}.", "Give JSON values.") from None
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def parse_json(text: str, *, where: str = "value") -> Any:
    """The value of a JSON text. Raises `HistoryError`, which calls the text `where`, for any other.

    >>> parse_json('[1 2]', where="numbers.json")
    Traceback (most recent call last):
    chatwrap.errors.HistoryError: numbers.json:1:4: not JSON: Expecting ',' delimiter.
      [1 2]
         ^
    """
    if not text.strip():
        raise HistoryError.of(where, "empty.", "Give it a JSON text.")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise HistoryError([Fault.at(text, error.pos, f"not JSON: {error.msg}.", name=where)]) from None
    except RecursionError:
        raise HistoryError.of(where, "JSON nested too deep to read.", "Flatten it.") from None
    except ValueError:  # Python reads no integer of more than 4300 digits
        raise HistoryError.of(where, "a number in it has too many digits to read.", "Shorten it.") from None
