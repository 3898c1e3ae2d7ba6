"""`JsonOutputParser`: the JSON in an output, repaired where a model wrote it badly."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pydantic_core

from chatwrap.chat.json_text import dump_json
from chatwrap.errors import AnswerError, ChatwrapError, Fault, PromptError
from chatwrap.prompts.messages import Message
from chatwrap.prompts.parser import OutputParser, raw_text

_OPENERS: Final = "{["
_OPEN_NUMBER: Final = re.compile(r"(?<=[\s:,\[])[-+.0-9eE]{1,400}$")  # more digits may follow
MAX_REPAIRED: Final = 20_000
"""So many characters of bad JSON are repaired at most, since that takes time quadratic in them at worst."""


def loads_repaired(text: str) -> Any:
    """The value of the JSON in `text`, mended where it isn't quite JSON; "" if there is none.

    Fences, words around it, commas too many, missing brackets and quotes, and Python's literals are
    all taken. Several values become a list. NaN and infinities, which JSON has not, become null.
    Raises `AnswerError` for what is nested too deep, or too long, to be repaired.
    """
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        pass
    if len(text) > MAX_REPAIRED:
        if (value := partial_json(text)) is not None or not any(opener in text for opener in _OPENERS):
            return "" if value is None else value
        problem = f"it isn't JSON, and {len(text)} characters are too many to repair."
        raise AnswerError(problem, "Ask for less.", text=text)
    if (several := _values_in_a_row(text)) is not None:
        return several
    import json_repair

    try:
        return json_repair.loads(text)
    except (RecursionError, ValueError) as error:
        raise AnswerError(f"its JSON can't be read: {error}.", "Ask for flat JSON.", text=text) from None


def _values_in_a_row(text: str) -> list[Any] | None:
    """The objects and lists that a text is made of, if several: json_repair would keep the last alone."""
    decoder, values, rest = json.JSONDecoder(parse_constant=lambda _: None), [], text.strip()
    while rest.startswith(("{", "[")):
        try:
            value, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError):
            return None
        values.append(value)
        rest = rest[end:].lstrip(" \t\r\n,;")
    return None if rest or len(values) < 2 else values


def partial_json(text: str) -> Any:
    """The value of the JSON that `text` begins, as far as it has come; None while there is none.

    What stands before the first bracket is skipped. Strings that are still open belong to it.
    """
    starts = [place for opener in _OPENERS if (place := text.find(opener)) >= 0]
    if not starts:
        return None
    begun = _OPEN_NUMBER.sub("", text[min(starts) :])
    try:
        return pydantic_core.from_json(begun, allow_partial="trailing-strings")
    except ValueError:
        return None


@dataclass(frozen=True)
class JsonOutputParser(OutputParser):
    """Reads an output as JSON and writes it again, repaired.

    `properties` are jq queries by name: the result is then an object of what each gives first, null
    where it gives nothing. Raises `PromptError` for what is no query, `AnswerError` for one that fails
    on the output.

    >>> JsonOutputParser({"city": ".address.city"}).parse_output(
    ...     Message('Here it is: {"address": {"city": "Bern",}}')
    ... ).content
    '{"city": "Bern"}'
    """

    properties: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        faults = [
            fault for name, query in (self.properties or {}).items() if (fault := _query_fault(name, query))
        ]
        if faults:
            raise PromptError(faults)

    def parse_output(self, content: Message) -> Message:
        text = raw_text(content)
        value = loads_repaired(text)
        if self.properties is not None:
            value = {name: _queried(name, query, value, text) for name, query in self.properties.items()}
        try:
            return content.copy(content=dump_json(value))
        except ChatwrapError as error:
            raise AnswerError(f"its JSON can't be written again: {error}", text=text) from None

    def parse_partial(self, content: Message) -> Message | None:
        """The JSON as far as it has come, closed where it is still open; None before its first bracket."""
        value = partial_json(raw_text(content))
        if value is None:
            return None
        if self.properties is not None:
            value = self._queried_so_far(value)
        return content.copy(content=dump_json(value))

    def _queried_so_far(self, value: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, query in (self.properties or {}).items():
            try:
                found[name] = _queried(name, query, value, "")
            except AnswerError:  # it may succeed once there is more
                continue
        return {name: each for name, each in found.items() if each is not None}


@lru_cache(maxsize=512)
def _program(query: str) -> Any:
    import jq

    return jq.compile(query)


def _query_fault(name: str, query: object) -> Fault | None:
    where = f"properties.{name}"
    if not isinstance(query, str):
        return Fault(where, f"of type {type(query).__name__}, no jq query.", "Give a text such as '.name'.")
    try:
        _program(query)
    except ValueError as error:
        reason = " ".join(str(error).split())
        return Fault(where, f"{query!r:.60} isn't a jq query: {reason}.", "Mend it.")
    return None


def _queried(name: str, query: str, value: Any, text: str) -> Any:
    try:
        return _program(query).input_value(value).first()
    except StopIteration:
        return None
    except ValueError as error:
        remedy = "Use a query that takes it, such as .name? or .items[]?."
        raise AnswerError(f"the jq query of {name!r} fails on it: {error}.", remedy, text=text) from None
