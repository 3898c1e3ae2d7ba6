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
from typing import Final, TypeAlias

from chatwrap.chat.text import LlamaText, LlamaTextJSON, SpecialToken, SpecialTokensText
from chatwrap.chat.tokenizer import SpecialTokenEntry, Tokenizer
from chatwrap.errors import ModelError
from chatwrap.tokens.special import special_tokens_of

_ASCII_SPACE: Final = " \t\n\v\f\r"
_ANCHOR: Final = "\n"

_Fragment: TypeAlias = str | SpecialTokenEntry | SpecialToken


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
    """Encodes texts of one format for one vocabulary. Thread-safe, and cheap to make."""

    def __init__(self, tokenizer: Tokenizer, control_texts: Iterable[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._special = special_tokens_of(tokenizer)
        self._markers = self._special.markers_in(control_texts)

    def encode(self, text: LlamaText) -> list[int]:
        """The token ids of `text`; see the function `encode`."""
        markers = self._markers | self._special.markers_in(
            value.value for value in text.values if isinstance(value, SpecialTokensText)
        )
        fragments = self._without_stripped_space(list(self._fragments(text)))
        ids: list[int] = []
        for fragment in fragments:
            match fragment:
                case str():
                    ids += self._run_ids(fragment, markers)
                case SpecialTokenEntry():
                    ids.append(fragment.token_id)
                case SpecialToken():
                    ids += self._role_ids(fragment, at_start=not ids)
        return self._with_bos(ids)

    def _fragments(self, text: LlamaText) -> Iterable[_Fragment]:
        """Special tokens of control text, and the runs between them. A role that nobody has cuts nothing."""
        run: list[str] = []
        for value in text.values:
            if isinstance(value, str):
                run.append(value)
                continue
            if isinstance(value, SpecialToken) and self._tokenizer.role_id(value.value) is None:
                continue
            pieces = self._special.cut(value.value) if isinstance(value, SpecialTokensText) else (value,)
            for piece in pieces:
                if isinstance(piece, str):
                    run.append(piece)
                    continue
                if run:
                    yield "".join(run)
                    run.clear()
                yield piece
        if run:
            yield "".join(run)

    @staticmethod
    def _without_stripped_space(fragments: list[_Fragment]) -> Sequence[_Fragment]:
        """Drops the white space that special tokens swallow on their sides (as Phi-3's do)."""
        for index in range(len(fragments) - 1):
            left, right = fragments[index : index + 2]
            if isinstance(left, SpecialTokenEntry) and left.strips_right and isinstance(right, str):
                fragments[index + 1] = right.lstrip(_ASCII_SPACE)
            elif isinstance(right, SpecialTokenEntry) and right.strips_left and isinstance(left, str):
                fragments[index] = left.rstrip(_ASCII_SPACE)
        return fragments

    def _role_ids(self, token: SpecialToken, *, at_start: bool) -> tuple[int, ...]:
        token_id = self._tokenizer.role_id(token.value)
        if token_id is None or (at_start and token.value == "BOS"):
            return ()
        return (token_id,)

    def _with_bos(self, ids: list[int]) -> list[int]:
        bos = self._tokenizer.role_id("BOS")
        if not self._tokenizer.adds_bos or bos is None:
            return ids
        n_written = next((n for n, token_id in enumerate(ids) if token_id != bos), len(ids))
        return [bos, *ids[n_written:]]

    def _run_ids(self, run: str, markers: frozenset[str]) -> list[int]:
        """The ids of a run: none of them special, but for user-defined tokens that are plain text."""
        ids: list[int] = []
        for index, piece in enumerate(_broken_at(run, markers)):
            ids += self._plain_ids(piece, continues=index > 0)
        return ids

    def _plain_ids(self, text: str, *, continues: bool) -> list[int]:
        """The ids of a text without markers. Breaks it up wherever its letters merge into a control token.

        They can: SPM joins ``<``, ``s``, ``>`` to ``<s>``, and BPE may look up whole words.
        """
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


def _broken_at(text: str, look_alikes: frozenset[str]) -> list[str]:
    """`text` cut behind the first character of each place where a look-alike stands, overlaps included."""
    present = [look_alike for look_alike in look_alikes if look_alike in text]
    if not present:
        return [text]
    pattern = re.compile("(?=" + "|".join(map(re.escape, present)) + ")")
    cuts = [match.start() + 1 for match in pattern.finditer(text)]
    return [text[start:end] for start, end in pairwise([0, *cuts, len(text)]) if end > start]
