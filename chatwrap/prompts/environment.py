"""Jinja2 in a tight sandbox: no calls, no attributes of objects, no globals, bounded cost.

A template reads plain values (texts, numbers, booleans, None, lists, tuples, sets, dicts), and of
them only a dict's keys and a list's places. What a value says is never rendered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from jinja2 import StrictUndefined, Undefined, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.filters import _GroupTuple
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import pass_context

from chatwrap.prompts.filters import prompt_filters
from chatwrap.prompts.limits import MAX_CHARACTERS, Budget, LimitError, check_operation, check_size

_STEPS: Final = "count steps"  # no template can name this filter
_LOOP_FACTS: Final = frozenset(
    {"index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem"}
    | {"depth", "depth0"}
)
_FORBIDDEN: Final[dict[type[nodes.Node], tuple[str, str]]] = {
    nodes.Call: ("calls something", "Use filters, such as {{ values|items }} for values.items()."),
    nodes.CallBlock: ("calls a macro", "Write its text out."),
    nodes.Macro: ("defines a macro", "Write its text out."),
    nodes.Block: ("has a block", "Write its text out."),
    nodes.Include: ("includes a file", "Write its text out."),
    nodes.Import: ("imports a file", "Write its text out."),
    nodes.FromImport: ("imports a file", "Write its text out."),
    nodes.Extends: ("extends a file", "Write its text out."),
    nodes.NSRef: ("sets an attribute", "Set a variable."),
}


def forbidden_nodes(tree: nodes.Template) -> Iterable[tuple[int, str, str]]:
    """Line, problem and remedy of all in a template that the sandbox refuses."""
    for node in tree.find_all(tuple(_FORBIDDEN)):
        yield (node.lineno, *_FORBIDDEN[type(node)])
    for loop in tree.find_all(nodes.For):
        if loop.recursive:
            yield loop.lineno, "has a recursive loop", "Nest plain loops."
    for name in tree.find_all(nodes.Name):
        if name.name in ("self", "caller") and name.ctx == "load":
            yield name.lineno, f"uses the name {name.name!r}, which is Jinja2's own", "Rename it."


class PromptContext(Context):
    """A rendering's variables, and the steps that it has left."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.budget = Budget()


class _CheckedConcatenation(CodeGenerator):
    """``a ~ b`` through the environment, which checks its length."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - Jinja's visitor
        self.write("environment.joined((")
        for operand in node.nodes:
            self.visit(operand, frame)
            self.write(", ")
        self.write("))")


class PromptEnvironment(SandboxedEnvironment):
    """The environment that all prompts are compiled in; see the module."""

    code_generator_class = _CheckedConcatenation
    context_class = PromptContext
    intercepted_binops = frozenset({"*", "**", "+", "%"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, extensions=["jinja2.ext.loopcontrols"])
        self.globals.clear()
        self.filters.clear()
        self.filters.update({**prompt_filters(), _STEPS: _counted})
        self.concat = _concatenated  # type: ignore[method-assign]

    def counted(self, tree: nodes.Template) -> nodes.Template:
        """`tree` with the steps of its loops counted."""
        for loop in tree.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, _STEPS, [], [], None, None, lineno=loop.lineno)
            loop.iter.set_environment(self)
        return tree

    def getattr(self, obj: Any, attribute: str) -> Any:
        kind = type(obj)
        if kind is dict:
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        if kind is LoopContext and attribute in _LOOP_FACTS:
            return getattr(obj, attribute)
        if kind is _GroupTuple and attribute in ("grouper", "list"):
            return getattr(obj, attribute)
        if isinstance(obj, Undefined):
            return getattr(obj, attribute)
        raise SecurityError(f"{attribute!r} can't be read of a {kind.__name__}")

    def getitem(self, obj: Any, argument: Any) -> Any:
        kind = type(obj)
        if kind is dict:
            return obj[argument] if argument in obj else self.undefined(obj=obj, name=argument)
        if isinstance(obj, Undefined):
            return obj[argument]
        if isinstance(obj, list | tuple | str) and isinstance(argument, int | slice):
            try:
                return obj[argument]
            except IndexError:
                return self.undefined(obj=obj, name=str(argument))
        if isinstance(argument, str):
            return self.getattr(obj, argument)
        raise SecurityError(f"[{argument!r}] can't be read of a {kind.__name__}")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            raise SecurityError("% can't format a text; join texts with ~")
        check_operation(operator, left, right)
        return super().call_binop(context, operator, left, right)

    @staticmethod
    def joined(values: tuple[Any, ...]) -> str:
        """The texts of `values`, joined."""
        texts = [str(value) for value in values]
        check_size(sum(map(len, texts)))
        return "".join(texts)


@pass_context
def _counted(context: PromptContext, values: Any) -> Any:
    """What a loop goes over, its steps counted."""
    if not hasattr(values, "__len__"):
        values = list(values)
    context.budget.spend(len(values))
    return values


def _concatenated(pieces: Iterable[str]) -> str:
    """The pieces joined, as Jinja2 writes them; too many characters are an error as soon as they come."""
    parts: list[str] = []
    n_characters = 0
    for piece in pieces:
        n_characters += len(piece)
        if n_characters > MAX_CHARACTERS:
            raise LimitError(f"its text is longer than {MAX_CHARACTERS} characters.")
        parts.append(piece)
    return "".join(parts)


ENVIRONMENT: Final = PromptEnvironment()
