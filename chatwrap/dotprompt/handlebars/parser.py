"""Handlebars tokens to a tree, as the grammar of handlebars.js 4.7 has it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from chatwrap.dotprompt.handlebars.lexer import Token, tokenize
from chatwrap.dotprompt.handlebars.nodes import (
    Block,
    Call,
    Comment,
    Expression,
    Literal,
    Mustache,
    Node,
    Partial,
    Path,
    Program,
    Strip,
    Text,
)
from chatwrap.dotprompt.handlebars.source import MAX_NESTING, Source
from chatwrap.dotprompt.handlebars.values import UNDEFINED
from chatwrap.dotprompt.handlebars.whitespace import strip_white_space
from chatwrap.errors import DotpromptError

_CONSTANTS: Final = {"true": True, "false": False, "null": None, "undefined": UNDEFINED}
_NAMES: Final = ("id", "name", "segment")


def parse(source: Source) -> Program:
    """The tree of a template, white space stripped. Raises `DotpromptError` at the first fault."""
    parser = _Parser(source, list(tokenize(source)))
    program = parser.program()
    if parser.token.kind != "end_of_text":
        raise parser.unexpected("No block is open here.")
    strip_white_space(program)
    return program


@dataclass(slots=True)
class _Parser:
    source: Source
    tokens: list[Token]
    index: int = 0
    depth: int = field(default=0)

    @property
    def token(self) -> Token:
        return self.tokens[self.index]

    def unexpected(self, remedy: str) -> DotpromptError:
        shown = self.token.text or "end of the template"
        shown = repr(shown) if self.token.text else shown
        return self.source.fault(self.token.offset, f"unexpected {shown}.", remedy)

    def take(self, *kinds: str, remedy: str) -> Token:
        token = self.token
        if token.kind not in kinds:
            raise self.unexpected(remedy)
        self.index += 1
        return token

    def deeper(self, by: int, offset: int) -> None:
        self.depth += by
        if self.depth > MAX_NESTING:
            raise self.source.fault(offset, f"nested deeper than {MAX_NESTING} levels.", "Flatten it.")

    def program(self, names: tuple[str, ...] = ()) -> Program:
        body: list[Node] = []
        while (node := self.statement()) is not None:
            body.append(node)
        return Program(body, names)

    def statement(self) -> Node | None:
        token = self.token
        match token.kind:
            case "text":
                self.index += 1
                return Text(token.text, token.text)
            case "comment":
                self.index += 1
                return Comment(Strip(token.text[2] == "~", token.text[-3] == "~"))
            case "open" if token.text.endswith("*"):
                raise self.source.fault(token.offset, "a decorator.", "Only {{#*inline}} blocks are known.")
            case "open" | "unescaped":
                call, strip = self.tag()
                return Mustache(call, strip)
            case "partial" | "partial_block":
                return self.partial()
            case "raw":
                return self.raw_block()
            case "block" | "open_inverse":
                return self.block()
            case _:
                return None

    def tag(self) -> tuple[Call, Strip]:
        """A tag with nothing but a call in it."""
        opening = self.take(self.token.kind, remedy="")
        call = self.call(opening.offset)
        return call, self.closing(opening)

    def closing(self, opening: Token) -> Strip:
        closing = self.take("close", remedy="Close the tag with }} here.")
        return Strip(opening.text[2:3] == "~", "~" in closing.text)

    def block(self) -> Block:
        opening = self.take("block", "open_inverse", remedy="")
        self.deeper(1, opening.offset)
        call = self.call(opening.offset)
        names = self.block_names()
        strip = self.closing(opening)
        program = self.program(names)
        inverse, inverse_strip = self.inverse(chains=opening.kind == "block")
        close_strip = self.end(call, opening)
        self.deeper(-1, opening.offset)
        _end_chain(inverse, close_strip)
        if opening.kind == "open_inverse":
            return Block(call, inverse, program, strip, inverse_strip, close_strip)
        decorator = opening.text.endswith("*")
        return Block(call, program, inverse, strip, inverse_strip, close_strip, decorator)

    def inverse(self, *, chains: bool) -> tuple[Program | None, Strip]:
        """What stands behind ``{{else}}``, ``{{^}}`` or, if `chains`, ``{{else if ...}}``."""
        token = self.token
        if token.kind == "inverse":
            self.index += 1
            return self.program(), Strip(token.text[2] == "~", token.text[-3] == "~")
        if token.kind != "chain" or not chains:
            return None, Strip()
        self.index += 1
        self.deeper(1, token.offset)
        call = self.call(token.offset)
        names = self.block_names()
        strip = self.closing(token)
        program = self.program(names)
        inverse, inverse_strip = self.inverse(chains=True)
        self.deeper(-1, token.offset)
        # handlebars.js takes the next else for the end; the block's own end goes to the first else alone.
        block = Block(call, program, inverse, strip, inverse_strip, inverse_strip)
        _end_chain(inverse, inverse_strip)
        return Program([block], chained=True), strip

    def end(self, call: Call, opening: Token) -> Strip:
        if self.token.kind != "end":
            remedy = f"Close {opening.text}{call.path.text}}}}} with {{{{/{call.path.text}}}}} first."
            raise self.unexpected(remedy)
        token = self.take("end", remedy="")
        name = self.simple()
        if name.text != call.path.text:
            problem = f"{{{{/{name.text}}}}} closes {opening.text}{call.path.text}}}}}."
            raise self.source.fault(token.offset, problem, f"Write {{{{/{call.path.text}}}}}.")
        return self.closing(token)

    def raw_block(self) -> Block:
        call, _ = self.tag()
        text = self.take("text", remedy="")
        end = self.take("end_raw", remedy="")
        if end.text != call.path.text:
            problem = f"{{{{{{{{/{end.text}}}}}}}}} closes {{{{{{{{{call.path.text}}}}}}}}}."
            raise self.source.fault(end.offset, problem, "Give both the same name.")
        body = Program([Text(text.text, text.text)] if text.text else [])
        return Block(call, body, None, Strip(), Strip(), Strip(), raw=True)

    def partial(self) -> Partial:
        opening = self.take("partial", "partial_block", remedy="")
        name: Expression = self.sub_call() if self.token.kind == "open_call" else self.simple()
        params, named = self.arguments()
        if len(params) > 1:
            raise self.source.fault(opening.offset, f"{len(params)} contexts for a partial.", "Give one.")
        strip = self.closing(opening)
        partial = Partial(name, params, named, opening.offset, strip)
        if opening.kind == "partial_block":
            self.deeper(1, opening.offset)
            partial.program = self.program()
            path = name.path if isinstance(name, Call) else _as_path(name)
            partial.close_strip = self.end(Call(path, (), {}, opening.offset), opening)
            self.deeper(-1, opening.offset)
        return partial

    def block_names(self) -> tuple[str, ...]:
        if self.token.kind != "open_params":
            return ()
        self.index += 1
        names = [self.take(*_NAMES, remedy="Name what each item is called: as |item index|.").text]
        while self.token.kind in _NAMES:
            names.append(self.take(*_NAMES, remedy="").text)
        self.take("close_params", remedy="End the names with |.")
        return tuple(names)

    def call(self, offset: int) -> Call:
        name = self.simple()
        params, named = self.arguments()
        return Call(_as_path(name), params, named, offset)

    def sub_call(self) -> Call:
        opening = self.take("open_call", remedy="")
        self.deeper(1, opening.offset)
        call = self.call(opening.offset)
        self.take("close_call", remedy="Close the sub-expression with ) here.")
        self.deeper(-1, opening.offset)
        return call

    def arguments(self) -> tuple[tuple[Expression, ...], dict[str, Expression]]:
        params: list[Expression] = []
        named: dict[str, Expression] = {}
        while self.token.kind not in ("close", "close_call", "open_params"):
            following = self.tokens[self.index + 1].kind
            if following == "equals" and self.token.kind in _NAMES:
                name = self.take(*_NAMES, remedy="").text
                self.index += 1
                named[name] = self.argument()
            elif named:
                raise self.unexpected("Give arguments without a name before those with one.")
            else:
                params.append(self.argument())
        return tuple(params), named

    def argument(self) -> Expression:
        return self.sub_call() if self.token.kind == "open_call" else self.simple()

    def simple(self) -> Path | Literal:
        token = self.token
        match token.kind:
            case "string":
                self.index += 1
                return Literal(token.text, token.text, token.offset)
            case "number":
                self.index += 1
                number = float(token.text)
                is_whole = number.is_integer() and "." not in token.text
                return Literal(int(token.text) if is_whole else number, token.text, token.offset)
            case "constant":
                self.index += 1
                return Literal(_CONSTANTS[token.text], token.text, token.offset)
            case _:
                return self.path()

    def path(self) -> Path:
        start = self.token
        if start.kind == "data":
            self.index += 1
        parts: list[str] = []
        depth, text = 0, "@" if start.kind == "data" else ""
        while True:
            # What stands last in a path looks like a number or a constant: `items.1`, `user.true`.
            kinds = (*_NAMES, "number", "constant") if text not in ("", "@") else _NAMES
            part = self.take(*kinds, remedy="Put a name here.")
            text += part.text
            if part.kind == "segment" or part.text not in ("..", ".", "this"):
                parts.append(part.text)
            elif parts:
                raise self.source.fault(part.offset, f"{part.text!r} inside a path.", "Put it first.")
            else:
                depth += part.text == ".."
            if self.token.kind in ("id", "name") and not self.source.text[self.token.offset - 1].isspace():
                problem = f"{text + self.token.text!r} is no path."
                raise self.source.fault(
                    start.offset, problem, "Put one dot between names, and none at the end."
                )
            if self.token.kind != "separator":
                return Path(tuple(parts), depth, start.kind == "data", text, start.offset)
            text += self.take("separator", remedy="").text


def _end_chain(inverse: Program | None, strip: Strip) -> None:
    """Tells an ``else if`` with which tag it ends."""
    if inverse is not None and inverse.chained:
        block = inverse.body[0]
        assert isinstance(block, Block)
        block.close_strip = strip


def _as_path(name: Path | Literal) -> Path:
    """A name at the start of a tag: there a literal is the name of a variable, too."""
    return name if isinstance(name, Path) else Path((name.text,), 0, False, name.text, name.offset)
