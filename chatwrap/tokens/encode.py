r"""Text to token ids, exact and proof against injection.

Law of exactness: if no content holds the text of a special token, then

    encode(text, tokenizer) == the ids of the whole prompt string, special tokens on

Law of safety: no id of a control token, nor of a user-defined token that the format's own control
text uses, ever comes from content.

Both follow from where the text is cut: only at special tokens that stand in control text.
Everything between two of them is one run, tokenized as a whole with special tokens off. Cutting a run
where control text meets content would change ids: ``"x: "`` and ``"hello"`` apart give other tokens
than ``"x: hello"``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, Protocol, runtime_checkable

from chatwrap.chat.text import LlamaText, LlamaTextJSON, LlamaTextValue, SpecialToken, SpecialTokensText
from chatwrap.chat.tokenizer import SpecialTokenEntry, Tokenizer
from chatwrap.errors import ModelError
from chatwrap.tokens.memory import Border, Memory, Prompt, memory_of, n_bytes_of
from chatwrap.tokens.special import ControlPiece, special_tokens_of

_ASCII_SPACE: Final = " \t\n\v\f\r"
_ANCHOR: Final = "\n"


@runtime_checkable
class PlainTokenizer(Protocol):
    """A vocabulary that can tell of a text that none of its ids is a control token's."""

    def plain_ids(self, text: str) -> list[int] | None:
        """The ids of `text`, special tokens off, none of them a control token; None if it isn't sure."""


def encode(
    text: LlamaText | LlamaTextJSON, tokenizer: Tokenizer, *, control_texts: Iterable[str] = ()
) -> list[int]:
    """The token ids of `text`, with exactly the BOS that the vocabulary wants.

    A plain string is content; the JSON form of a text is read, with `HistoryError` for its faults.
    `control_texts` are all texts that the format may write (`ChatWrapper.control_texts`): their
    user-defined markers are protected in content even if this prompt's control text lacks them.
    Raises `TextEncodingError` for a lone surrogate. Cost is linear in the text.
    """
    return Encoder(tokenizer, control_texts).encode(LlamaText.from_json(text))


