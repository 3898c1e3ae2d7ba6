"""The blocks that the language has of its own: choices, each, with, and sections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from chatwrap.dotprompt.handlebars.helpers import Choice, is_chosen, is_not_chosen
from chatwrap.dotprompt.handlebars.run import Body, Frame, Output, Render, inner_data
from chatwrap.dotprompt.handlebars.values import UNDEFINED, is_empty, kind_of
from chatwrap.errors import DotpromptError

_Value: TypeAlias = Callable[[Frame], Any]
_JUDGED_ALIKE: Final = frozenset((bool, str, int, list, type(None)))


def choice(
    helper: Choice,
    arguments: list[_Value],
    named: Mapping[str, _Value],
    body: Body | None,
    inverse: Body | None,
) -> Render:
    """``{{#if}}`` and its like."""
    test = helper.test
    yes, no = _render(body), _render(inverse)
    if test in (is_chosen, is_not_chosen) and not named:
        return (
            _plain_choice(arguments[0], yes, no)
            if test is is_chosen
            else _plain_choice(arguments[0], no, yes)
        )

    def render(out: Output, frame: Frame) -> None:
        given = tuple([argument(frame) for argument in arguments])
        names = {name: value(frame) for name, value in named.items()} if named else named
        chosen = yes if test(given, names) else no
        chosen(out, frame)

    return render


def _plain_choice(value: _Value, yes: Render, no: Render) -> Render:
    """The choice that ``if`` makes, with the kinds of values told apart that Python judges alike."""

    def render(out: Output, frame: Frame) -> None:
        found = value(frame)
        if type(found) in _JUDGED_ALIKE:
            (yes if found else no)(out, frame)
        else:
            (yes if is_chosen((found,), {}) else no)(out, frame)

    return render


def with_(
    value: _Value, body: Body | None, inverse: Body | None, fault: Callable[[str], DotpromptError]
) -> Render:
    """``{{#with value}}``: the block in that context, or else what stands behind ``{{else}}``."""
    yes, no = _render(body), _render(inverse)
    names = body.names if body else ()

    def render(out: Output, frame: Frame) -> None:
        found = value(frame)
        if is_empty(found):
            no(out, frame)
        else:
            yes(out, frame.enter(found, None, names, (found,)))

    return render


def each(
    value: _Value, body: Body | None, inverse: Body | None, fault: Callable[[str], DotpromptError]
) -> Render:
    """``{{#each value}}``: the block for each item of a list or a mapping, else what stands behind else."""
    no, render_item, names = _render(inverse), _render(body), body.names if body else ()

    def render(out: Output, frame: Frame) -> None:
        items = value(frame)
        if not isinstance(items, list | tuple | Mapping):
            if items is not None and items is not UNDEFINED and not isinstance(items, str | int | float):
                raise fault(f"each over {kind_of(items)}.")
            items = ()
        if not items:
            no(out, frame)
            return
        frame.run.step(len(items), out)
        pairs: Iterable[tuple[Any, Any]] = items.items() if isinstance(items, Mapping) else enumerate(items)
        last, data = len(items) - 1, inner_data(frame.data)
        # One frame serves all items: nothing keeps it once an item is rendered.
        inner, is_simple = frame.enter(items, data), not names and type(frame.context) is dict
        for index, (key, item) in enumerate(pairs):
            data["key"], data["index"], data["first"], data["last"] = key, index, index == 0, index == last
            if is_simple:
                inner.context = item
                inner.up = frame if item is not frame.context else frame.up
            else:
                inner = frame.enter(item, data, names, (item, key))
            render_item(out, inner)
            if not index % 1000:
                frame.run.step(0, out)

    return render


def section(
    value: _Value, body: Body | None, inverse: Body | None, fault: Callable[[str], DotpromptError]
) -> Render:
    """``{{#value}}``: as ``each`` for a list, ``with`` for anything else that there is, ``if`` for true."""
    yes, no, loop = _render(body), _render(inverse), each(value, body, inverse, fault)

    def render(out: Output, frame: Frame) -> None:
        found = value(frame)
        if found is True:
            yes(out, frame)
        elif found is False or found is None or found is UNDEFINED:
            no(out, frame)
        elif isinstance(found, list | tuple):
            loop(out, frame)
        else:
            yes(out, frame.enter(found, None, body.names if body else ()))

    return render


def _render(body: Body | None) -> Render:
    return body.render if body else lambda out, frame: None
