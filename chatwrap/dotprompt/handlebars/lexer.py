"""Handlebars source as tokens: the text between tags, and what stands in tags."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Final, NamedTuple, TypeAlias

from chatwrap.dotprompt.handlebars.source import Source

_OPEN: Final = re.compile(
    r"""(?P<raw>\{\{\{\{) | (?P<partial>\{\{~?>) | (?P<partial_block>\{\{~?\#>) | (?P<block>\{\{~?\#\*?)
    | (?P<end>\{\{~?/) | (?P<inverse>\{\{~?(?:\^|\s*else)\s*~?\}\}) | (?P<open_inverse>\{\{~?\^)
    | (?P<chain>\{\{~?\s*else\b) | (?P<unescaped>\{\{~?\{) | (?P<comment>\{\{~?!(?:--)?)
    | (?P<open>\{\{~?[&*]?)""",
    re.VERBOSE,
)
_CLOSE: Final = {
    "raw": re.compile(r"\}\}\}\}"),
    "unescaped": re.compile(r"\}~?\}\}"),
    "": re.compile(r"~?\}\}"),
}
_INSIDE: Final = re.compile(
    r"""(?P<space>\s+) | (?P<open_call>\() | (?P<close_call>\)) | (?P<equals>=)
    | (?P<id>\.\.|\.(?=[=~}\s/.)|])) | (?P<separator>[/.])
    | "(?P<double>(?:\\["]|[^"])*)" | '(?P<single>(?:\\[']|[^'])*)' | (?P<data>@)
    | (?P<constant>(?:true|false|undefined|null)(?=[~}\s)])) | (?P<number>-?[0-9]+(?:\.[0-9]+)?(?=[~}\s)]))
    | (?P<open_params>as\s+\|) | (?P<close_params>\|)
    | (?P<name>[^\s!"\#%-,./;->@\[-^`{-~]+(?=[=~}\s/.)|])) | (?P<segment>\[(?:\\\]|[^\]])*\])""",
    re.VERBOSE,
)
_ESCAPED: Final = re.compile(r"[\s\S]{2,}?(?=\{\{|\\\{\{|\\\\\{\{|\Z)")
_LONG_COMMENT: Final = re.compile(r"[\s\S]*?--~?\}\}")
_COMMENT: Final = re.compile(r"[\s\S]*?\}\}")
_RAW_TAG: Final = re.compile(r"\{\{\{\{(?:/(?P<name>[^\s{}]+)\}\}\}\})?")


class Token(NamedTuple):
    """A token: what it is, its text (of a string what it says) and where it stands."""

    kind: str
    text: str
    offset: int


_Tokens: TypeAlias = Generator[Token, None, int]
"""Tokens, and then where they end."""


def tokenize(source: Source) -> Iterator[Token]:
    """The tokens of a template, ``end_of_text`` last. Raises `DotpromptError` for what is no token.

    A backslash before a tag makes text of it; two make one backslash of themselves.
    """
    position = source.start
    while position < source.end:
        tag = source.text.find("{{", position, source.end)
        text = source.text[position : tag if tag >= 0 else source.end]
        is_escaped = tag >= 0 and text.endswith("\\") and not text.endswith("\\\\")
        shown = text[:-1] if tag >= 0 and text.endswith("\\") else text
        if shown:
            yield Token("text", shown, position)
        if tag < 0:
            break
        if is_escaped:
            match = _ESCAPED.match(source.text, tag, source.end)
            assert match is not None  # the two braces alone are enough
            yield Token("text", match.group(), tag)
            position = match.end()
        else:
            position = yield from _tag(source, tag)
    yield Token("end_of_text", "", source.end)


def _tag(source: Source, offset: int) -> _Tokens:
    match = _OPEN.match(source.text, offset, source.end)
    assert match is not None and match.lastgroup is not None
    kind = match.lastgroup
    if kind == "comment":
        pattern = _LONG_COMMENT if match.group().endswith("--") else _COMMENT
        match = pattern.match(source.text, offset, source.end)
        if match is None:
            raise source.fault(offset, "a comment that isn't closed.", "Close it with }} or --}}.")
    yield Token(kind, match.group(), offset)
    if kind in ("comment", "inverse"):
        return match.end()
    end = yield from _inside(source, match.end(), kind, offset)
    return (yield from _raw_text(source, end, offset)) if kind == "raw" else end


def _inside(source: Source, position: int, kind: str, offset: int) -> _Tokens:
    close = _CLOSE.get(kind, _CLOSE[""])
    while position < source.end:
        if match := close.match(source.text, position, source.end):
            yield Token("close", match.group(), position)
            return match.end()
        match = _INSIDE.match(source.text, position, source.end)
        if match is None and source.text.find("}}", position, source.end) < 0:
            break
        if match is None:
            shown = source.text[position : position + 1]
            raise source.fault(position, f"unexpected {shown!r} in a tag.", "Quote texts, and close the tag.")
        if match.lastgroup != "space":
            yield _inner_token(match)
        position = match.end()
    raise source.fault(offset, "a tag that isn't closed.", "Close it with }}.")


def _inner_token(match: re.Match[str]) -> Token:
    kind, text = match.lastgroup or "", match.group(match.lastgroup or 0)
    if kind in ("double", "single"):
        quote = '"' if kind == "double" else "'"
        return Token("string", text.replace(f"\\{quote}", quote), match.start())
    if kind == "segment":
        return Token(kind, re.sub(r"\\([\\\]])", r"\1", text[1:-1]), match.start())
    return Token(kind, text, match.start())


def _raw_text(source: Source, start: int, offset: int) -> _Tokens:
    depth = 1
    for match in _RAW_TAG.finditer(source.text, start, source.end):
        depth += -1 if match["name"] else 1
        if depth == 0:
            yield Token("text", source.text[start : match.start()], start)
            yield Token("end_raw", match["name"], match.start())
            return match.end()
    raise source.fault(offset, "a raw block that isn't closed.", "Close it with {{{{/name}}}}.")
