"""`Content`: a string that knows, character by character, what a template wrote and what it was given.

It goes through Jinja like any `str` and carries its mask along: through ``+``, slices, ``strip``,
``split``, ``replace`` and ``join``. What no operation here can follow becomes content as a whole, so
that a mistake costs a control token and never makes one of content.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final, SupportsIndex

from chatwrap.chat.text import LlamaText, LlamaTextInput, SpecialTokensText

_GIVEN: Final = "c"
_WRITTEN: Final = "t"


class Content(str):
    """A `str` with a mask of the same length: ``c`` for content, ``t`` for the template's own text.

    Equal to, and hashed as, the plain string.

    >>> text = written("<b>") + Content(" x ").strip() + "</b>"
    >>> text.mask, text.split("x")[1].mask
    ('tttctttt', 'tttt')
    """

    __slots__ = ("mask",)

    mask: str

    def __new__(cls, text: str, mask: str | None = None) -> Content:
        self = super().__new__(cls, text)
        self.mask = _GIVEN * len(text) if mask is None else mask
        return self

    def __str__(self) -> str:
        return self

    def __reduce__(self) -> tuple[type[Content], tuple[str, str]]:
        return Content, (str.__str__(self), self.mask)

    def __add__(self, other: str) -> Content:
        return concat((self, other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: str) -> Content:
        return concat((other, self)) if isinstance(other, str) else NotImplemented

    def __mul__(self, count: SupportsIndex) -> Content:
        return Content(super().__mul__(count), self.mask * count)

    __rmul__ = __mul__

    def __mod__(self, values: Any) -> Content:
        return Content(super().__mod__(values))

    def __rmod__(self, template: Any) -> Content:
        return Content(template.__mod__(plain(self)))

    def __getitem__(self, key: SupportsIndex | slice) -> Content:
        return Content(super().__getitem__(key), self.mask[key])

    def __iter__(self) -> Iterator[Content]:
        return map(Content, super().__iter__(), self.mask)

    def lstrip(self, chars: str | None = None) -> Content:
        return self[len(self) - len(super().lstrip(chars)) :]

    def rstrip(self, chars: str | None = None) -> Content:
        return self[: len(super().rstrip(chars))]

    def strip(self, chars: str | None = None) -> Content:
        return self.lstrip(chars).rstrip(chars)

    def removeprefix(self, prefix: str) -> Content:
        return self[len(prefix) :] if self.startswith(prefix) else self

    def removesuffix(self, suffix: str) -> Content:
        return self[: len(self) - len(suffix)] if suffix and self.endswith(suffix) else self

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[Content]:  # type: ignore[override]
        return self._located(super().split(sep, maxsplit), sep)

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[Content]:  # type: ignore[override]
        return self._located(super().rsplit(sep, maxsplit), sep)

    def splitlines(self, keepends: bool = False) -> list[Content]:  # type: ignore[override] # noqa: FBT001, FBT002
        lines = self._located(super().splitlines(keepends=True), "")
        return lines if keepends else [line.rstrip("\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029") for line in lines]

    def _located(self, pieces: list[str], sep: str | None) -> list[Content]:
        """`pieces` of this text, in order, with `sep` (None: white space) between, with their masks."""
        found, start = [], 0
        for piece in pieces:
            start = self.index(piece, start) if sep is None else start
            found.append(self[start : start + len(piece)])
            start += len(piece) + len(sep or "")
        return found

    def partition(self, sep: str) -> tuple[Content, Content, Content]:
        at = self.find(sep)
        return self._cut(at, at + len(sep)) if at >= 0 else self._cut(len(self), len(self))

    def rpartition(self, sep: str) -> tuple[Content, Content, Content]:
        at = self.rfind(sep)
        return self._cut(at, at + len(sep)) if at >= 0 else self._cut(0, 0)

    def _cut(self, start: int, end: int) -> tuple[Content, Content, Content]:
        return self[:start], self[start:end], self[end:]

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> Content:
        if not old:
            return Content(super().replace(old, new, count))
        return written(new).join(self.split(old, count))

    def join(self, values: Iterable[str], /) -> Content:
        pieces: list[str] = []
        for value in values:
            if pieces:
                pieces.append(self)
            pieces.append(value)
        return concat(pieces)

    def _mapped(self, change: Callable[[str], str]) -> Content:
        """This text changed letter by letter; a letter's mask holds for all it becomes."""
        text = change(plain(self))
        if len(text) == len(self):
            return Content(text, self.mask)
        letters = [change(letter) for letter in plain(self)]
        mask = "".join(kind * len(letter) for kind, letter in zip(self.mask, letters, strict=True))
        return Content(text, mask) if "".join(letters) == text else Content(text)

    def lower(self) -> Content:
        return self._mapped(str.lower)

    def upper(self) -> Content:
        return self._mapped(str.upper)

    def casefold(self) -> Content:
        return self._mapped(str.casefold)

    def title(self) -> Content:
        return self._mapped(str.title)

    def capitalize(self) -> Content:
        return self._mapped(str.capitalize)

    def swapcase(self) -> Content:
        return self._mapped(str.swapcase)

    def format(self, *args: Any, **kwargs: Any) -> Content:
        return format_content(self, args, kwargs, string.Formatter())

    def format_map(self, mapping: Any, /) -> Content:
        return Content(super().format_map(mapping))

    def center(self, *args: Any) -> Content:
        return Content(super().center(*args))

    def ljust(self, *args: Any) -> Content:
        return Content(super().ljust(*args))

    def rjust(self, *args: Any) -> Content:
        return Content(super().rjust(*args))

    def zfill(self, width: SupportsIndex, /) -> Content:
        return Content(super().zfill(width))

    def expandtabs(self, tabsize: SupportsIndex = 8) -> Content:
        return Content(super().expandtabs(tabsize))

    def translate(self, table: Any, /) -> Content:
        return Content(super().translate(table))


