"""How a chat format writes the arguments of a function call. Data only.

Renderer, call grammar and output parser each have one reading of these values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from chatwrap.chat.slotted import SyntaxText


@dataclass(frozen=True, slots=True)
class JsonNotation:
    """One JSON object: ``{"city": "Oslo", "days": 2}``."""


@dataclass(frozen=True, slots=True)
class TaggedNotation:
    """Each argument between marks of its own: ``<parameter=city>\\nOslo\\n</parameter>\\n``.

    `prefix` holds the slot ``parameterName``, and ``isString`` (written ``true`` or ``false``) where the
    format tells strings from other values. A string stands as it is, without quotes and escapes, up
    to the suffix; any other value is JSON, or with `literals` ``python`` its numbers, True, False and
    None are Python's (mappings and lists stay JSON), or with ``python_containers`` mappings and lists, too.
    """

    prefix: SyntaxText
    suffix: SyntaxText
    between: SyntaxText = ""
    literals: Literal["json", "python", "python_containers"] = "json"


@dataclass(frozen=True, slots=True)
class KeywordNotation:
    """Python keyword arguments, all values Python literals: ``city='Oslo', days=2``.

    With `mappings` ``json`` an argument that is a mapping is written as JSON.
    """

    between: SyntaxText = ", "
    mappings: Literal["python", "json"] = "python"


@dataclass(frozen=True, slots=True)
class BareKeyNotation:
    """Keys without quotes, strings between `quote` marks without escapes, in nested values, too.

    Gemma 4: ``{city:<|"|>Oslo<|"|>,days:2}``, of which the outer braces belong to the notation. `null` is
    how null is written; numbers, true and false are JSON's.
    """

    quote: SyntaxText
    sorts_keys: bool = False
    null: str = "null"


ArgumentNotation: TypeAlias = JsonNotation | TaggedNotation | KeywordNotation | BareKeyNotation
