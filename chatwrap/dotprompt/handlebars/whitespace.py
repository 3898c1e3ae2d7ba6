"""White space around tags: what ``~`` strips, and lines that hold nothing but a tag.

The rules are those of handlebars.js 4.7, its asymmetries included: a line is judged by the text as it
was written, and the text is stripped once on each side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from chatwrap.dotprompt.handlebars.nodes import (
    Block,
    Comment,
    Mustache,
    Node,
    Partial,
    Program,
    Strip,
    Text,
)
from chatwrap.dotprompt.handlebars.source import WHITE


def strip_white_space(program: Program) -> None:
    """Strips the texts of a whole template in place."""
    _strip_program(program, is_root=True)


@dataclass(slots=True)
class _Candidate:
    """What a tag strips, and whether its ends may stand alone on their lines."""

    strip: Strip
    opens: bool = False
    closes: bool = False
    inline: bool = False


def _strip_program(program: Program | None, *, is_root: bool = False) -> None:
    if program is None:
        return
    body = program.body
    for index, node in enumerate(body):
        if isinstance(node, Text):
            continue
        candidate = _visit(node)
        before, after = _ends_line(body, index, is_root=is_root), _starts_line(body, index, is_root=is_root)
        if candidate.strip.close:
            _omit_right(body, index + 1, everything=True)
        if candidate.strip.open:
            _omit_left(body, index - 1, everything=True)
        if candidate.inline and before and after:
            _omit_right(body, index + 1)
            if _omit_left(body, index - 1) and isinstance(node, Partial):
                node.indent = _indent(body[index - 1])
        if candidate.opens and before:
            _omit_right(_first_body(node), 0)
            _omit_left(body, index - 1)
        if candidate.closes and after:
            _omit_right(body, index + 1)
            last = _last_body(node)
            _omit_left(last, len(last) - 1)


def _visit(node: Node) -> _Candidate:
    match node:
        case Block():
            return _visit_block(node, node.program, node.inverse, node.inverse_strip)
        case Partial(program=Program()):
            return _visit_block(node, node.program, None, Strip())
        case Partial():
            return _Candidate(node.open_strip, inline=True)
        case Comment():
            return _Candidate(node.strip, inline=True)
        case Mustache():
            return _Candidate(node.strip)
        case Text():
            return _Candidate(Strip())
        case _:
            assert_never(node)


def _visit_block(
    node: Block | Partial, program: Program | None, inverse: Program | None, inverse_strip: Strip
) -> _Candidate:
    _strip_program(program)
    _strip_program(inverse)
    first = program or inverse
    assert first is not None
    other = inverse if program else None
    first_inverse, last_inverse = other, other
    if other is not None and other.chained:
        first_inverse = _chained(other).program
        while last_inverse is not None and last_inverse.chained:
            last_inverse = _chained(last_inverse).program
    end = (first_inverse or first).body
    opens, closes = _starts_line(first.body, -1), _ends_line(end, len(end))
    if node.open_strip.close:
        _omit_right(first.body, 0, everything=True)
    if first_inverse is None or last_inverse is None:
        if node.close_strip.open:
            _omit_left(first.body, len(first.body) - 1, everything=True)
    else:
        _strip_else(first.body, first_inverse.body, inverse_strip)
        if node.close_strip.open:
            _omit_left(last_inverse.body, len(last_inverse.body) - 1, everything=True)
        if _ends_line(first.body, len(first.body)) and _starts_line(first_inverse.body, -1):
            _omit_left(first.body, len(first.body) - 1)
            _omit_right(first_inverse.body, 0)
    return _Candidate(Strip(node.open_strip.open, node.close_strip.close), opens, closes)


def _strip_else(before: list[Node], after: list[Node], strip: Strip) -> None:
    if strip.open:
        _omit_left(before, len(before) - 1, everything=True)
    if strip.close:
        _omit_right(after, 0, everything=True)


def _chained(program: Program) -> Block:
    block = program.body[-1]
    assert isinstance(block, Block)
    return block


def _first_body(node: Node) -> list[Node]:
    assert isinstance(node, Block | Partial)
    program = node.program or (node.inverse if isinstance(node, Block) else None)
    return program.body if program else []


def _last_body(node: Node) -> list[Node]:
    assert isinstance(node, Block | Partial)
    program = (node.inverse if isinstance(node, Block) else None) or node.program
    return program.body if program else []


def _ends_line(body: list[Node], index: int, *, is_root: bool = False) -> bool:
    """Whether nothing but white space stands between the line's start and the node at `index`."""
    if index == 0:
        return is_root
    before = body[index - 1]
    if not isinstance(before, Text):
        return False
    rest = before.original.rstrip(WHITE)
    is_line = "\n" in before.original[len(rest) :]
    return is_line or (not rest and is_root and index == 1)


def _starts_line(body: list[Node], index: int, *, is_root: bool = False) -> bool:
    """Whether nothing but white space stands between the node at `index` and the line's end."""
    if index + 1 >= len(body):
        return is_root
    after = body[index + 1]
    if not isinstance(after, Text):
        return False
    rest = after.original.lstrip(WHITE)
    is_line = "\n" in after.original[: len(after.original) - len(rest)]
    return is_line or (not rest and is_root and index + 2 == len(body))


def _omit_right(body: list[Node], index: int, *, everything: bool = False) -> None:
    """Strips the start of the text at `index`: all white space, or blanks and one line break."""
    node = body[index] if index < len(body) else None
    if not isinstance(node, Text) or (not everything and node.right_stripped):
        return
    value = node.value.lstrip(WHITE if everything else " \t")
    if not everything:
        value = value.removeprefix("\r").removeprefix("\n")
    node.right_stripped = value != node.value
    node.value = value


def _omit_left(body: list[Node], index: int, *, everything: bool = False) -> bool:
    """Strips the end of the text at `index`: all white space, or blanks."""
    node = body[index] if index >= 0 else None
    if not isinstance(node, Text) or (not everything and node.left_stripped):
        return False
    value = node.value.rstrip(WHITE if everything else " \t")
    node.left_stripped = value != node.value
    node.value = value
    return node.left_stripped


def _indent(node: Node) -> str:
    assert isinstance(node, Text)
    return node.original[len(node.original.rstrip(" \t")) :]
