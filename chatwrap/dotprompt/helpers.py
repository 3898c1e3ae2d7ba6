"""Dotprompt's own helpers: JSON, and what is structure and no text: roles, history, sections, media."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from chatwrap.dotprompt.handlebars.helpers import Helper
from chatwrap.dotprompt.handlebars.values import UNDEFINED, Mark, kind_of, shown
from chatwrap.dotprompt.request import ROLES, Media

_NOT_AS_JAVASCRIPT: Final = re.compile(r"[0-9]\.0\b|[0-9]e[+-]?[0-9]|NaN|Infinity")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class RoleMark(Mark):
    """Here a message of this role begins."""

    role: str


@dataclass(frozen=True, slots=True)
class HistoryMark(Mark):
    """Here the conversation so far belongs."""


@dataclass(frozen=True, slots=True)
class SectionMark(Mark):
    """Here a section with this name belongs."""

    name: str


@dataclass(frozen=True, slots=True)
class MediaMark(Mark):
    """Here a medium stands."""

    media: Media


def to_json(value: Any, *, indent: Any = 0) -> str:
    """`value` as JavaScript writes it as JSON: without spaces, UTF-8 kept, 2.0 as ``2``.

    `indent` is a number of spaces or the indent itself. What nobody set has no JSON and gives nothing.
    Raises `ValueError` for what contains itself, `TypeError` for what isn't JSON.
    """
    if value is UNDEFINED:
        return ""
    text = _dumped(value, indent)
    if _NOT_AS_JAVASCRIPT.search(text):
        text = _dumped(_as_javascript(value), indent)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _dumped(value: Any, indent: Any) -> str:
    is_number = isinstance(indent, int | float) and not isinstance(indent, bool)
    width: int | str = max(0, min(int(indent), 10)) if is_number else indent if isinstance(indent, str) else 0
    separators = (",", ": ") if width else (",", ":")
    return json.dumps(
        value, ensure_ascii=False, indent=width or None, separators=separators, default=_plain_mapping
    )


def _plain_mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(kind_of(value))


def _as_javascript(value: Any) -> Any:
    """A copy whose numbers look as JavaScript's do."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case float() if value.is_integer() and abs(value) < 1e21:
            return int(value)
        case Mapping():
            return {key: _as_javascript(member) for key, member in value.items()}
        case list() | tuple():
            return [_as_javascript(member) for member in value]
        case _:
            return value


def _role(name: Any) -> Mark:
    role = "model" if name == "assistant" else name
    if role not in ROLES:
        raise ValueError(f"{_shown(name)} is no role. Use {', '.join(ROLES)}.")
    return RoleMark(role)


def _history() -> Mark:
    return HistoryMark()


def _section(name: Any) -> Mark:
    if not isinstance(name, str) or not name:
        raise ValueError(f"{_shown(name)} is no section's name. Give a string.")
    return SectionMark(name)


def _media(*, url: Any, contentType: Any = UNDEFINED) -> Mark:  # noqa: N803 - the name that templates write
    if not isinstance(url, str) or not url:
        raise ValueError(f"url is {_shown(url)}. Give the address as a string.")
    if contentType is UNDEFINED or contentType is None or contentType == "":
        return MediaMark(Media(url=url))
    if not isinstance(contentType, str):
        raise ValueError(f"contentType is {_shown(contentType)}. Give a string.")
    return MediaMark(Media(url=url, content_type=contentType))


def _shown(value: Any) -> str:
    return "nothing" if value is UNDEFINED or value is None else shown(value)


HELPERS: Final[Mapping[str, Helper]] = {
    "json": Helper(to_json, native=True),
    "role": Helper(_role, native=True),
    "history": Helper(_history, native=True),
    "section": Helper(_section, native=True),
    "media": Helper(_media, native=True),
}
