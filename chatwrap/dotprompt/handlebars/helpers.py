"""Helpers: what a template may call. Python functions, and choices between a block and its else."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from chatwrap.dotprompt.handlebars.run import Body, Frame, Output, inner_data
from chatwrap.dotprompt.handlebars.values import (
    UNDEFINED,
    is_empty,
    is_equal,
    is_true,
    member,
    text_of,
)

_SAME: Final = object()
_LOG: Final = logging.getLogger("chatwrap.dotprompt")


class BlockOptions:
    """What a helper with a parameter `options` gets there: its context, named arguments and block.

    `hash` has the named arguments, `data` the ``@`` variables. Of a helper that is called without a
    block, `fn` and `inverse` return nothing.
    """

    __slots__ = ("_frame", "_inverse", "_program", "hash", "is_block")

    def __init__(
        self, frame: Frame, named: Mapping[str, Any], program: Body | None, inverse: Body | None
    ) -> None:
        self._frame = frame
        self._program = program
        self._inverse = inverse
        self.hash = dict(named)
        self.is_block = program is not None or inverse is not None

    @property
    def context(self) -> Any:
        """The value of ``this`` where the helper is called."""
        return self._frame.context

    @property
    def data(self) -> dict[str, Any]:
        """The ``@`` variables where the helper is called."""
        return {name: value for name, value in self._frame.data.items() if isinstance(name, str)}

    def fn(
        self,
        context: Any = _SAME,
        *,
        data: Mapping[str, Any] | None = None,
        block_params: tuple[Any, ...] = (),
    ) -> str:
        """The block rendered with this context, by default the one it stands in, and further data."""
        return self._rendered(self._program, context, data, block_params)

    def inverse(self, context: Any = _SAME, *, data: Mapping[str, Any] | None = None) -> str:
        """What stands behind ``{{else}}``, rendered."""
        return self._rendered(self._inverse, context, data, ())

    def _rendered(
        self, program: Body | None, context: Any, data: Mapping[str, Any] | None, values: tuple[Any, ...]
    ) -> str:
        if program is None:
            return ""
        frame = self._frame
        inner = None if data is None else {**inner_data(frame.data), **data}
        out: Output = []
        context = frame.context if context is _SAME else context
        program.render(out, frame.enter(context, inner, program.names, values))
        frame.run.step(1, out)
        return frame.run.text(out)


@dataclass(frozen=True, slots=True)
class Choice:
    """A helper that renders its block or what stands behind ``{{else}}``, by a test of its arguments."""

    n_arguments: int
    test: Callable[[tuple[Any, ...], Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Helper:
    """A function that templates may call. `takes_options` if a parameter is called ``options``.

    A `native` one, which is ours, sees undefined where others see None.
    """

    function: Callable[..., Any]
    native: bool = False
    takes_options: bool = field(init=False)
    signature: inspect.Signature = field(init=False)

    def __post_init__(self) -> None:
        try:
            signature = inspect.signature(self.function)
        except ValueError:  # some functions written in C
            signature = inspect.Signature([inspect.Parameter("arguments", inspect.Parameter.VAR_POSITIONAL)])
        object.__setattr__(self, "signature", signature)
        object.__setattr__(self, "takes_options", "options" in signature.parameters)

    def refusal(self, n_arguments: int, names: frozenset[str]) -> str | None:
        """What is wrong with a call with so many arguments and these named ones, if anything is."""
        named = {"options": None} if self.takes_options else dict.fromkeys(names)
        try:
            self.signature.bind(*[None] * n_arguments, **named)
        except TypeError as error:
            return str(error)
        return None

    def call(
        self, arguments: list[Any], named: Mapping[str, Any], options: Callable[[], BlockOptions]
    ) -> Any:
        """What the function returns."""
        if not self.native:
            arguments = [None if value is UNDEFINED else value for value in arguments]
            named = {name: None if value is UNDEFINED else value for name, value in named.items()}
        if self.takes_options:
            return self.function(*arguments, options=options())
        return self.function(*arguments, **named)


def is_chosen(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    """Whether ``{{#if}}`` takes its block."""
    (value,) = arguments
    return not is_empty(value) and (is_true(value) or is_true(named.get("includeZero")))


def is_not_chosen(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    """Whether ``{{#unless}}`` does."""
    return not is_chosen(arguments, named)


def _lookup(value: Any, name: Any) -> Any:
    """The member of `value` with this name, or with this index."""
    return member(value, text_of(name)) if is_true(value) else value


def _log(*values: Any, level: Any = "info") -> None:
    """Tells Python's logging about the values, under ``chatwrap.dotprompt``."""
    names = logging.getLevelNamesMapping()
    _LOG.log(names.get(text_of(level).upper(), logging.INFO), " ".join(map(text_of, values)))


CHOICES: Final[Mapping[str, Choice]] = {
    "if": Choice(1, is_chosen),
    "unless": Choice(1, is_not_chosen),
    "ifEquals": Choice(2, lambda arguments, named: is_equal(*arguments)),
    "unlessEquals": Choice(2, lambda arguments, named: not is_equal(*arguments)),
}
HELPERS: Final[Mapping[str, Helper]] = {
    "lookup": Helper(_lookup, native=True),
    "log": Helper(_log, native=True),
}
LOOPS: Final = ("each", "with")
