"""A template's tree to Python functions, one a node, that append to the output."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

from chatwrap.dotprompt.handlebars import blocks, partials
from chatwrap.dotprompt.handlebars.helpers import LOOPS, BlockOptions, Choice, Helper
from chatwrap.dotprompt.handlebars.nodes import (
    Block,
    Call,
    Comment,
    Expression,
    Literal,
    Mustache,
    Node,
    Partial,
    Path,
    Program,
    Text,
)
from chatwrap.dotprompt.handlebars.run import Body, Frame, Inline, Output, Render, outer_data
from chatwrap.dotprompt.handlebars.source import Source
from chatwrap.dotprompt.handlebars.values import UNDEFINED, Mark, member, text_of
from chatwrap.errors import DotpromptError

if TYPE_CHECKING:
    from chatwrap.dotprompt.handlebars.template import Environment

Value: TypeAlias = Callable[[Frame], Any]
Names: TypeAlias = frozenset[str]


@dataclass(frozen=True, slots=True)
class Compiler:
    """Compiles the nodes of one template. `names` are what the blocks around call their items."""

    source: Source
    environment: Environment

    def body(self, program: Program | None, names: Names = frozenset()) -> Body | None:
        """The body of a block; None if there is none."""
        if program is None:
            return None
        names |= frozenset(program.names)
        inlines = self.inlines(program, names)
        parts = tuple(part for node in program.body if (part := self.node(node, names)))
        render = parts[0] if len(parts) == 1 else _sequence(parts)
        if any(_is_inline(node) for node in program.body):
            render = _with_inlines(render, inlines)
        return Body(render, program.names, inlines)

    def inlines(self, program: Program, names: Names) -> Callable[[Frame], Mapping[str, Inline]]:
        """Gives the partials that stand in a block, by name."""
        made = [
            (self.value(node.call.params[0], names), body.render)
            for node in program.body
            if isinstance(node, Block) and _is_inline(node) and (body := self.body(node.program, names))
        ]
        return lambda frame: {text_of(name(frame)): Inline(render, frame) for name, render in made}

    def node(self, node: Node, names: Names) -> Render | None:
        match node:
            case Text():
                return _text(node.value) if node.value else None
            case Comment():
                return None
            case Mustache():
                return self.mustache(node.call, names)
            case Block(decorator=True):
                if not _is_inline(node):
                    remedy = 'Only {{#*inline "name"}} is known.'
                    raise self.source.fault(
                        node.call.offset, f"no decorator {node.call.path.text!r}.", remedy
                    )
                return None
            case Block():
                return self.block(node, names)
            case Partial():
                return partials.partial(self, node, names)
            case _:
                assert_never(node)

    def mustache(self, call: Call, names: Names) -> Render:
        if self.helper_of(call, names) is None:
            value, show = self.path(call.path, names), self.shower(call.offset)

            path = call.path
            is_plain = (
                len(path.parts) == 1 and not path.depth and not path.data and path.parts[0] not in names
            )
            key = path.parts[0] if is_plain else None

            def write_value(out: Output, frame: Frame) -> None:
                context = frame.context
                plain = key is not None and type(context) is dict
                found = context.get(key, UNDEFINED) if plain else value(frame)
                if type(found) is str:
                    out.append(found)
                elif found is not None and found is not UNDEFINED:
                    out.append(show(found, frame))

            return write_value
        return self.written(self.call(call, names), call.offset)

    def written(self, result: Value, offset: int) -> Render:
        """Writes what a helper returns."""
        show = self.shower(offset)

        def write_result(out: Output, frame: Frame) -> None:
            found = result(frame)
            if isinstance(found, Mark):
                out.append(found)
                return
            text = show(found, frame)
            try:
                out.extend(frame.run.pieces(text))
            except ValueError as error:
                raise self.source.fault(offset, *_reason(error)) from None

        return write_result

    def shower(self, offset: int) -> Callable[[Any, Frame], str]:
        """Gives a value's text, or the error that it has none, at this place."""

        def show(value: Any, frame: Frame) -> str:
            try:
                return frame.run.made(text_of(value))
            except (TypeError, ValueError, RecursionError) as error:
                if isinstance(error, DotpromptError):
                    raise
                raise self.source.fault(offset, *_reason(error)) from None

        return show

    def block(self, node: Block, names: Names) -> Render:
        call, body, inverse = node.call, self.body(node.program, names), self.body(node.inverse, names)
        helper = self.helper_of(call, names)

        def fault(problem: str) -> DotpromptError:
            return self.source.fault(call.offset, problem)

        if helper is None:
            if node.raw and call.path.text == "raw" and body:
                return body.render
            return blocks.section(self.path(call.path, names), body, inverse, fault)
        if isinstance(helper, Helper):
            return self.written(self.call(call, names, body, inverse), call.offset)
        arguments = [self.value(param, names) for param in call.params]
        named = {name: self.value(value, names) for name, value in call.named.items()}
        n_arguments = helper.n_arguments if isinstance(helper, Choice) else 1
        if len(arguments) != n_arguments:
            counted = "one argument" if n_arguments == 1 else f"{n_arguments} arguments"
            problem = f"{call.path.text} with {len(arguments)} arguments."
            raise self.source.fault(call.offset, problem, f"Give it {counted}.")
        if isinstance(helper, Choice):
            return blocks.choice(helper, arguments, named, body, inverse)
        make = blocks.each if helper == "each" else blocks.with_
        return make(arguments[0], body, inverse, fault)

    def helper_of(self, call: Call, names: Names, *, nested: bool = False) -> Helper | Choice | str | None:
        """The helper that a call means; None if it means a variable."""
        path = call.path
        is_simple = len(path.parts) == 1 and not path.is_scoped and not path.depth
        has_arguments = nested or bool(call.params or call.named)
        if (is_simple and path.parts[0] in names) or not (has_arguments or (is_simple and not path.data)):
            return None
        name = path.parts[0] if path.parts else path.text
        if name in LOOPS:
            return name
        helper = self.environment.helpers.get(name)
        if helper is None and has_arguments:
            known = (*self.environment.helpers, *LOOPS)
            closest = difflib.get_close_matches(name, known, 1)
            hint = f"Did you mean {closest[0]!r}?" if closest else "Register it, or remove the arguments."
            raise self.source.fault(path.offset, f"no helper {name!r}.", hint)
        return helper

    def call(self, call: Call, names: Names, body: Body | None = None, inverse: Body | None = None) -> Value:
        """What a helper returns for a call."""
        helper = self.helper_of(call, names, nested=True)
        if not isinstance(helper, Helper):
            raise self.source.fault(
                call.offset, f"{call.path.text} without a block.", f"Write {{{{#{call.path.text} ...}}}}."
            )
        if refusal := helper.refusal(len(call.params), frozenset(call.named)):
            remedy = f"Change the arguments, or write {{{{this.{call.path.text}}}}} for a variable."
            raise self.source.fault(call.offset, f"{call.path.text}: {refusal}.", remedy)
        arguments = [self.value(param, names) for param in call.params]
        named = {name: self.value(value, names) for name, value in call.named.items()}

        def result(frame: Frame) -> Any:
            given = [argument(frame) for argument in arguments]
            given_names = {name: value(frame) for name, value in named.items()}
            try:
                return helper.call(
                    given, given_names, lambda: BlockOptions(frame, given_names, body, inverse)
                )
            except DotpromptError:
                raise
            except Exception as error:
                problem, remedy = _reason(error)
                raise self.source.fault(call.offset, f"{call.path.text}: {problem}", remedy) from error

        return result

    def value(self, node: Expression, names: Names) -> Value:
        match node:
            case Literal():
                constant = node.value
                return lambda frame: constant
            case Path():
                return self.path(node, names)
            case Call():
                return self.call(node, names)
            case _:
                assert_never(node)

    def path(self, path: Path, names: Names) -> Value:
        """The value of a variable. One that is missing is undefined."""
        name, depth, parts = path.parts[0] if path.parts else "", path.depth, path.parts

        def dig(value: Any, steps: tuple[str, ...]) -> Any:
            try:
                for step in steps:
                    value = value.get(step, UNDEFINED) if type(value) is dict else member(value, step)
            except TypeError as error:
                raise self.source.fault(path.offset, *_reason(error)) from None
            return value

        if path.data and len(parts) == 1 and not depth:
            return lambda frame: frame.data.get(name, UNDEFINED)
        if path.data:
            return lambda frame: dig(outer_data(frame.data, depth), parts)
        if name in names and not depth and not path.is_scoped:
            return lambda frame: dig(frame.names.get(name, UNDEFINED), parts[1:])
        if depth:
            return lambda frame: dig(_context_above(frame, depth), parts)
        if not parts:
            return lambda frame: frame.context
        if len(parts) > 1:
            return lambda frame: dig({} if frame.context is None else frame.context, parts)

        def variable(frame: Frame) -> Any:
            context = frame.context
            if type(context) is dict:
                return context.get(name, UNDEFINED)
            return UNDEFINED if context is None else dig(context, parts)

        return variable


