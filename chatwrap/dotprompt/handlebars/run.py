"""One rendering of a template: its output, its bounds, and the frames that blocks open."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from chatwrap.dotprompt.handlebars.values import UNDEFINED, Mark, is_same_context, shown
from chatwrap.errors import ChatwrapError, DotpromptError, Fault

if TYPE_CHECKING:
    from chatwrap.dotprompt.handlebars.template import Environment, Template

MAX_OUTPUT: Final = 50_000_000
"""The longest output in characters."""
MAX_STEPS: Final = 1_000_000
"""The most items and partials that one rendering may go through."""
MAX_PARTIALS: Final = 200
"""How deep partials may stand in one another."""
_NONCE_LENGTH: Final = 10
_PRIVATE: Final = range(0x100000, 0x10FFFE)
"""Characters that Unicode leaves to everyone's private use, of the last plane."""

Output: TypeAlias = list[str | Mark]
Render: TypeAlias = Callable[[Output, "Frame"], None]


class Body(NamedTuple):
    """The compiled body of a block, and what it calls the values that it is given."""

    render: Render
    names: tuple[str, ...]
    inlines: Callable[[Frame], Mapping[str, Inline]]


class BoundError(Exception):
    """A rendering went over one of its bounds; whoever knows the place makes a `DotpromptError` of it."""


class PartialError(DotpromptError):
    """Nobody gives a partial, for a reason of their own; whoever knows the place puts it to the error."""

    def __init__(self, name: str, error: ChatwrapError) -> None:
        super().__init__([Fault(f"partial {shown(name)}", str(error))])


class Run:
    """What all frames of one rendering share."""

    __slots__ = (
        "_marks",
        "_nonce",
        "_partials",
        "chain",
        "environment",
        "n_characters",
        "n_steps",
        "next_count",
    )

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.chain: list[str] = []
        self.n_steps = self.n_characters = 0
        self.next_count = 10_000
        self._nonce = ""
        self._marks: list[Mark] = []
        self._partials: dict[str, Template | None] = {}

    def partial(self, name: str) -> Template | None:
        """The partial with this name: the same all through a rendering."""
        if name not in self._partials:
            self._partials[name] = self.environment.partial(name)
        return self._partials[name]

    def step(self, count: int, out: Output) -> None:
        """Counts `count` items or partials; raises `BoundError` for too many, or too much output."""
        self.n_steps += count
        if self.n_steps > MAX_STEPS:
            raise BoundError(f"more than {MAX_STEPS} items and partials")
        if len(out) > self.next_count:
            self.next_count = 2 * len(out)
            joined_length(out)

    def made(self, text: str) -> str:
        """`text`, which was made for this rendering, once it is counted."""
        self.n_characters += len(text)
        if self.n_characters > MAX_OUTPUT:
            raise too_long()
        return text

    def text(self, out: Output) -> str:
        """Output as the text that a helper gets; a mark is characters in it that nobody can guess."""
        if all(isinstance(piece, str) for piece in out):
            joined_length(out)
            return self.made("".join(out))  # type: ignore[arg-type]
        if not self._nonce:
            self._nonce = _nonce(
                {character for piece in out if isinstance(piece, str) for character in piece}
            )
        return self.made("".join(piece if isinstance(piece, str) else self._hidden(piece) for piece in out))

    def _hidden(self, mark: Mark) -> str:
        self._marks.append(mark)
        return f"{self._nonce[:-1]}{len(self._marks) - 1}{self._nonce[-1]}"

    def pieces(self, text: str) -> Iterator[str | Mark]:
        """The output that a helper's text is: what `text` hid is put back.

        Raises `ValueError` for what is left of a mark that the helper cut or turned around.
        """
        if not self._marks:
            yield text
            return
        traces = _traces(self._nonce)
        for index, piece in enumerate(re.split(f"{self._nonce[:-1]}([0-9]+){self._nonce[-1]}", text)):
            if index % 2 and int(piece) < len(self._marks):
                yield self._marks[int(piece)]
            elif traces.search(piece):
                raise ValueError("the helper changed a mark in its block. Give its text back whole.")
            elif piece:
                yield piece


def _nonce(used: Set[str]) -> str:
    """Characters that nobody can guess and no text in use has, each of which would tell of a cut."""
    nonce = ""
    while len(nonce) < _NONCE_LENGTH:
        character = chr(secrets.choice(_PRIVATE))
        nonce += "" if character in used or character in nonce else character
    return nonce


@lru_cache(maxsize=1)
def _traces(nonce: str) -> re.Pattern[str]:
    """Finds what is left of a mark, also one that was written as JSON."""
    escaped = (re.escape(json.dumps(character)[1:-1]) for character in nonce)
    return re.compile("|".join((f"[{nonce}]", *escaped)), re.IGNORECASE)


class Frame:
    """Where a block stands: its context, the frame around it, its ``@`` data and named items."""

    __slots__ = ("context", "data", "inlines", "names", "run", "up")

    def __init__(
        self,
        context: Any,
        up: Frame | None,
        data: Mapping[Any, Any],
        names: Mapping[str, Any],
        run: Run,
        inlines: Mapping[str, Inline],
    ) -> None:
        self.context = context
        self.up = up
        self.data = data
        self.names = names
        self.run = run
        self.inlines = inlines

    def enter(
        self,
        context: Any,
        data: Mapping[Any, Any] | None = None,
        names: tuple[str, ...] = (),
        values: tuple[Any, ...] = (),
    ) -> Frame:
        """The frame of a block within this one; one with the same context has the same parent."""
        up = self.up if is_same_context(context, self.context) else self
        data = self.data if data is None else data
        named = self.names
        if names:
            named = {**named, **dict.fromkeys(names, UNDEFINED), **dict(zip(names, values, strict=False))}
        return Frame(context, up, data, named, self.run, self.inlines)


OUTER: Final = object()
"""The key under which a block's ``@`` data has the data around it."""


def inner_data(data: Mapping[Any, Any]) -> dict[Any, Any]:
    """A block's own ``@`` data, which starts as the data around it."""
    return {**data, OUTER: data}


@dataclass(frozen=True, slots=True)
class Inline:
    """A partial that stands in the template: its body, and the frame it was written in."""

    render: Render
    frame: Frame


@dataclass(frozen=True, slots=True)
class PartialBlock:
    """What ``@partial-block`` stands for in a partial, and what it stood for around it."""

    render: Render
    frame: Frame
    outer: Any


def joined_length(out: Iterable[str | Mark]) -> int:
    """The length of some output. Raises `BoundError` if that is more than a prompt may have."""
    length = sum(map(len, out))
    if length > MAX_OUTPUT:
        raise too_long()
    return length


def too_long() -> BoundError:
    return BoundError(f"more than {MAX_OUTPUT} characters of output")


def outer_data(data: Mapping[Any, Any], depth: int) -> Any:
    """The ``@`` data so many blocks further out."""
    for _ in range(depth):
        data = data.get(OUTER, UNDEFINED) if isinstance(data, Mapping) else UNDEFINED
    return data
