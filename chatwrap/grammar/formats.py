"""The string formats of JSON Schema as automata (JSON Schema validation 2020-12, section 7.3).

Each accepts only valid texts of its format, and all that people use of them; what is left out is
said beside it. `format_automaton` gives None for a format that no automaton here knows.
"""

from __future__ import annotations

from functools import lru_cache

from chatwrap.grammar.automaton import Automaton
from chatwrap.grammar.regex import compile_pattern

_YEAR = "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
# RFC 3339, full-date; the year 0000 and the 29th of February in other years are left out.
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
# Leap seconds are left out.
_TIME = (
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_HEX = "[0-9a-fA-F]"
_GROUP = f"{_HEX}{{1,4}}"
_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_LOCAL = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
_PATH_CHARACTER = f"(?:[a-zA-Z0-9\\-._~!$&'()*+,;=:@]|%{_HEX}{{2}})"
_NO_COLON = f"(?:[a-zA-Z0-9\\-._~!$&'()*+,;=@]|%{_HEX}{{2}})"
_PATH = f"(?:{_PATH_CHARACTER}|/)"
_QUERY = f"(?:{_PATH_CHARACTER}|[/?])"
_TAIL = f"(?:\\?{_QUERY}*)?(?:#{_QUERY}*)?"
_SCHEME = "[a-zA-Z][a-zA-Z0-9+.-]*:"
_POINTER = "(?:/(?:[^~/]|~[01])*)*"
_DAYS = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"
_CLOCK = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"


def _ipv6() -> str:
    """RFC 4291 without an embedded IPv4 address: eight groups, or fewer around one ``::``."""
    options = [f"(?:{_GROUP}:){{7}}{_GROUP}"]
    for left in range(8):
        before = f"{_GROUP}(?::{_GROUP}){{{left - 1}}}" if left else ""
        after = f"(?:{_GROUP}(?::{_GROUP}){{0,{6 - left}}})?" if left < 7 else ""
        options.append(f"{before}::{after}")
    return "|".join(options)


_PATTERNS: dict[str, str] = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}[Tt]{_TIME}",
    "duration": f"P(?:[0-9]+W|{_DAYS}(?:{_CLOCK})?|{_CLOCK})",
    "uuid": f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}",
    "ipv4": f"(?:{_BYTE}\\.){{3}}{_BYTE}",
    "ipv6": _ipv6(),
    "hostname": f"{_LABEL}(?:\\.{_LABEL})*",
    "email": f"{_LOCAL}(?:\\.{_LOCAL})*@{_LABEL}(?:\\.{_LABEL})*",
    "uri": f"{_SCHEME}{_PATH}+{_TAIL}",
    "uri-reference": f"(?:{_SCHEME}{_PATH}*|{_NO_COLON}+(?:/{_PATH}*)?|/{_PATH}*)?{_TAIL}",
    "json-pointer": _POINTER,
    "relative-json-pointer": f"(?:0|[1-9][0-9]*)(?:#|{_POINTER})",
}  # fmt: skip

# Formats that say nothing about a string (OpenAPI's number formats and the like).
NOT_FOR_STRINGS = frozenset(
    ["int32", "int64", "uint32", "uint64", "float", "double", "int", "integer", "number"]
)


@lru_cache(maxsize=64)
def format_automaton(name: str) -> Automaton | None:
    """The texts of a format, or None if it isn't one of those known here.

    >>> date = format_automaton("date")
    >>> date.accepts("2024-02-29"), date.accepts("2023-02-29")
    (True, False)
    """
    pattern = _PATTERNS.get(name)
    return None if pattern is None else compile_pattern(f"^(?:{pattern})$")
