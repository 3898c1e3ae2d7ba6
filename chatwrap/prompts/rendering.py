"""`TemplateText`: one text of a template, compiled once, and what it makes of values."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from jinja2 import Template, TemplateError, TemplateSyntaxError, UndefinedError, nodes

from chatwrap.errors import ChatwrapError, Fault, PromptError
from chatwrap.prompts.environment import ENVIRONMENT, forbidden_nodes
from chatwrap.prompts.limits import LimitError
from chatwrap.prompts.variables import Variable, paths_of, variables_of

_SCALARS: Final = (str, int, float, bool, type(None))
_MAX_DEPTH: Final = 50


@dataclass(frozen=True, slots=True, eq=False)
class TemplateText:
    """A compiled text. `fixed` is what it always renders to, where it reads nothing."""

    source: str
    variables: tuple[Variable, ...]
    fixed: str | None
    _template: Template
    _paths: Mapping[str, str]

    def render(self, values: dict[str, Any], where: str) -> str:
        """The text with `values` in it, each put in as it is and never rendered itself.

        `values` are plain values, known to be so (see `value_fault`), and aren't changed. Raises
        `PromptError`, which calls the text `where` and names what is missing.
        """
        if self.fixed is not None:
            return self.fixed
        template = self._template
        try:
            return ENVIRONMENT.concat(template.root_render_func(template.new_context(values, shared=True)))
        except Exception as error:
            raise PromptError(self._faults(error, values, where)) from error

    def _missing_key(self, message: str, place: str) -> Fault:
        key = message.rpartition(" ")[2].strip("'")
        path = self._paths.get(key)
        problem = f"{message}." if path is None else f"there is no {path!r}: {message}."
        return Fault(place, problem, "Pass a value that has it, or use |default.")

    def _faults(self, error: Exception, values: Mapping[str, Any], where: str) -> list[Fault]:
        place = f"{where}, line {_line(error, self._template)}"
        missing = [
            variable.name
            for variable in self.variables
            if variable.name not in values and not variable.is_optional and not variable.may_be_missing
        ]
        if isinstance(error, UndefinedError):
            named = [name for name in missing if f"'{name}'" in str(error)]
            if named:
                return [Fault(place, f"the variable {name!r} is missing.", "Pass it.") for name in missing]
            return [self._missing_key(str(error.message), place)]
        if isinstance(error, LimitError | ChatwrapError):
            return [Fault(place, str(error), "Give it less to do.")]
        return [Fault(place, f"{error or type(error).__name__}.", "Mend the template, or pass other values.")]


@lru_cache(maxsize=1024)
def compiled(source: str) -> TemplateText | tuple[Fault, ...]:
    """The template text that `source` is, or all that is wrong with it, without a place."""
    try:
        tree = ENVIRONMENT.parse(source)
        faults = tuple(
            Fault(f"line {line}", f"the template {problem}, which it can't.", remedy)
            for line, problem, remedy in forbidden_nodes(tree)
        )
        if faults:
            return faults
        variables, fixed, paths = variables_of(tree), _fixed(tree), paths_of(tree)
        template = ENVIRONMENT.from_string(ENVIRONMENT.counted(tree))
    except TemplateSyntaxError as error:
        return (Fault(f"line {error.lineno}", f"{(error.message or '').rstrip('.')}.", "Mend the template."),)
    except (TemplateError, RecursionError, MemoryError, SyntaxError, ValueError) as error:
        return (Fault("", f"it can't be compiled: {error or type(error).__name__}.", "Simplify it."),)
    return TemplateText(source, variables, fixed, template, paths)


def _fixed(tree: nodes.Template) -> str | None:
    """The text of a template that is nothing but text."""
    pieces = [piece for output in tree.body if isinstance(output, nodes.Output) for piece in output.nodes]
    if any(not isinstance(output, nodes.Output) for output in tree.body):
        return None
    texts = [piece.data for piece in pieces if isinstance(piece, nodes.TemplateData)]
    return "".join(texts) if len(texts) == len(pieces) else None


def _line(error: Exception, template: Template) -> int:
    """The line of the template that raised `error`."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if frame.f_globals.get("__jinja_template__") is template:
            return int(template.get_corresponding_lineno(line))
    return 1


def value_fault(value: Any, where: str) -> Fault | None:
    """What makes a value no plain value; None if it is one. Cost linear in the value.

    Plain are texts, numbers, booleans and None, and lists, tuples, sets and dicts of plain values, at
    most 50 deep; exactly these types, since others may do anything when they are read.
    """
    return None if type(value) in _SCALARS else _container_fault(value, where, _MAX_DEPTH)


def _container_fault(value: Any, where: str, depth: int) -> Fault | None:
    kind = type(value)
    if depth == 0:
        return Fault(where, f"nested more than {_MAX_DEPTH} deep.", "Flatten it.")
    if kind is dict:
        for key, each in value.items():
            if type(key) not in _SCALARS:
                return Fault(where, f"a {type(key).__name__} as a key: {key!r:.60}.", "Use texts as keys.")
            if type(each) not in _SCALARS and (fault := _container_fault(each, f"{where}.{key}", depth - 1)):
                return fault
        return None
    if kind in (list, tuple, set, frozenset):
        for index, each in enumerate(value):
            if type(each) not in _SCALARS and (
                fault := _container_fault(each, f"{where}[{index}]", depth - 1)
            ):
                return fault
        return None
    return Fault(
        where, f"of type {kind.__name__}, which no template may read.", _REMEDIES.get(_nature(value), _PLAIN)
    )


def _nature(value: Any) -> str:
    natures: dict[str, Callable[[], bool]] = {
        "model": lambda: hasattr(type(value), "model_dump"),
        "dataclass": lambda: hasattr(type(value), "__dataclass_fields__"),
        "time": lambda: hasattr(type(value), "isoformat"),
    }
    return next((name for name, holds in natures.items() if holds()), "")


_PLAIN: Final = "Pass texts, numbers, booleans, None, and lists and dicts of them."
_REMEDIES: Final = {
    "model": "Pass value.model_dump().",
    "dataclass": "Pass dataclasses.asdict(value).",
    "time": "Pass value.isoformat().",
}
