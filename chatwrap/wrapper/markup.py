"""`SafeContent`: a `Content` that escapes what it is joined with as HTML, as Jinja2's `safe` has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex

from markupsafe import escape

from chatwrap.wrapper.content import Content, concat, plain, written


class SafeContent(Content):
    """What markupsafe's ``Markup`` is among plain strings: safe itself, and careful with its neighbours.

    Slices, stripped and split parts are safe, too. Only chat templates that pass text through ``safe``
    or ``escape`` and then add to it come here; they would do the same to plain strings.

    >>> joined = "<tool>" + SafeContent("<b>")
    >>> str(joined), joined.mask
    ('&lt;tool&gt;<b>', 'ttttttttttttccc')
    """

    __slots__ = ()

    def __html__(self) -> str:
        return plain(self)

    def __add__(self, other: str) -> SafeContent:
        return _safe(concat((self, escaped(other)))) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: str) -> SafeContent:
        return _safe(concat((escaped(other), self))) if isinstance(other, str) else NotImplemented

    def __mul__(self, count: SupportsIndex) -> SafeContent:
        return _safe(super().__mul__(count))

    __rmul__ = __mul__

    def __getitem__(self, key: SupportsIndex | slice) -> SafeContent:
        return _safe(super().__getitem__(key))

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> SafeContent:
        return _safe(super().replace(old, escaped(new), count))

    def join(self, values: Iterable[str], /) -> SafeContent:
        return _safe(super().join(map(escaped, values)))

    def _mapped(self, change: Any) -> SafeContent:
        return _safe(super()._mapped(change))


def _safe(text: Content) -> SafeContent:
    return SafeContent(plain(text), text.mask)


def safe(text: str) -> SafeContent:
    """`text` as it is, safe from now on; a plain string is the template's own."""
    return text if isinstance(text, SafeContent) else _safe(written(text))


def escaped(text: str) -> Content:
    """`text` with HTML's special characters escaped, unless it is safe."""
    if hasattr(text, "__html__"):
        return safe(text)
    return written(text)._mapped(lambda letters: str(escape(letters)))
