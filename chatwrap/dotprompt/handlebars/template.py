"""Compiled templates, and the helpers and partials that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from chatwrap.dotprompt.handlebars.compiler import Compiler
from chatwrap.dotprompt.handlebars.helpers import CHOICES, HELPERS, LOOPS, Choice, Helper
from chatwrap.dotprompt.handlebars.parser import parse
from chatwrap.dotprompt.handlebars.partials import shown_chain
from chatwrap.dotprompt.handlebars.run import (
    Body,
    BoundError,
    Frame,
    Output,
    PartialError,
    Run,
    joined_length,
)
from chatwrap.dotprompt.handlebars.source import Source
from chatwrap.dotprompt.handlebars.values import Mark
from chatwrap.errors import ChatwrapError, DotpromptError

PartialResolver: TypeAlias = Callable[[str], "Source | str | None"]
"""Gives the source of the partial with a name; None if there is none."""


@dataclass(slots=True)
class Environment:
    """Helpers and partials. Partials are compiled at their first use, and again only if their source changes.

    The resolver is asked for a partial's source once in each rendering.
    """

    helpers: dict[str, Helper | Choice] = field(default_factory=lambda: {**HELPERS, **CHOICES})
    resolver: PartialResolver | None = None
    _sources: dict[str, Source] = field(default_factory=dict)
    _compiled: dict[str, Template] = field(default_factory=dict)

    def define_helper(self, name: str, function: Callable[..., Any]) -> None:
        """Lets templates call `function`: with arguments by place and by name, or with ``options``.

        Raises `DotpromptError` for the name of a helper that is built in.
        """
        known = self.helpers.get(name)
        if not name:
            raise DotpromptError.of("helpers", "a helper without a name.", "Give it one.")
        if name in LOOPS or isinstance(known, Choice) or (known and known.native):
            raise DotpromptError.of("helpers", f"{name!r} is built in.", "Choose another name.")
        self.helpers[name] = Helper(function)

    def define_partial(self, name: str, source: str | Source) -> None:
        """Lets templates put this template in by this name."""
        self._sources[name] = source if isinstance(source, Source) else Source.of(source, f"partial {name!r}")
        self._compiled.pop(name, None)

    def partial(self, name: str) -> Template | None:
        """The partial with this name, from those defined or from the resolver.

        Raises `PartialError` if the resolver refuses, and `DotpromptError` if the source is no template.
        """
        source = self._sources.get(name)
        if source is None and self.resolver:
            try:
                found = self.resolver(name)
            except ChatwrapError as error:
                raise PartialError(name, error) from error
            source = Source.of(found, f"partial {name!r}") if isinstance(found, str) else found
        if source is None:
            return None
        known = self._compiled.get(name)
        if known is not None and known.source == source:
            return known
        template = self._compiled[name] = self.compile(source)
        return template

    def compile(self, source: Source | str) -> Template:
        """The template, ready to be rendered. Raises `DotpromptError` with line and column."""
        source = Source.of(source, "template") if isinstance(source, str) else source
        body = Compiler(source, self).body(parse(source))
        assert body is not None
        return Template(source, self, body)


@dataclass(frozen=True, slots=True)
class Template:
    """A compiled template. Rendering changes nothing in it, so threads may share it."""

    source: Source
    environment: Environment
    body: Body

    def pieces(self, context: Any, data: Mapping[str, Any] | None = None) -> list[str | Mark]:
        """The output for a context and ``@`` variables: texts, and the marks of what is no text.

        Raises `DotpromptError` for what a template can't do with these values, for more than 50 million
        characters, and for partials that never end.
        """
        run = Run(self.environment)
        frame = Frame(context, None, {"root": context, **(data or {})}, {}, run, {})
        out: Output = []
        try:
            self.body.render(out, frame)
            joined_length(out)
        except BoundError as error:
            raise self.source.fault(self.source.start, f"{error}.", "Give it less data.") from None
        except RecursionError:
            chain = shown_chain(run.chain)
            problem = f"partials stand too deep in one another: {chain}." if chain else "nested too deep."
            raise self.source.fault(self.source.start, problem, "End the recursion.") from None
        return out

    def render(self, context: Any, data: Mapping[str, Any] | None = None) -> str:
        """The output as text, which marks aren't in.

        >>> Environment().compile("{{#each xs}}{{this}};{{/each}}").render({"xs": [1, 2.0]})
        '1;2;'
        """
        return "".join(piece for piece in self.pieces(context, data) if isinstance(piece, str))
