"""A chat format's special tokens in a grammar: each stands as one character that is no text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from weakref import WeakKeyDictionary

from chatwrap.chat.tokenizer import SpecialTokenEntry
from chatwrap.engine.vocabulary import Vocabulary
from chatwrap.errors import GrammarError
from chatwrap.grammar.marks import Marks

# The control characters that aren't white space: no text of a chat needs one, JSON strings have none.
_RESERVED: Final = ((1, 8), (11, 12), (14, 31))
_STAND_INS: Final = tuple(chr(code) for low, high in _RESERVED for code in range(low, high + 1))


class TokenMarks:
    """Writes control text for a grammar of one vocabulary, and keeps which token stands where.

    A grammar of llama.cpp knows a special token only by its text: where ``<tool_call>`` may come, so may
    its spelling in ordinary tokens, and where any text may come, so may the token. So each special token
    of the format becomes a control character, and `stand_ins` maps its id to the id of that character's
    own token, which answers for it in llama.cpp. Tokens that end an answer aren't written: llama.cpp
    lets them come where a grammar is complete.
    """

    def __init__(self, vocabulary: Vocabulary, stops: Iterable[str] = ()) -> None:
        self._vocabulary = vocabulary
        self._free = iter(self._available())
        self._characters: dict[int, str] = {}
        self.stand_ins: dict[int, int] = {}
        ends = [entry.text for entry in self._entries() if self._ends_answer(entry)]
        self.marks = Marks(self.spell, _RESERVED, tuple(dict.fromkeys(filter(None, (*ends, *stops)))))

    def spell(self, text: str) -> str:
        """Control text with its special tokens as their stand-ins.

        Raises `GrammarError` if the vocabulary has no stand-ins left.
        """
        written, rest = "", text
        for token_id in self._vocabulary.tokenize(text, special=True):
            entry = self._vocabulary.special_tokens.get(token_id)
            if entry is None or not _is_marker(entry) or entry.text not in rest:
                continue
            before, _, rest = rest.partition(entry.text)
            written += before + ("" if self._ends_answer(entry) else self._character(entry))
        return written + rest

    def _entries(self) -> Iterator[SpecialTokenEntry]:
        yield from self._vocabulary.special_tokens.values()

    def _ends_answer(self, entry: SpecialTokenEntry) -> bool:
        return self._vocabulary.is_end_of_generation(entry.token_id)

    def _character(self, entry: SpecialTokenEntry) -> str:
        if entry.token_id not in self._characters:
            found = next(self._free, None)
            if found is None:
                remedy = "Use a model whose vocabulary has a token for each byte."
                raise GrammarError.of("grammar", f"no stand-in is left for the token {entry.text!r}.", remedy)
            self._characters[entry.token_id], self.stand_ins[entry.token_id] = found
        return self._characters[entry.token_id]

    def _available(self) -> Iterator[tuple[str, int]]:
        """The reserved characters that are tokens of their own, with their ids."""
        for character in _STAND_INS:
            found = self._vocabulary.tokenize(character)[-1:]
            if found and self._vocabulary.piece(found[0]) == character.encode():
                yield character, found[0]


def _is_marker(entry: SpecialTokenEntry) -> bool:
    """False for user-defined entries that are ordinary text: runs of white space, single characters."""
    return bool(entry.text) and (not entry.user_defined or (len(entry.text) > 1 and not entry.text.isspace()))


_reserved_ids: WeakKeyDictionary[Vocabulary, frozenset[int]] = WeakKeyDictionary()


def reserved_ids(vocabulary: Vocabulary) -> frozenset[int]:
    """The tokens whose text has a reserved character; none may be sampled where those stand for tokens.

    Costs one pass over a vocabulary, once.
    """
    if vocabulary not in _reserved_ids:
        characters = frozenset("".join(_STAND_INS).encode())
        _reserved_ids[vocabulary] = frozenset(
            token_id
            for token_id in range(vocabulary.n_tokens)
            if not characters.isdisjoint(vocabulary.piece(token_id))
        )
    return _reserved_ids[vocabulary]
