"""Where a model's turn ends: stop triggers over token ids and over text."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from chatwrap.chat.text import LlamaText, SpecialToken, SpecialTokensText
from chatwrap.chat.tokenizer import SpecialTokenEntry, Tokenizer
from chatwrap.errors import OptionError, TextEncodingError

StopReason: TypeAlias = Literal["end_of_generation", "stop_trigger", "stop_string", "function_call"]


@dataclass(frozen=True, slots=True)
class Stop:
    """What ended a turn.

    `reason` tells a token of the vocabulary's end-of-generation set from a trigger of the chat
    format and from a string the caller gave; ``function_call`` is one after which nothing else is
    waited for. `text` is the trigger as text. `token_id` is the token that ended the turn, None where
    text did.
    """

    reason: StopReason
    text: str
    token_id: int | None = None


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Bytes, then at most one token id: a trigger ends with its first special token."""

    text: bytes
    token_id: int | None
    stop: Stop

    @property
    def symbols(self) -> Iterator[int]:
        yield from self.text
        if self.token_id is not None:
            yield _token_symbol(self.token_id)


@dataclass(slots=True)
class _Node:
    """A state of the Aho-Corasick automaton: how much of some pattern has just been read."""

    depth: int = 0
    following: dict[int, _Node] = field(default_factory=dict)
    fallback: _Node | None = None
    longest: _Pattern | None = None


class StopDetector:
    """Finds where a turn ends in a stream of token ids, and releases the bytes before that place.

    `triggers` are the chat format's, `stop_strings` the caller's: their union counts; what is empty
    or comes twice is dropped. A special token in a trigger's control text, or a role (EOS, EOT, ...),
    matches by id, and what the trigger has after it doesn't matter. All else matches as bytes, so a
    trigger may be spread over tokens and over the bytes of a character. A caller's string matches
    both ways. End-of-generation tokens stop always. Other control tokens give no bytes, and no text
    trigger reaches over them.

    Laws: the stop with the smallest end wins, of those the one with the smallest start; how bytes
    are cut into tokens changes nothing; the bytes released, joined, are those before the stop; bytes
    are held back only while they are the beginning of a trigger. Cost: linear in the bytes fed, once
    linear in the triggers.
    """

    def __init__(
        self, triggers: Iterable[LlamaText], tokenizer: Tokenizer, stop_strings: Iterable[str] = ()
    ) -> None:
        self._tokenizer = tokenizer
        self._root = _Node()
        self._node = self._root
        self._held = bytearray()
        self._stop: Stop | None = None
        for pattern in _patterns(triggers, tokenizer, stop_strings):
            self._add(pattern)
        self._link()

    @property
    def stop(self) -> Stop | None:
        """What ended the turn, None while it goes on."""
        return self._stop

    def feed(self, token_id: int) -> bytes:
        """The bytes that are certain to stand before the stop after one more token; none after it."""
        if self._stop:
            return b""
        entry = self._tokenizer.special_tokens.get(token_id)
        if self._tokenizer.is_end_of_generation(token_id):
            return self._end_by_token(token_id, entry)
        if entry is None or entry.user_defined:
            return self._feed_bytes(self._tokenizer.piece(token_id))
        self._advance(_token_symbol(token_id))
        return self._end(self._node.longest) if self._node.longest else self._release()

    def flush(self) -> bytes:
        """The bytes still held back, for when no token follows."""
        held = bytes(self._held)
        self._held.clear()
        self._node = self._root
        return held

    def _feed_bytes(self, piece: bytes) -> bytes:
        for offset, byte in enumerate(piece, 1):
            self._advance(byte)
            if self._node.longest:
                self._held += piece[:offset]
                return self._end(self._node.longest)
        self._held += piece
        return self._release()

    def _end_by_token(self, token_id: int, entry: SpecialTokenEntry | None) -> bytes:
        """An end-of-generation token ends the turn, with the text before it if a trigger has that."""
        self._advance(_token_symbol(token_id))
        if self._node.longest:
            return self._end(self._node.longest)
        text = entry.text if entry else self._tokenizer.piece(token_id).decode("utf-8", "replace")
        return self._end(_Pattern(b"", token_id, Stop("end_of_generation", text, token_id)))

    def _end(self, pattern: _Pattern) -> bytes:
        self._stop = pattern.stop
        released = bytes(self._held[: len(self._held) - len(pattern.text)])
        self._held.clear()
        return released

    def _release(self) -> bytes:
        """All held bytes but those that the automaton is in the middle of."""
        n_released = len(self._held) - self._node.depth
        released = bytes(self._held[:n_released])
        del self._held[:n_released]
        return released

    def _advance(self, symbol: int) -> None:
        node: _Node | None = self._node
        while node is not None and symbol not in node.following:
            node = node.fallback
        self._node = self._root if node is None else node.following[symbol]

    def _add(self, pattern: _Pattern) -> None:
        node = self._root
        for symbol in pattern.symbols:
            node = node.following.setdefault(symbol, _Node(node.depth + 1))
        node.longest = node.longest or pattern

    def _link(self) -> None:
        """Gives each node the longest proper suffix of its text that begins a pattern."""
        pending = deque([self._root])
        while pending:
            parent = pending.popleft()
            for symbol, node in parent.following.items():
                fallback = parent.fallback
                while fallback is not None and symbol not in fallback.following:
                    fallback = fallback.fallback
                node.fallback = fallback.following[symbol] if fallback else self._root
                node.longest = node.longest or node.fallback.longest
                pending.append(node)


