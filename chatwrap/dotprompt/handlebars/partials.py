"""Partials: templates, inline partials and partial blocks put into another template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from chatwrap.dotprompt.handlebars.nodes import Call, Partial
from chatwrap.dotprompt.handlebars.run import (
    MAX_PARTIALS,
    Body,
    Frame,
    Inline,
    Output,
    PartialBlock,
    PartialError,
    Render,
    inner_data,
)
from chatwrap.dotprompt.handlebars.values import Mark, shown
from chatwrap.errors import DotpromptError

if TYPE_CHECKING:
    from chatwrap.dotprompt.handlebars.compiler import Compiler

_BLOCK: Final = "partial-block"


def partial(compiler: Compiler, node: Partial, names: frozenset[str]) -> Render:
    """``{{> name context key=value}}``."""
    name_of = _name(compiler, node, names)
    context_of = compiler.value(node.params[0], names) if node.params else None
    named = {key: compiler.value(value, names) for key, value in node.named.items()}
    body = compiler.body(node.program, names)

    def fault(problem: str, remedy: str = "") -> DotpromptError:
        return compiler.source.fault(node.offset, problem, remedy)

    def render(out: Output, frame: Frame) -> None:
        name = name_of(frame)
        context = context_of(frame) if context_of else frame.context
        if named:
            own = context if isinstance(context, Mapping) else {}
            context = {**own, **{key: value(frame) for key, value in named.items()}}
        target, inside = _target(name, context, frame, body, fault)
        chain = frame.run.chain
        if len(chain) >= MAX_PARTIALS:
            raise fault(
                f"partials stand deeper than {MAX_PARTIALS} in one another: {shown_chain([*chain, name])}.",
                "End the recursion.",
            )
        chain.append(name)
        inner: Output = [] if node.indent else out
        frame.run.step(1, out)
        target(inner, inside)
        if node.indent:
            out.extend(_indented(inner, node.indent))
        chain.pop()

    return render


def shown_chain(chain: list[str]) -> str:
    """A chain of partials for an error: up to where it repeats itself.

    >>> shown_chain(["a", "b", "c", "b", "c"])
    'a > b > c > b > ...'
    """
    for index, name in enumerate(chain):
        if name in chain[:index]:
            return " > ".join((*chain[: index + 1], "..."))
    return " > ".join(chain[:12]) + (" > ..." if len(chain) > 12 else "")


def _name(compiler: Compiler, node: Partial, names: frozenset[str]) -> Callable[[Frame], str]:
    if not isinstance(node.name, Call):
        text = node.name.text
        return lambda frame: text
    value = compiler.value(node.name, names)

    def dynamic(frame: Frame) -> str:
        name = value(frame)
        if not isinstance(name, str):
            raise compiler.source.fault(node.offset, f"a partial's name is {shown(name)}.", "Give a string.")
        return name

    return dynamic


def _target(
    name: str, context: Any, frame: Frame, body: Body | None, fault: Callable[..., DotpromptError]
) -> tuple[Render, Frame]:
    """What the partial that `name` means here renders, and in which frame."""
    is_block = name == f"@{_BLOCK}"
    found = frame.data.get(_BLOCK) if is_block else frame.inlines.get(name)
    try:
        template = None if found or is_block else frame.run.partial(name)
    except PartialError as error:
        raise fault(str(error)) from error
    data, inlines = frame.data, frame.inlines
    if body:
        block = PartialBlock(body.render, frame, data.get(_BLOCK))
        data, inlines = {**inner_data(data), _BLOCK: block}, {**inlines, **body.inlines(frame)}
    if template:
        return template.body.render, Frame(context, None, data, {}, frame.run, inlines)
    if isinstance(found, Inline):
        inner = found.frame.enter(context, data)
        inner.inlines = inlines
        return found.render, inner
    inserted = found or data.get(_BLOCK) if is_block or body else None
    if not isinstance(inserted, PartialBlock):
        raise fault(f"no partial {name!r}.", "Define it, or put it into the folder as a file.")
    return inserted.render, inserted.frame.enter(context, {**inner_data(data), _BLOCK: inserted.outer})


def _indented(pieces: Iterable[str | Mark], indent: str) -> Iterator[str | Mark]:
    """Output with `indent` before each line, the empty one at the end excepted."""
    starts_line = True
    for piece in pieces:
        if isinstance(piece, Mark):
            starts_line = False
            yield piece
        elif piece:
            if starts_line:
                yield indent
            starts_line = piece.endswith("\n")
            text = piece.replace("\n", f"\n{indent}")
            yield text[: -len(indent)] if starts_line else text