class Encoder:
    """Encodes texts of one format for one vocabulary. Thread-safe, and cheap to make.

    Law of increments: what a text shares with one encoded before, up to a special token, isn't encoded
    again, nor is any run; the ids are those of encoding everything. A turn costs what is new in it, and
    comparing and copying. What is remembered is bounded by `memory`, the vocabulary's own if None.
    """

    def __init__(
        self, tokenizer: Tokenizer, control_texts: Iterable[str] = (), memory: Memory | None = None
    ) -> None:
        self._tokenizer = tokenizer
        self._special = special_tokens_of(tokenizer)
        self._markers = self._special.markers_in(frozenset(control_texts))
        self._memory = memory_of(tokenizer) if memory is None else memory
        self._plain = tokenizer.plain_ids if isinstance(tokenizer, PlainTokenizer) else None

    def encode(self, text: LlamaText) -> list[int]:
        """The token ids of `text`; see the function `encode`."""
        values = text.values
        markers = self._markers_of(values)
        base, n_borders = self._memory.longest_start(values, markers) or (None, 0)
        writing = _Writing(self, markers)
        if base is not None:
            writing.go_on(base, n_borders)
        new = values[writing.n_values :]
        writing.add_all(new)
        self._remember(values, writing, base, n_borders, new)
        return self._with_bos(writing.ids)

    def _markers_of(self, values: tuple[LlamaTextValue, ...]) -> frozenset[str]:
        """The markers to be broken up in content: the format's, and those of this text's control text."""
        if not self._special.markers:
            return self._markers
        used = frozenset(value.value for value in values if isinstance(value, SpecialTokensText))
        return self._markers | self._special.markers_in(used)

    def _remember(
        self,
        values: tuple[LlamaTextValue, ...],
        writing: _Writing,
        base: Prompt | None,
        n_borders: int,
        new: tuple[LlamaTextValue, ...],
    ) -> None:
        if len(writing.borders) <= n_borders:
            return
        n_known = base.borders[n_borders - 1].n_ids if base else 0
        n_bytes = n_bytes_of(new, len(writing.ids) - n_known) + (base.n_bytes if base else 0)
        prompt = Prompt(values, writing.markers, writing.ids, writing.borders, n_bytes)
        # A prompt's last text opens the answer, and may read otherwise once that is there.
        goes_on = base is not None and n_borders >= len(base.borders) - 1
        self._memory.remember(prompt, instead=base if goes_on else None)

    def run_ids(self, run: str, markers: frozenset[str]) -> Sequence[int]:
        """The ids of a run: none of them special, but for user-defined tokens that are plain text."""
        known = self._memory.run_ids(run, markers)
        if known is not None:
            return known
        ids: list[int] = []
        for index, piece in enumerate(_broken_at(run, markers)):
            ids += self._plain_ids(piece, continues=index > 0)
        self._memory.remember_run(run, markers, ids)
        return ids

    def cut(self, control_text: str) -> tuple[ControlPiece, ...]:
        """Control text cut at its special tokens."""
        return self._special.cut(control_text)

    def role_id(self, token: SpecialToken) -> int | None:
        return self._tokenizer.role_id(token.value)

    def _with_bos(self, ids: list[int]) -> list[int]:
        """`ids`, copied, with the one BOS that the vocabulary wants."""
        bos = self._tokenizer.role_id("BOS")
        if not self._tokenizer.adds_bos or bos is None:
            return ids.copy()
        n_written = next((n for n, token_id in enumerate(ids) if token_id != bos), len(ids))
        return [bos, *ids[n_written:]]

    def _plain_ids(self, text: str, *, continues: bool) -> list[int]:
        """The ids of a text without markers. Breaks it up wherever its letters merge into a control token.

        They can: SPM joins ``<``, ``s``, ``>`` to ``<s>``, and BPE may look up whole words.
        """
        if self._plain is not None and not continues and (plain := self._plain(text)) is not None:
            return plain
        ids = self._continuation_ids(text) if continues else self._tokenizer.tokenize(text)
        forged = self._special.control_ids.intersection(ids)
        if not forged:
            return ids
        if len(text) == 1:
            problem = f"text: this vocabulary writes {text!r} only as a control token."
            raise ModelError(f"{problem} Replace it, since content can't hold one.")
        look_alikes = frozenset(self._tokenizer.special_tokens[token_id].text for token_id in forged)
        pieces = _broken_at(text, look_alikes)
        if len(pieces) == 1:
            pieces = [text[: len(text) // 2], text[len(text) // 2 :]]
        safe = self._plain_ids(pieces[0], continues=continues)
        for piece in pieces[1:]:
            safe += self._plain_ids(piece, continues=True)
        return safe

    def _continuation_ids(self, text: str) -> list[int]:
        """The ids of a text that goes on after another, so without the space that SPM puts in front."""
        anchor = self._tokenizer.tokenize(_ANCHOR)
        ids = self._tokenizer.tokenize(_ANCHOR + text)
        return ids[len(anchor) :] if ids[: len(anchor)] == anchor else self._tokenizer.tokenize(text)


class _Writing:
    """A text on its way to ids: those written, and the run that is still open."""

    def __init__(self, encoder: Encoder, markers: frozenset[str]) -> None:
        self._encoder = encoder
        self.markers = markers
        self.ids: list[int] = []
        self.borders: list[Border] = []
        self.n_values = 0
        self._run: list[str] = []
        self._token: SpecialTokenEntry | None = None

    def go_on(self, prompt: Prompt, n_borders: int) -> None:
        """Begins where a border of another text is."""
        border = prompt.borders[n_borders - 1]
        self.ids, self.borders = prompt.ids[: border.n_ids], prompt.borders[:n_borders]
        self.n_values, self._token = border.n_values, border.token
        self._run = [border.rest]

    def add_all(self, values: Iterable[LlamaTextValue]) -> None:
        for value in values:
            self.n_values += 1
            match value:
                case str():
                    self._run.append(value)
                case SpecialToken():
                    self._add_role(value)
                case SpecialTokensText():
                    self._add_control(self._encoder.cut(value.value))
        self._close_run()

    def _add_control(self, pieces: tuple[ControlPiece, ...]) -> None:
        for piece in pieces:
            if isinstance(piece, str):
                self._run.append(piece)
            else:
                self._close_run(piece)
                self.ids.append(piece.token_id)
                self._token = piece
        if self._token is not None and self._token in pieces[-2:]:
            rest = "".join(self._run)
            self.borders.append(Border(self.n_values, len(self.ids), self._token, rest))

    def _add_role(self, token: SpecialToken) -> None:
        """A role that nobody has cuts nothing; a BOS at the start is put there at the end."""
        token_id = self._encoder.role_id(token)
        if token_id is None:
            return
        self._close_run()
        self._token = None
        if self.ids or token.value != "BOS":
            self.ids.append(token_id)

    def _close_run(self, following: SpecialTokenEntry | None = None) -> None:
        """Writes the open run, without the white space that special tokens beside it swallow (Phi-3's do)."""
        run = "".join(self._run)
        self._run.clear()
        if self._token is not None and self._token.strips_right:
            run = run.lstrip(_ASCII_SPACE)
        if following is not None and following.strips_left:
            run = run.rstrip(_ASCII_SPACE)
        if run:
            self.ids += self._encoder.run_ids(run, self.markers)


def _broken_at(text: str, look_alikes: frozenset[str]) -> list[str]:
    """`text` cut behind the first character of each place where a look-alike stands, overlaps included."""
    present = [look_alike for look_alike in look_alikes if look_alike in text]
    if not present:
        return [text]
    pattern = re.compile("(?=" + "|".join(map(re.escape, present)) + ")")
    cuts = [match.start() + 1 for match in pattern.finditer(text)]
    return [text[start:end] for start, end in pairwise([0, *cuts, len(text)]) if end > start]
