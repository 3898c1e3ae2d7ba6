"""`LlamaText`: a text that knows which of its characters are control text and which are content.

Control text is what a chat format wrote; content is what anyone else wrote. Only control text may
become special tokens, so a user who types ``<|im_end|>`` never closes a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, TypeAlias, get_args, overload

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from chatwrap.chat.tokenizer import Tokenizer
from chatwrap.errors import Fault, HistoryError

SpecialTokenName: TypeAlias = Literal["BOS", "EOS", "EOT", "NL", "SEP"]
SPECIAL_TOKEN_NAMES: tuple[SpecialTokenName, ...] = get_args(SpecialTokenName)


@dataclass(frozen=True, slots=True)
class SpecialTokensText:
    """Control text: special tokens spelled out in it become those tokens."""

    value: str

    def __str__(self) -> str:
        return self.value

    def to_json(self) -> dict[str, str]:
        return {"type": "specialTokensText", "value": self.value}


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """A special token named by its role; a vocabulary without that role skips it."""

    value: SpecialTokenName

    def __post_init__(self) -> None:
        if self.value not in SPECIAL_TOKEN_NAMES:
            known = ", ".join(SPECIAL_TOKEN_NAMES)
            raise HistoryError.of("SpecialToken", f"no role {self.value!r}.", f"Use one of {known}.")

    def __str__(self) -> str:
        return self.value

    def to_json(self) -> dict[str, str]:
        return {"type": "specialToken", "value": self.value}


LlamaTextValue: TypeAlias = str | SpecialTokensText | SpecialToken
LlamaTextInput: TypeAlias = "LlamaTextValue | LlamaText | int | float | Iterable[LlamaTextInput]"
LlamaTextJSON: TypeAlias = str | list[str | dict[str, str]]


class _JoinValues:
    """``text.join_values(separator)`` and ``LlamaText.join_values(separator, values)``.

    The peers' API gives one name to a method and to a static function; so does this descriptor.
    """

    @overload
    def __get__(
        self, instance: None, owner: type[LlamaText]
    ) -> Callable[[LlamaTextInput, Iterable[LlamaTextInput]], LlamaText]: ...
    @overload
    def __get__(
        self, instance: LlamaText, owner: type[LlamaText]
    ) -> Callable[[LlamaTextInput], LlamaText]: ...
    def __get__(self, instance: LlamaText | None, owner: type[LlamaText]) -> Callable[..., LlamaText]:
        if instance is None:
            return _interleave
        return lambda separator: _interleave(separator, instance.values)


class LlamaText:
    """An immutable sequence of content (`str`), control text and special tokens.

    Nested sequences are flattened, empty texts dropped, and neighbours of one kind joined, so two
    texts that say the same are equal. All operations return a new text and cost its length.

    >>> LlamaText("a", ["b", SpecialTokensText("<|im_end|>")])
    LlamaText('ab', SpecialTokensText('<|im_end|>'))
    >>> LlamaText.join_values(", ", ["x", "y"]), LlamaText("x", SpecialTokensText("y")).join_values("-")
    (LlamaText('x, y'), LlamaText('x-', SpecialTokensText('y')))
    """

    __slots__ = ("values",)

    values: tuple[LlamaTextValue, ...]
    join_values = _JoinValues()

    def __init__(self, *values: LlamaTextInput) -> None:
        object.__setattr__(self, "values", _values_of(values))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"LlamaText is immutable: can't set {name!r}.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"LlamaText is immutable: can't delete {name!r}.")

    def __reduce__(self) -> tuple[type[LlamaText], tuple[LlamaTextValue, ...]]:
        return LlamaText, self.values

    def __eq__(self, other: object) -> bool:
        return self.values == other.values if isinstance(other, LlamaText) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.values)

    def __bool__(self) -> bool:
        return bool(self.values)

    def __add__(self, other: LlamaTextInput) -> LlamaText:
        return self.concat(other)

    def __str__(self) -> str:
        return "".join([value if isinstance(value, str) else value.value for value in self.values])

    def __repr__(self) -> str:
        return f"LlamaText({', '.join(_show(value) for value in self.values)})"

    def concat(self, value: LlamaTextInput) -> LlamaText:
        """This text with `value` behind it."""
        return _joined(self, LlamaText(value))

    def map_values(self, mapper: Callable[[LlamaTextValue], LlamaTextInput]) -> LlamaText:
        """This text with each value replaced by ``mapper(value)``."""
        return LlamaText(*map(mapper, self.values))

    def trim(self) -> LlamaText:
        """This text without white space at its ends; a special token ends the search."""
        return self.trim_start().trim_end()

    def trim_start(self) -> LlamaText:
        return LlamaText(*_trimmed(self.values, str.lstrip))

    def trim_end(self) -> LlamaText:
        return LlamaText(*reversed(_trimmed(self.values[::-1], str.rstrip)))

    def includes(self, other: LlamaTextInput) -> bool:
        """Whether `other` occurs in this text, in the same kinds of text.

        >>> text = LlamaText("a", SpecialTokensText("<b>"), "cd")
        >>> text.includes(LlamaText(SpecialTokensText("b>"), "c")), text.includes("<b>")
        (True, False)
        """
        wanted = LlamaText(other).values
        if len(wanted) < 2:
            return not wanted or any(_contains(value, wanted[0]) for value in self.values)
        starts = range(len(self.values) - len(wanted) + 1)
        return any(_matches(self.values[start : start + len(wanted)], wanted) for start in starts)

    def to_json(self) -> LlamaTextJSON:
        """A plain string for plain content, else a list of strings and typed objects."""
        if not self.values:
            return ""
        if len(self.values) == 1 and isinstance(self.values[0], str):
            return self.values[0]
        return [value if isinstance(value, str) else value.to_json() for value in self.values]

    @staticmethod
    def from_json(json: LlamaTextJSON | LlamaText) -> LlamaText:
        """The text that `to_json` (or node-llama-cpp) wrote. Raises `HistoryError`."""
        if isinstance(json, LlamaText):
            return json
        if isinstance(json, str):
            return LlamaText(json)
        if not isinstance(json, Sequence):
            kind = type(json).__name__
            raise HistoryError.of("text", f"a {kind}, not a text.", "Give a string or a list of text values.")
        faults = [
            _value_fault(value, index) for index, value in enumerate(json) if _read_value(value) is None
        ]
        if faults:
            raise HistoryError(faults)
        return LlamaText(*(_read_value(value) or "" for value in json))

    @staticmethod
    def from_tokens(tokenizer: Tokenizer, token_ids: Iterable[int]) -> LlamaText:
        """The text whose encoding is `token_ids`: special tokens as control text, the rest as content.

        A role stands for its token, but ``BOS`` only where the vocabulary wants one: elsewhere encoding
        would leave it out. Bytes that aren't UTF-8 become U+FFFD. Special tokens without a text are skipped.
        The space that SPM vocabularies put before a text is theirs, and left out: ids that lack it there
        have no text of their own.
        """
        padding = b" " if _pads_texts(tokenizer) else b""
        skipped = {"NL"} if tokenizer.adds_bos else {"NL", "BOS"}
        roles = {
            token_id: SpecialToken(name)
            for name in reversed(SPECIAL_TOKEN_NAMES)
            if (token_id := tokenizer.role_id(name)) is not None and name not in skipped
        }
        values: list[LlamaTextInput] = []
        pending = bytearray()
        for token_id in token_ids:
            if token_id not in roles and token_id not in tokenizer.special_tokens:
                pending += tokenizer.piece(token_id)
                continue
            values.append(pending.removeprefix(padding).decode("utf-8", "replace"))
            pending.clear()
            role = roles.get(token_id)
            values.append(role or SpecialTokensText(tokenizer.special_tokens[token_id].text))
        values.append(pending.removeprefix(padding).decode("utf-8", "replace"))
        return LlamaText(*values)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return core_schema.no_info_plain_validator_function(
            _validated, serialization=core_schema.plain_serializer_function_ser_schema(cls.to_json)
        )


def control(text: str) -> LlamaText:
    """`text` as control text."""
    return LlamaText(SpecialTokensText(text))


def _pads_texts(tokenizer: Tokenizer) -> bool:
    """Whether a vocabulary puts a space before each text, as SPM's do (``add_space_prefix``)."""
    return b"".join(map(tokenizer.piece, tokenizer.tokenize("a"))) == b" a"


