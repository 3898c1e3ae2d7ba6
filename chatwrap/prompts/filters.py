"""The filters that prompts may use: Jinja2's, without those that reach into objects or make markup.

Each costs steps by the length of what it reads, and those that multiply check what they would make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.utils import pass_context

from chatwrap.chat.json_text import dump_json
from chatwrap.prompts.limits import check_size, size_of

_PLAIN: Final = frozenset(
    {"abs", "batch", "capitalize", "center", "count", "d", "default", "dictsort", "filesizeformat", "first"}
    | {"float", "groupby", "indent", "int", "items", "join", "last", "length", "list", "lower", "map", "max"}
    | {"min", "random", "reject", "rejectattr", "replace", "reverse", "round", "select", "selectattr"}
    | {"slice", "sort", "string", "striptags", "sum", "title", "trim", "truncate", "unique", "upper"}
    | {"urlencode", "wordcount", "wordwrap"}
)


def prompt_filters() -> dict[str, Callable[..., Any]]:
    """The filters by name, each of which takes the rendering's context first."""
    filters = {name: _guarded(name, FILTERS[name]) for name in _PLAIN}
    for name in ("e", "escape", "forceescape"):
        filters[name] = _guarded(name, _escaped)
    return {**filters, "safe": _guarded("safe", str), "tojson": _guarded("tojson", _to_json)}


def _escaped(value: Any) -> str:
    text = str(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&#34;").replace("'", "&#39;")


def _to_json(value: Any, indent: int | None = None) -> str:
    """JSON as models read it: key order and UTF-8 kept, nothing escaped for HTML."""
    check_size((indent or 0) * 1000)
    return dump_json(value, where="tojson", indent=indent)


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with its steps counted, given what Jinja2 would give it before the value."""
    wanted = str(getattr(function, "jinja_pass_arg", ""))
    estimate = _GROWTH.get(name)

    @pass_context
    def filtered(context: Context, value: Any, *args: Any, **kwargs: Any) -> Any:
        context.budget.spend(1 + size_of(value) // 100)  # type: ignore[attr-defined]
        if estimate is not None:
            check_size(estimate(value, args, kwargs))
        if not wanted:
            return function(value, *args, **kwargs)
        first = {"_PassArg.context": context, "_PassArg.environment": context.environment}.get(
            wanted, context.eval_ctx
        )
        return function(first, value, *args, **kwargs)

    return filtered


def _number(args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int, name: str, default: int) -> int:
    value = args[place] if len(args) > place else kwargs.get(name, default)
    return value if isinstance(value, int) else default


def _text(args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int, name: str) -> str:
    return str(args[place] if len(args) > place else kwargs.get(name, ""))


def _lines(value: Any) -> int:
    return str(value).count("\n") + 1


_GROWTH: Final[Mapping[str, Callable[[Any, tuple[Any, ...], Mapping[str, Any]], int]]] = {
    "batch": lambda value, args, kwargs: _number(args, kwargs, 0, "linecount", 1),
    "center": lambda value, args, kwargs: _number(args, kwargs, 0, "width", 80),
    "indent": lambda value, args, kwargs: _lines(value) * _indent_width(args, kwargs),
    "join": lambda value, args, kwargs: size_of(value) * (1 + len(_text(args, kwargs, 0, "d"))),
    "replace": lambda value, args, kwargs: _replaced(str(value), args, kwargs),
    "slice": lambda value, args, kwargs: _number(args, kwargs, 0, "slices", 1),
    "wordwrap": lambda value, args, kwargs: size_of(value) * (1 + len(_text(args, kwargs, 2, "wrapstring"))),
}


def _indent_width(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    width = args[0] if args else kwargs.get("width", 4)
    return width if isinstance(width, int) else len(str(width))


def _replaced(value: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    old, new = _text(args, kwargs, 0, "old"), _text(args, kwargs, 1, "new")
    n_places = value.count(old) if old else len(value) + 1
    return len(value) + n_places * len(new)