def _reason(error: Exception) -> tuple[str, str]:
    """What an error says as a problem and a remedy."""
    if isinstance(error, RecursionError):
        return "nested too deep.", "Flatten the data."
    text = str(error) or type(error).__name__
    remedy = "Convert it first." if text.endswith("not a JSON value") else ""
    return text if text.endswith(".") else f"{text}.", remedy


def _is_inline(node: Node) -> bool:
    return (
        isinstance(node, Block)
        and node.decorator
        and node.call.path.text == "inline"
        and len(node.call.params) == 1
    )


def _context_above(frame: Frame, depth: int) -> Any:
    above: Frame | None = frame
    for _ in range(depth):
        above = above.up if above else None
    return above.context if above else UNDEFINED


def _text(text: str) -> Render:
    return lambda out, frame: out.append(text)


def _sequence(parts: tuple[Render, ...]) -> Render:
    def render(out: Output, frame: Frame) -> None:
        for part in parts:
            part(out, frame)

    return render


def _with_inlines(render: Render, inlines: Callable[[Frame], Mapping[str, Inline]]) -> Render:
    def render_with_inlines(out: Output, frame: Frame) -> None:
        inner = frame.enter(frame.context)
        inner.inlines = {**frame.inlines, **inlines(frame)}
        render(out, inner)

    return render_with_inlines