def _validated(value: Any) -> LlamaText:
    try:
        return LlamaText.from_json(value)
    except HistoryError as error:
        raise ValueError(str(error)) from None


def _values_of(values: Sequence[LlamaTextInput]) -> tuple[LlamaTextValue, ...]:
    """The values flattened, empty texts left out, neighbours of one kind joined."""
    if len(values) == 1 and type(values[0]) is LlamaText:
        return values[0].values
    flat: list[LlamaTextValue] = []
    _flatten(values, flat)
    squashed: list[LlamaTextValue] = []
    for kind, run in groupby(flat, type):
        if kind is str:
            squashed.append("".join(run))  # type: ignore[arg-type]
        elif kind is SpecialTokensText:
            first, *others = run
            squashed.append(SpecialTokensText("".join(map(str, (first, *others)))) if others else first)
        else:
            squashed += run
    return tuple(squashed)


def _flatten(values: Iterable[LlamaTextInput], flat: list[LlamaTextValue]) -> None:
    """Puts what texts there are in `values` into `flat`, texts as plain strings."""
    for value in values:
        kind = type(value)
        if kind is LlamaText:
            flat += value.values  # type: ignore[union-attr]
        elif kind is SpecialTokensText:
            if value.value:  # type: ignore[union-attr]
                flat.append(value)  # type: ignore[arg-type]
        elif kind is str:
            if value:
                flat.append(value)  # type: ignore[arg-type]
        else:
            _flatten_rare(value, flat)


