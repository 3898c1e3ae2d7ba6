"""Reads one quoted string and writes it as a JSON string piece by piece."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from chatwrap.output.literals import code_point, escaped, named_character, python_escape
from chatwrap.output.marks import TOKEN, Finder
from chatwrap.output.source import Reading, Source

_PLAIN: Final = {quote: re.compile(rf"(?:(?!{TOKEN})[^{quote}\\\n])+") for quote in "\"'`"}
_HEX: Final = {"x": 2, "u": 4, "U": 8}
_LOW_SURROGATE: Final = re.compile(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HIGH_SURROGATE: Final = re.compile(r"[dD][89abAB]")
_SURROGATE: Final = re.compile(r"[dD][89a-fA-F]")
_OCTAL: Final = re.compile(r"[0-7]{1,3}")


@dataclass(slots=True)
class StringReader:
    """Reads a string, opening quote and all. See `ValueReader` for the callables."""

    source: Source
    write: Callable[[str], None]
    ends: Callable[[], Reading[bool]]
    repaired: Callable[[str], None]

    def read_raw(self, quote: str) -> Reading[bool]:
        """A string without escapes, up to the next `quote`. False if the output ended in it."""
        self.source.take(len(quote))
        self.write('"')
        finder = Finder([quote])
        while True:
            n_before, word = finder.scan(self.source)
            self.write(escaped(self.source.take(n_before)))
            if word == quote:
                self.source.take(len(quote))
                break
            if word and (yield from self.ends()):
                self.repaired("a string isn't closed")
                break
            if word:
                self.write(escaped(self.source.take(1)))
            elif self.source.ended:
                return False
            else:
                yield
        self.write('"')
        return True

    def read(self, quote: str, followers: str | None, *, python: bool) -> Reading[bool]:
        """A string with escapes. False if the output ended in it.

        A quote before anything but `followers` (None: anything) can't be the end, so it belongs to the text.
        """
        self.source.take(1)
        self.write('"')
        is_open = True
        while is_open:
            found = _PLAIN[quote].match(self.source.ahead, self.source.at)
            if found:
                self.write(escaped(self.source.take(len(found[0]))))
            char = yield from self.source.peek()
            if not char:
                return False
            if char == "\\":
                yield from self._escape(python=python)
            elif char == quote:
                is_open = not (yield from self._is_end(followers))
            elif char == "\n" or re.match(TOKEN, char):
                is_open = not (yield from self._is_broken_off())
        self.write('"')
        return True

    def _is_end(self, followers: str | None) -> Reading[bool]:
        """Takes a quote and tells whether it is the closing one."""
        quote = self.source.take(1)
        if followers is None:
            return True
        gap = yield from self.source.space()
        char = yield from self.source.peek()
        if not char or char in followers or ("\n" in gap and char == quote) or (yield from self.ends()):
            return True
        self.repaired("a quote within a string isn't escaped")
        self.write(escaped(quote + gap))
        return False

    def _is_broken_off(self) -> Reading[bool]:
        """Whether the call ends here, in the middle of the string; else takes what stands here as text."""
        gap = yield from self.source.space()
        if (yield from self.ends()):
            self.repaired("a string isn't closed")
            return True
        if gap:
            self.repaired("a line break within a string isn't escaped")
        self.write(escaped(gap or self.source.take(1)))
        return False

    def _escape(self, *, python: bool) -> Reading[None]:
        self.source.take(1)
        char = yield from self.source.peek()
        if char in _HEX:
            yield from self._code_point(python=python)
        elif char in '"\\/bfnrt' and char:
            self.write("/" if char == "/" and not python else "\\\\/" if char == "/" else "\\" + char)
            self.source.take(1)
        elif python and char and char in "01234567":
            digits = _OCTAL.match((yield from self.source.window(3)))
            assert digits
            self.write(escaped(chr(int(self.source.take(len(digits[0])), 8))))
        elif python and char == "N":
            yield from self._named()
        else:
            self._other_escape(char, python=python)

    def _other_escape(self, char: str, *, python: bool) -> None:
        """Python's other escapes; a backslash before anything else stands for itself."""
        if not python:
            self.repaired(f"the escape {chr(92) + char} isn't JSON's")
        text = python_escape(char) if char else None
        if text is None:
            self.write("\\\\")
        else:
            self.source.take(1)
            self.write(escaped(text))

    def _code_point(self, *, python: bool) -> Reading[None]:
        window = yield from self.source.window(9)
        n_digits = _HEX[window[0]]
        digits = window[1 : 1 + n_digits]
        if not re.fullmatch(rf"[0-9a-fA-F]{{{n_digits}}}", digits):
            self.repaired(f"the escape {chr(92) + window[0]} lacks digits")
            self.write("\\\\")
            return
        if window[0] != "u" and not python:
            self.repaired(f"the escape {chr(92) + window[0]} isn't JSON's")
        self.source.take(1 + n_digits)
        if window[0] != "u":
            self.write(escaped(code_point(digits)))
            return
        if not _SURROGATE.match(digits):
            self.write(f"\\u{digits}")
        elif _HIGH_SURROGATE.match(digits) and _LOW_SURROGATE.match((yield from self.source.window(6))):
            self.write(f"\\u{digits}{self.source.take(6)}")
        else:
            self.repaired(f"the escape {chr(92)}u{digits} is half a character")
            self.write("\ufffd")

    def _named(self) -> Reading[None]:
        window = yield from self.source.window(90)
        found = re.match(r"N\{([A-Z0-9 -]+)\}", window)
        character = named_character(found[1]) if found else None
        if found is None or character is None:
            self.write("\\\\")
            return
        self.source.take(len(found[0]))
        self.write(escaped(character))
