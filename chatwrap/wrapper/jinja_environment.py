"""Jinja2 set up as Hugging Face sets it up for chat templates, once plain and once keeping masks.

The plain environment is as fast as Jinja2 itself. The marking one renders the same text with every
`Content` still marked; `JinjaTemplateChatWrapper` uses it only where content could be taken for control text.

Source: transformers, src/transformers/utils/chat_template_utils.py (trim_blocks, lstrip_blocks, loop
controls, the ``generation`` tag, ``tojson``, ``raise_exception``, ``strftime_now``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.ext import Extension
from jinja2.filters import make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from jinja2.sandbox import SandboxedEnvironment, SandboxedFormatter

from chatwrap.wrapper.content import (
    Content,
    concat,
    format_content,
    holds_content,
    without_masks,
    written,
)
from chatwrap.wrapper.markup import SafeContent, escaped, safe

Clock = Callable[[], datetime]


class GenerationTag(Extension):
    """``{% generation %}...{% endgeneration %}`` marks the model's text for training; here it is inert."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's way to declare them

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class TemplateRaisedError(Exception):
    """The template called ``raise_exception`` with this message."""


class ChatTemplateEnvironment(SandboxedEnvironment):
    """Hugging Face's environment for chat templates, in a sandbox.

    Unlike there, a template may append to lists that it got: every render has its own copy.
    """

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[GenerationTag, "jinja2.ext.loopcontrols"],
        )
        self.filters["tojson"] = to_json
        self.globals["raise_exception"] = raise_exception
        self.globals["strftime_now"] = strftime_with(datetime.now)


def raise_exception(message: str) -> None:
    raise TemplateRaisedError(message)


def strftime_with(clock: Clock) -> Callable[[str], str]:
    """``strftime_now`` that reads `clock`."""
    return lambda pattern: clock().strftime(pattern)


def to_json(
    value: Any,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - templates pass these by name or place
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """JSON as Hugging Face's templates expect it: UTF-8 and key order kept, HTML not escaped."""
    if separators is not None:
        separators = (str(separators[0]), str(separators[1]))
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


class _MarkingCodeGenerator(CodeGenerator):
    """``a ~ b`` through the environment's `concat`, so that masks survive it."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802 - Jinja's visitor
        self.write("environment.concat((")
        for operand in node.nodes:
            self.write("str(environment.finalize(")
            self.visit(operand, frame)
            self.write(")), ")
        self.write("))")


class MarkingEnvironment(ChatTemplateEnvironment):
    """Renders to a `Content`: the same text, with what came from content marked.

    Filters and calls that aren't known to keep masks get plain strings and give back content.
    """

    code_generator_class = _MarkingCodeGenerator
    intercepted_binops = frozenset({"%"})

    def __init__(self) -> None:
        super().__init__()
        self.concat = concat  # type: ignore[method-assign]
        self.finalize = _marked_container
        for name, function in self.filters.items():
            if name not in _KEEPS_MASKS:
                self.filters[name] = _fail_safe(function)
        self.filters |= _MARKING_FILTERS

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if isinstance(left, str) and holds_content([left, right]):
            return Content(without_masks(left) % without_masks(right))
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """The sandbox's ``format``; it hands out this one wherever a template reads that method."""
        if super().wrap_str_format(value) is None:
            return None
        template, formatter = value.__self__, SandboxedFormatter(self)
        if value.__name__ == "format_map":
            return lambda mapping: format_content(template, (), mapping, formatter)
        return lambda *args, **kwargs: format_content(template, args, kwargs, formatter)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        owner = getattr(__obj, "__self__", None)
        marked = holds_content([args, kwargs])
        if type(owner) is str and marked:
            owner = written(owner)
            __obj = getattr(owner, __obj.__name__)
        result = super().call(__context, __obj, *args, **kwargs)
        follows = isinstance(__obj, Macro) or isinstance(owner, Content | dict)
        return Content(result) if type(result) is str and marked and not follows else result


def _marked_container(value: Any) -> Any:
    """A list or mapping printed as Python shows it is content if any member is."""
    if isinstance(value, str):
        return value
    return Content(str(without_masks(value))) if holds_content(value) else value


def _fail_safe(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` on plain strings, its text marked as content if any argument was."""

    def filtered(*args: Any, **kwargs: Any) -> Any:
        if not holds_content([args, kwargs]):
            result = function(*args, **kwargs)
            # Markup would take the mask off what it is joined with.
            return safe(str(result)) if hasattr(result, "__html__") else result
        result = function(*map(without_masks, args), **{k: without_masks(v) for k, v in kwargs.items()})
        if hasattr(result, "__html__"):
            return SafeContent(str(result))
        return Content(str(result)) if isinstance(result, str) else result

    # Jinja passes its context or environment to functions that carry its mark.
    filtered.__dict__.update(getattr(function, "__dict__", {}))
    return filtered


def _replace(text: Any, old: str, new: str, count: int | None = None) -> Content:
    return written(str(text)).replace(str(old), str(new), -1 if count is None else count)


@jinja2.pass_environment
def _join(
    environment: jinja2.Environment, values: Iterable[Any], d: str = "", attribute: Any = None
) -> Content:
    if attribute is not None:
        values = map(make_attrgetter(environment, attribute), values)
    return written(str(d)).join(str(_marked_container(value)) for value in values)


def _to_json_content(value: Any, *args: Any, **kwargs: Any) -> Content:
    return Content(to_json(value, *args, **kwargs))


def _same(value: Any) -> Any:
    return value if isinstance(value, str) else str(_marked_container(value))


def _safe(value: Any) -> SafeContent:
    return safe(_same(value))


def _escape(value: Any) -> SafeContent:
    return safe(escaped(_same(value)))


_MARKING_FILTERS: Final = {
    "e": _escape,
    "escape": _escape,
    "join": _join,
    "replace": _replace,
    "safe": _safe,
    "string": _same,
    "tojson": _to_json_content,
}
_KEEPS_MASKS: Final = frozenset(
    {"abs", "attr", "batch", "capitalize", "count", "d", "default", "dictsort", "first", "float"}
    | {"groupby", "int", "items", "last", "length", "list", "lower", "map", "max", "min", "random"}
    | {"reject", "rejectattr", "reverse", "round", "select", "selectattr", "slice", "sort", "sum"}
    | {"trim", "unique", "upper"}
)
