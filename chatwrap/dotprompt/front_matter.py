"""The YAML between ``---`` lines: where it stands in a file, and its values with their places."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pydantic import JsonValue

from chatwrap.dotprompt.handlebars.source import WHITE
from chatwrap.errors import DotpromptError, Fault

Path: TypeAlias = tuple[str | int, ...]
"""Where a value stands in the front matter: the keys and indexes that lead to it."""

MAX_DEPTH: Final = 100
MAX_VALUES: Final = 100_000
"""How many values front matter may have, those that an alias repeats counted each time."""

_LINE: Final = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_FENCE: Final = re.compile(r"---[ \t]*")
_INTEGER: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: Final[dict[str, JsonValue]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


@dataclass(frozen=True, slots=True)
class Split:
    """A file's front matter and body as half-open ranges of characters; `front` is None if there is none."""

    front: tuple[int, int] | None
    body: tuple[int, int]


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What front matter says, and where in the file each value stands."""

    values: dict[str, JsonValue]
    offsets: dict[Path, int]


def split(text: str, *, name: str) -> Split:
    """Tells a file's front matter from its body.

    Front matter starts at a line ``---``, before which only blank lines and lines with ``#`` may stand.
    The body behind it is stripped; one without front matter is the whole text. Raises `DotpromptError`
    for front matter that isn't closed.
    """
    opened: tuple[int, int] | None = None
    for match in _LINE.finditer(text):
        is_fence = _FENCE.fullmatch(match[1].removeprefix("\ufeff") if not match.start() else match[1])
        if opened is None:
            if is_fence:
                opened = match.span()
            elif match[1].strip(WHITE) and not match[1].startswith("#"):
                break
        elif is_fence:
            return Split((opened[1], match.start()), _stripped(text, match.end()))
        if match.end() == len(text):
            break
    if opened is not None:
        remedy = "Close it with a line ---, or put a text before it that is no front matter."
        raise DotpromptError(
            [Fault.at(text, opened[0], "front matter that isn't closed.", remedy, name=name)]
        )
    return Split(None, (0, len(text)))


def _stripped(text: str, start: int) -> tuple[int, int]:
    body = text[start:]
    start += len(body) - len(body.lstrip(WHITE))
    return start, max(start, start + len(body.strip(WHITE)))


def read(text: str, span: tuple[int, int], *, name: str) -> FrontMatter:
    """The values of the front matter at `span` of `text`, by YAML 1.2: ``yes`` and dates are strings.

    Raises `DotpromptError` for what isn't YAML, isn't a mapping at its top, or means something that JSON
    can't say: tags, keys that occur twice, aliases without end.
    """
    builder = _Builder(text, span[0], name, text[slice(*span)])
    value = builder.build()
    if value is None:
        return FrontMatter({}, builder.offsets)
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else f"the value {value!r}"
        raise builder.fault(0, f"front matter that is {kind}.", "Write key: value, one a line.")
    return FrontMatter(value, builder.offsets)


@dataclass(slots=True)
class _Open:
    """A list or mapping that isn't complete yet; `key` waits for its value."""

    value: list[Any] | dict[str, Any]
    path: Path
    anchor: str | None
    n_before: int
    key: str | None = None

    def step(self) -> str | int:
        return len(self.value) if isinstance(self.value, list) else self.key or ""


