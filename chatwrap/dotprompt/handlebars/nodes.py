"""What a template says, as a tree."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias


class Strip(NamedTuple):
    """Whether a tag has ``~`` at its start and at its end."""

    open: bool = False
    close: bool = False


@dataclass(slots=True)
class Text:
    """Text between tags; `value` is what is left of `original` once white space is stripped."""

    original: str
    value: str
    left_stripped: bool = False
    right_stripped: bool = False


@dataclass(slots=True)
class Comment:
    strip: Strip


@dataclass(frozen=True, slots=True)
class Literal:
    """A string, number, true, false, null or undefined."""

    value: Any
    text: str
    offset: int


@dataclass(frozen=True, slots=True)
class Path:
    """A variable: `depth` contexts up, then along `parts`; `data` if it has an ``@``."""

    parts: tuple[str, ...]
    depth: int
    data: bool
    text: str
    offset: int

    @property
    def is_scoped(self) -> bool:
        """Whether the path starts at ``this`` or ``.``, and so never means a helper."""
        return re.search(r"^\.|this\b", self.text) is not None


@dataclass(frozen=True, slots=True)
class Call:
    """What a tag or a sub-expression evaluates: a path with or without arguments."""

    path: Path
    params: tuple[Expression, ...]
    named: dict[str, Expression]
    offset: int


Expression: TypeAlias = Literal | Path | Call


@dataclass(slots=True)
class Mustache:
    call: Call
    strip: Strip


@dataclass(slots=True)
class Program:
    """The body of a block; `chained` if it is one ``else if`` and has no tag of its own."""

    body: list[Node]
    names: tuple[str, ...] = ()
    chained: bool = False


@dataclass(slots=True)
class Block:
    """``{{#name}}program{{else}}inverse{{/name}}``; `decorator` if it says ``#*``, `raw` with four braces."""

    call: Call
    program: Program | None
    inverse: Program | None
    open_strip: Strip
    inverse_strip: Strip
    close_strip: Strip
    decorator: bool = False
    raw: bool = False


@dataclass(slots=True)
class Partial:
    """``{{> name}}``, or with a program ``{{#> name}}program{{/name}}``. `indent` goes before each line."""

    name: Expression
    params: tuple[Expression, ...]
    named: dict[str, Expression]
    offset: int
    open_strip: Strip
    program: Program | None = None
    close_strip: Strip = field(default_factory=Strip)
    indent: str = ""


Node: TypeAlias = Text | Comment | Mustache | Block | Partial