def _flatten_rare(value: LlamaTextInput, flat: list[LlamaTextValue]) -> None:
    match value:
        case str():
            flat += [str(value)] if value else []
        case SpecialToken():
            flat.append(value)
        case bool():
            flat.append("true" if value else "false")
        case int() | float():
            flat.append(str(value))
        case Iterable() if not isinstance(value, bytes | dict):
            _flatten(value, flat)
        case _:
            raise HistoryError.of(
                "LlamaText",
                f"can't hold a {type(value).__name__}: {value!r}.",
                "Give strings or LlamaText.",
            )


def _joined(first: LlamaText, second: LlamaText) -> LlamaText:
    """Both texts in a row; only what meets is looked at."""
    if not first.values or not second.values:
        return first if first.values else second
    met = LlamaText(first.values[-1], second.values[0]).values
    joined = LlamaText()
    object.__setattr__(joined, "values", (*first.values[:-1], *met, *second.values[1:]))
    return joined


def _interleave(separator: LlamaTextInput, values: Iterable[LlamaTextInput]) -> LlamaText:
    joined: list[LlamaTextInput] = []
    for value in values:
        if joined:
            joined.append(separator)
        joined.append(value)
    return LlamaText(*joined)


def _trimmed(values: Sequence[LlamaTextValue], strip: Callable[[str], str]) -> list[LlamaTextValue]:
    for index, value in enumerate(values):
        if isinstance(value, SpecialToken):
            return list(values[index:])
        text = strip(str(value))
        if text:
            return [text if isinstance(value, str) else SpecialTokensText(text), *values[index + 1 :]]
    return []


def _contains(value: LlamaTextValue, wanted: LlamaTextValue) -> bool:
    if isinstance(wanted, SpecialToken) or isinstance(value, SpecialToken):
        return value == wanted
    return type(value) is type(wanted) and str(wanted) in str(value)


def _matches(values: Sequence[LlamaTextValue], wanted: Sequence[LlamaTextValue]) -> bool:
    """Whether `wanted` stands in `values`: a suffix of the first, a prefix of the last, all between."""
    first, last = (values[0], wanted[0]), (values[-1], wanted[-1])
    if any(type(a) is not type(b) for a, b in (first, last)) or values[1:-1] != wanted[1:-1]:
        return False
    return str(first[0]).endswith(str(first[1])) and str(last[0]).startswith(str(last[1]))


def _read_value(value: Any) -> LlamaTextValue | None:
    match value:
        case str() | SpecialTokensText() | SpecialToken():
            return value
        case {"type": "specialTokensText", "value": str(text)}:
            return SpecialTokensText(text)
        case {"type": "specialToken", "value": str(name)} if name in SPECIAL_TOKEN_NAMES:
            return SpecialToken(name)
    return None


def _value_fault(value: Any, index: int) -> Fault:
    return Fault(
        f"text[{index}]",
        f"{value!r} isn't a text value.",
        'Give a string, or {"type": T, "value": V} where T is "specialTokensText" or "specialToken".',
    )


def _show(value: LlamaTextValue) -> str:
    return repr(value) if isinstance(value, str) else f"{type(value).__name__}({value.value!r})"