def _token_symbol(token_id: int) -> int:
    return 256 + token_id


def _patterns(
    triggers: Iterable[LlamaText], tokenizer: Tokenizer, stop_strings: Iterable[str]
) -> Iterator[_Pattern]:
    for trigger in triggers:
        yield from _pattern(trigger, tokenizer, "stop_trigger")
    for text in stop_strings:
        if not isinstance(text, str):
            raise OptionError.of("stop", f"must hold strings, not {text!r}.")
        yield from _pattern(LlamaText(text), tokenizer, "stop_string")
        yield from _pattern(LlamaText(SpecialTokensText(text)), tokenizer, "stop_string")


def _pattern(trigger: LlamaText, tokenizer: Tokenizer, reason: StopReason) -> Iterator[_Pattern]:
    """The trigger as a pattern; none if it is empty or made of roles the vocabulary lacks."""
    before = bytearray()
    text = str(trigger)
    for value in trigger.values:
        piece, token_id, ends = _resolved(value, tokenizer)
        before += piece
        if ends:
            shown = text if token_id is None else _shown(before, token_id, tokenizer)
            yield _Pattern(bytes(before), token_id, Stop(reason, shown, token_id))
            return
    if before:
        yield _Pattern(bytes(before), None, Stop(reason, text))


def _resolved(
    value: str | SpecialTokensText | SpecialToken, tokenizer: Tokenizer
) -> tuple[bytes, int | None, bool]:
    """A value's bytes, the special token that follows them, and whether the trigger ends there."""
    match value:
        case str():
            return _utf8(value), None, False
        case SpecialToken():
            token_id = tokenizer.role_id(value.value)
            if token_id is None:
                return b"", None, False
            if value.value == "NL" and token_id not in tokenizer.special_tokens:
                return tokenizer.piece(token_id), None, False
            return b"", token_id, True
        case SpecialTokensText():
            return _cut_at_marker(value.value, tokenizer)


def _cut_at_marker(text: str, tokenizer: Tokenizer) -> tuple[bytes, int | None, bool]:
    """Control text up to its first special token. User-defined tokens are text to the detector."""
    _utf8(text)
    for token_id in tokenizer.tokenize(text, special=True):
        entry = tokenizer.special_tokens.get(token_id)
        if entry is None or not _is_marker(entry) or not entry.text:
            continue
        before, found, _ = text.partition(entry.text)
        if found and entry.user_defined:
            return _utf8(before + found), None, True
        if found:
            return _utf8(before), token_id, True
    return _utf8(text), None, False


def _is_marker(entry: SpecialTokenEntry) -> bool:
    """False for user-defined entries that are ordinary text: runs of white space, single characters."""
    return not entry.user_defined or (len(entry.text) > 1 and not entry.text.isspace())


def _shown(before: bytearray, token_id: int, tokenizer: Tokenizer) -> str:
    entry = tokenizer.special_tokens.get(token_id)
    marker = entry.text if entry else tokenizer.piece(token_id).decode("utf-8", "replace")
    return before.decode("utf-8") + marker


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TextEncodingError(text, error.start) from None
