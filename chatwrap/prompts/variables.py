"""Which variables a template text reads, and how: what its input descriptors are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from jinja2 import meta, nodes

from chatwrap.prompts.properties import NO_DEFAULT, AnyProperty, Property, StringProperty


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that a text reads.

    `is_text`: it is only ever printed. `is_optional`: a condition asks for it before anything reads it,
    so it is "" unless given. `may_be_missing`: ``default`` or ``is defined`` handle that it isn't there.
    """

    name: str
    is_text: bool
    is_optional: bool
    may_be_missing: bool

    def __or__(self, other: Variable) -> Variable:
        """What two texts, this one first, do with one variable."""
        return Variable(
            self.name,
            self.is_text and other.is_text,
            self.is_optional,
            self.may_be_missing and other.may_be_missing,
        )

    def descriptor(self) -> Property:
        kind = StringProperty if self.is_text else AnyProperty
        default = "" if self.is_optional else NO_DEFAULT
        return kind(self.name, f'"{self.name}" input variable for the template', default)


def variables_of(tree: nodes.Template) -> tuple[Variable, ...]:
    """The variables that a template has to be given, in the order in which they appear."""
    undeclared = meta.find_undeclared_variables(tree)
    uses: dict[str, list[str]] = {}
    for name, use in _uses(tree):
        if name in undeclared:
            uses.setdefault(name, []).append(use)
    return tuple(
        Variable(
            name,
            is_text=all(use != "value" for use in found) and "text" in found,
            is_optional=found[0] == "condition",
            may_be_missing=found[0] == "safe",
        )
        for name, found in uses.items()
    )


def merged(variables: Iterable[Variable]) -> dict[str, Variable]:
    """The variables of several texts by name."""
    found: dict[str, Variable] = {}
    for variable in variables:
        known = found.get(variable.name)
        found[variable.name] = variable if known is None else known | variable
    return found


def descriptors_of(variables: Iterable[Variable]) -> list[Property]:
    """The descriptors of all variables: texts first, then those of any type, as they appear."""
    known = merged(variables).values()
    ordered = [each for each in known if each.is_text] + [each for each in known if not each.is_text]
    return [variable.descriptor() for variable in ordered]


def _uses(node: Any) -> Iterator[tuple[str, str]]:
    """Each reading of a name with what is done: printed, asked for, handled if missing, or used."""
    match node:
        case nodes.Output():
            for printed in node.nodes:
                yield from _named(printed, "text")
        case nodes.If() | nodes.CondExpr():
            yield from _condition(node.test)
            for child in node.iter_child_nodes(exclude=["test"]):
                yield from _named(child, "text" if isinstance(node, nodes.CondExpr) else "value")
        case nodes.Filter(name="default" | "d", node=nodes.Name(name=name)):
            yield name, "safe"
            for child in node.iter_child_nodes(exclude=["node"]):
                yield from _named(child, "value")
        case nodes.Test(name="defined" | "undefined", node=nodes.Name(name=name)):
            yield name, "safe"
        case _:
            for child in node.iter_child_nodes():
                yield from _named(child, "value")


def _condition(test: Any) -> Iterator[tuple[str, str]]:
    match test:
        case nodes.Name():
            yield test.name, "condition"
        case nodes.Not():
            yield from _condition(test.node)
        case nodes.And() | nodes.Or():
            yield from _condition(test.left)
            yield from _condition(test.right)
        case nodes.Test(name="none", node=nodes.Name(name=name)):
            yield name, "condition"
        case _:
            yield from _named(test, "value")


def _named(node: Any, use: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, nodes.Name):
        if node.ctx == "load":
            yield node.name, use
    else:
        yield from _uses(node)


def paths_of(tree: nodes.Template) -> dict[str, str]:
    """How the template writes each key that it reads of a value: ``{"title": "document.title"}``."""
    found: dict[str, str] = {}
    for node in tree.find_all((nodes.Getattr, nodes.Getitem)):
        path = _path(node)
        if path is not None:
            found.setdefault(path.rpartition(".")[2], path)
    return found


def _path(node: Any) -> str | None:
    match node:
        case nodes.Name(name=name):
            return str(name)
        case nodes.Getattr():
            owner, key = _path(node.node), node.attr
        case nodes.Getitem(arg=nodes.Const(value=value)):
            owner, key = _path(node.node), str(value)
        case _:
            return None
    return None if owner is None else f"{owner}.{key}"