def plain(text: str) -> str:
    """`text` as a plain `str`."""
    return str.__add__("", text)


def written(text: str) -> Content:
    """`text` as a `Content`: as it is, or the template's own if it is a plain string."""
    return text if isinstance(text, Content) else Content(text, _WRITTEN * len(text))


def concat(texts: Iterable[str]) -> Content:
    """The texts in a row; plain ones are the template's own."""
    pieces = tuple(texts)
    mask = "".join(piece.mask if isinstance(piece, Content) else _WRITTEN * len(piece) for piece in pieces)
    return Content("".join(pieces), mask)


def to_llama_text(text: str) -> LlamaText:
    """`text` with the template's own characters as control text and the others as content."""
    marked = written(text)
    values: list[LlamaTextInput] = []
    start = 0
    for kind, run in groupby(marked.mask):
        end = start + sum(1 for _ in run)
        piece = plain(marked)[start:end]
        values.append(piece if kind == _GIVEN else SpecialTokensText(piece))
        start = end
    return LlamaText(*values)


def as_content(value: Any) -> Any:
    """`value` (JSON) with every string in it, keys included, as content."""
    match value:
        case str():
            return value if isinstance(value, Content) else Content(value)
        case Mapping():
            return {as_content(key): as_content(member) for key, member in value.items()}
        case list() | tuple():
            return [as_content(member) for member in value]
    return value


def holds_content(value: Any) -> bool:
    """Whether `value` is a `Content` or a container with one in it."""
    match value:
        case Content():
            return True
        case Mapping():
            return any(holds_content(key) or holds_content(member) for key, member in value.items())
        case list() | tuple() | set() | frozenset():
            return any(map(holds_content, value))
    return False


def without_masks(value: Any) -> Any:
    """`value` with every `Content` in it as a plain string."""
    match value:
        case Content():
            return plain(value)
        case Mapping():
            return {without_masks(key): without_masks(member) for key, member in value.items()}
        case list() | tuple():
            return type(value)(map(without_masks, value))
    return value


def format_content(
    template: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], formatter: string.Formatter
) -> Content:
    """``template.format(*args, **kwargs)``, each field's mask kept; fields are got from `formatter`."""
    pieces: list[str] = []
    position = 0
    marked = written(template)
    n_auto = 0
    for literal, name, spec, conversion in formatter.parse(plain(template)):
        at = marked.find(literal, position) if literal else position
        pieces.append(marked[at : at + len(literal)] if at >= 0 else Content(literal))
        position = max(at, position) + len(literal)
        if name is None:
            continue
        if not name:
            name, n_auto = str(n_auto), n_auto + 1
        value, _ = formatter.get_field(name, args, kwargs)
        if isinstance(value, Content) and not spec and not conversion:
            pieces.append(value)
            continue
        shown = format(formatter.convert_field(without_masks(value), conversion), spec or "")
        pieces.append(Content(shown) if holds_content(value) else shown)
    return concat(pieces)