@dataclass(slots=True)
class _Builder:
    """Makes values of YAML events. `start` is where `yaml` starts in the text."""

    text: str
    start: int
    name: str
    yaml: str
    offsets: dict[Path, int] = field(default_factory=dict)
    _stack: list[_Open] = field(default_factory=list)
    _anchors: dict[str, tuple[Any, int]] = field(default_factory=dict)
    _n_values: int = 0
    _result: Any = None

    def fault(self, index: int, problem: str, remedy: str = "") -> DotpromptError:
        offset = min(self.start + index, len(self.text))
        return DotpromptError([Fault.at(self.text, offset, problem, remedy, name=self.name)])

    def build(self) -> Any:
        from ruamel.yaml.error import YAMLError

        try:
            for event in _events(self.yaml):
                self._take(event)
        except YAMLError as error:
            raise self._syntax_fault(error) from None
        return self._result

    def _syntax_fault(self, error: Any) -> DotpromptError:
        mark, context_mark = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
        is_later = mark is not None and not self.yaml[mark.index :].strip()
        if context_mark is not None and (is_later or "simple key" in str(getattr(error, "context", ""))):
            mark = context_mark  # the problem shows behind what is wrong
        index = mark.index if mark is not None else getattr(error, "position", 0)
        index = min(index, len(self.yaml.rstrip()))
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "can't be read"
        context = getattr(error, "context", None)
        said = f"{problem} {context}" if context else problem
        return self.fault(index, f"not YAML: {said}.", "Write key: value, and quote texts with : or # in.")

    def _take(self, event: Any) -> None:
        index = event.start_mark.index
        match type(event).__name__:
            case "ScalarEvent":
                self._check(event, index)
                self._scalar(event, index)
            case "MappingStartEvent":
                self._open({}, event, index)
            case "SequenceStartEvent":
                self._open([], event, index)
            case "MappingEndEvent" | "SequenceEndEvent":
                opened = self._stack.pop()
                if opened.anchor:
                    self._anchors[opened.anchor] = opened.value, self._n_values - opened.n_before
            case "AliasEvent":
                self._alias(event, index)
            case "DocumentStartEvent" if self._n_values:
                raise self.fault(index, "a second YAML document.", "Give one.")

    def _check(self, event: Any, index: int) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None and str(tag) != "!":
            raise self.fault(index, f"the tag {str(tag)!r}.", "Remove it: types follow from the values.")

    def _open(self, value: list[Any] | dict[str, Any], event: Any, index: int) -> None:
        self._check(event, index)
        if self._stack and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None:
            raise self.fault(index, "a key that is no text.", "Quote it.")
        if len(self._stack) >= MAX_DEPTH:
            raise self.fault(index, f"nested deeper than {MAX_DEPTH} levels.", "Flatten it.")
        n_before = self._n_values
        path = self._put(value, index)
        self._stack.append(_Open(value, path, event.anchor, n_before))

    def _scalar(self, event: Any, index: int) -> None:
        if self._stack and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None:
            self._key(self._stack[-1], event, index)
            return
        value = self._plain(event.value, index) if event.style is None else _joined(event.value)
        self._put(value, index)
        if event.anchor:
            self._anchors[event.anchor] = value, 1

    def _key(self, opened: _Open, event: Any, index: int) -> None:
        key = _joined(event.value)
        if event.style is None and not key:
            raise self.fault(index, "a key is missing.", "Write it before the colon.")
        if key in opened.value:
            raise self.fault(index, f"a second key {key!r}.", "Remove one.")
        opened.key = key
        self.offsets[(*opened.path, key)] = self.start + index
        if event.anchor:
            self._anchors[event.anchor] = key, 1

    def _alias(self, event: Any, index: int) -> None:
        if event.anchor not in self._anchors:
            raise self.fault(index, f"no anchor &{event.anchor} before.", "Write the value itself.")
        value, n_values = self._anchors[event.anchor]
        self._n_values += n_values - 1
        if self._stack and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None:
            raise self.fault(index, "an alias as a key.", "Write the key itself.")
        self._put(value, index)

    def _put(self, value: Any, index: int) -> Path:
        self._n_values += 1
        if self._n_values > MAX_VALUES:
            raise self.fault(index, f"more than {MAX_VALUES} values, aliases counted.", "Use fewer aliases.")
        if not self._stack:
            self._result = value
            return ()
        opened = self._stack[-1]
        path = (*opened.path, opened.step())
        self.offsets.setdefault(path, self.start + index)
        if isinstance(opened.value, list):
            opened.value.append(value)
        else:
            opened.value[opened.key or ""] = value
            opened.key = None
        return path

    def _plain(self, text: str, index: int) -> JsonValue:
        """The value of a scalar without quotes, by YAML 1.2's core schema."""
        if text in _WORDS:
            return _WORDS[text]
        try:
            if _INTEGER.fullmatch(text):
                return int(text, 0) if text.startswith(("0o", "0x")) else int(text)
        except ValueError:
            raise self.fault(index, "a number of too many digits.", "Shorten or quote it.") from None
        if _NO_NUMBER.fullmatch(text) or (_FLOAT.fullmatch(text) and math.isinf(float(text))):
            raise self.fault(index, f"{text} is no JSON number.", "Quote it, or give a number.")
        return float(text) if _FLOAT.fullmatch(text) else text


def _joined(text: str) -> str:
    r"""`text` with the two halves of a character that JSON escapes as ``\ud83d\ude00`` made one."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def _events(yaml_text: str) -> Iterator[Any]:
    from ruamel.yaml import YAML

    return iter(YAML(typ="safe", pure=True).parse(yaml_text))
