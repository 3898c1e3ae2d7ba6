from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from chatwrap import (
    Encoder,
    LlamaText,
    SpecialToken,
    encode,
    load_chat_wrapper,
)
from chatwrap.chat.text import SPECIAL_TOKEN_NAMES, control
from chatwrap.chat.tokenizer import SpecialTokenEntry
from chatwrap.engine.vocabulary import Vocabulary
from chatwrap.errors import ModelError, TextEncodingError

IM_START, IM_END = 1, 2


class BytesTokenizer:
    """A vocabulary of the bytes and a few special tokens, for rules that no real file shows alone."""

    def __init__(
        self, special: Mapping[int, SpecialTokenEntry], *, adds_bos: bool = False, **roles: int
    ) -> None:
        self.special_tokens = MappingProxyType(dict(special))
        self.adds_bos = adds_bos
        self._roles = roles

    def role_id(self, name: Any) -> int | None:
        return self._roles.get(name)

    def is_end_of_generation(self, token_id: int) -> bool:
        return False

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        return list(text.encode())

    def piece(self, token_id: int) -> bytes:
        return bytes([token_id])


def special(token_id: int, text: str, **flags: bool) -> dict[int, SpecialTokenEntry]:
    return {token_id: SpecialTokenEntry(token_id, text, **flags)}


class TestFacts:
    """Ids on SmolLM2's vocabulary, where pieces and whole prompts are known to differ."""

    def test_a_look_alike_in_content_is_text(self, smollm: Vocabulary) -> None:
        ids = [81, 44, 108, 306, 79, 486, 108, 46, 82]
        assert encode(LlamaText("a<|im_end|>b"), smollm) == ids

    def test_a_string_and_the_json_form_are_read_as_texts(self, smollm: Vocabulary) -> None:
        assert encode("a<|im_end|>b", smollm) == [81, 44, 108, 306, 79, 486, 108, 46, 82]
        assert encode([{"type": "specialTokensText", "value": "<|im_end|>"}], smollm) == [IM_END]

    def test_control_text_becomes_the_token(self, smollm: Vocabulary) -> None:
        assert encode(control("a<|im_end|>b"), smollm) == [81, IM_END, 82]

    def test_words_merge_across_control_text_and_content(self, smollm: Vocabulary) -> None:
        assert encode(LlamaText(control("x: "), "hello"), smollm) == [104, 42, 33662]

    def test_a_token_is_the_border_of_a_run(self, smollm: Vocabulary) -> None:
        text = LlamaText(control("<|im_start|>x: "), "hello", control("<|im_end|>"), "x: hello")
        assert encode(text, smollm) == [IM_START, 104, 42, 33662, IM_END, 104, 42, 33662]

    @pytest.mark.parametrize(
        "content", ["<|im_<|im_end|>end|>", "<|im_end|><|im_end|>", "<|im_end|>end|>", "<|im_end", "im_end|>"]
    )
    @pytest.mark.parametrize("before", ["", "<|im_", "<", "<|im_end|", "<|im_start|>"])
    @pytest.mark.parametrize("after", ["", "|>", ">", "_end|>", "<|im_end|>"])
    def test_nothing_that_content_has_a_share_in_is_a_token(
        self, smollm: Vocabulary, before: str, content: str, after: str
    ) -> None:
        ids = encode(LlamaText(control(before), content, control(after)), smollm)
        own = [IM_START] * (before == "<|im_start|>") + [IM_END] * (after == "<|im_end|>")
        assert [token_id for token_id in ids if token_id in smollm.special_tokens] == own


class TestEdges:
    def test_empty_texts(self, smollm: Vocabulary) -> None:
        assert encode(LlamaText(), smollm) == encode(LlamaText(""), smollm) == []

    @pytest.mark.parametrize("text", ["a\x00b", "\x00", "\x00<|im_end|>\x00", "\ufeff", "\u2028", "\x7f"])
    def test_odd_characters_are_kept(self, smollm: Vocabulary, text: str) -> None:
        ids = encode(LlamaText(text), smollm)
        assert b"".join(map(smollm.piece, ids)) == text.encode()

    @pytest.mark.parametrize("make", [LlamaText, control])
    def test_a_lone_surrogate_is_an_error(self, smollm: Vocabulary, make: Any) -> None:
        with pytest.raises(TextEncodingError) as caught:
            encode(make("Hi \ud83d there"), smollm)
        assert str(caught.value) == (
            "text[3]: lone surrogate U+D83D after 'Hi '. "
            "Replace it, for example with text.encode('utf-8', 'replace').decode()."
        )
        assert (caught.value.char_offset, caught.value.code_point) == (3, 0xD83D)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)

    @pytest.mark.parametrize("character", ["a", " ", "\n", "日"])
    def test_three_megabytes_of_one_character(self, smollm: Vocabulary, character: str) -> None:
        text = character * (3_000_000 // len(character.encode()))
        started = time.perf_counter()
        ids = encode(LlamaText(control("<|im_start|>user\n"), text, control("<|im_end|>\n")), smollm)
        assert time.perf_counter() - started < 30
        assert ids[0] == IM_START and ids[-2] == IM_END
        assert b"".join(map(smollm.piece, ids[1:-2])) == f"user\n{text}".encode()

    def test_three_megabytes_of_look_alikes(self, smollm: Vocabulary) -> None:
        ids = encode(LlamaText("<|im_end|>" * 300_000), smollm)
        assert not set(ids).intersection(smollm.special_tokens)

    def test_a_whole_prompt_of_roles(self, smollm: Vocabulary) -> None:
        text = LlamaText(SpecialToken("BOS"), "a", SpecialToken("EOS"), SpecialToken("SEP"))
        assert encode(text, smollm) == [81, IM_END]


class TestBos:
    """Exactly one BOS where the vocabulary wants one, else none, whoever wrote it."""

    BOS = BytesTokenizer(special(300, "<s>"), adds_bos=True, BOS=300)

    @pytest.mark.parametrize(
        "start",
        [
            LlamaText(),
            LlamaText(SpecialToken("BOS")),
            control("<s>"),
            control("<s><s>"),
            LlamaText(SpecialToken("BOS"), control("<s>")),
            LlamaText(control("<s>"), SpecialToken("BOS")),
        ],
        ids=repr,
    )
    def test_one_however_it_is_written(self, start: LlamaText) -> None:
        assert encode(start + "a", self.BOS) == [300, 97]

    def test_content_never_counts_as_one(self) -> None:
        assert encode(LlamaText("<s>a"), self.BOS) == [300, *b"<s>a"]

    def test_later_ones_stay(self) -> None:
        text = LlamaText("a", SpecialToken("BOS"), control("<s>"), "b")
        assert encode(text, self.BOS) == [300, 97, 300, 300, 98]

    def test_a_prompt_without_text_is_a_bos(self) -> None:
        assert encode(LlamaText(), self.BOS) == [300]

    def test_none_where_the_vocabulary_wants_none(self) -> None:
        tokenizer = BytesTokenizer(special(300, "<s>"), BOS=300)
        assert encode(LlamaText(SpecialToken("BOS"), "a"), tokenizer) == [97]
        assert encode(LlamaText(control("<s>"), "a"), tokenizer) == [300, 97]

    def test_a_vocabulary_without_bos(self) -> None:
        assert encode(LlamaText(SpecialToken("BOS"), "a"), BytesTokenizer({}, adds_bos=True)) == [97]

    def test_on_real_vocabularies(self, vocabulary: Vocabulary) -> None:
        bos = vocabulary.role_id("BOS")
        ids = encode(LlamaText(SpecialToken("BOS"), "Hello"), vocabulary)
        assert ids.count(bos) == (1 if vocabulary.adds_bos else 0)
        assert encode(LlamaText("Hello"), vocabulary) == ids


class TestRules:
    def test_white_space_that_a_token_strips_goes(self) -> None:
        tokens = special(300, "<r>", strips_right=True) | special(301, "<l>", strips_left=True)
        text = LlamaText("a ", control("<r>"), " \n b \t", control("<l>"), " c")
        assert encode(text, BytesTokenizer(tokens)) == [*b"a ", 300, 98, 301, *b" c"]

    def test_a_role_that_the_vocabulary_lacks_leaves_no_trace(self, vocabulary: Vocabulary) -> None:
        lacking = [name for name in SPECIAL_TOKEN_NAMES if vocabulary.role_id(name) is None]
        text = LlamaText("a", [SpecialToken(name) for name in lacking], "b")
        assert encode(text, vocabulary) == encode(LlamaText("ab"), vocabulary)

    def test_the_longest_token_wins(self) -> None:
        tokens = special(300, "<a>") | special(301, "<a><b>") | special(302, "<b>")
        assert encode(control("<a><a><b><b>"), BytesTokenizer(tokens)) == [300, 301, 302]

    def test_user_defined_white_space_and_letters_are_no_markers(self) -> None:
        tokens = special(300, "\n\n", user_defined=True) | special(301, "õ", user_defined=True)
        tokenizer = BytesTokenizer(tokens)
        encoder = Encoder(tokenizer, ["\n\n", "õ"])
        assert encoder.encode(LlamaText("a\n\nõ")) == list("a\n\nõ".encode())

    def test_all_formats_can_be_told_of_markers_at_once(self, vocabulary: Vocabulary) -> None:
        encoder = Encoder(vocabulary, load_chat_wrapper("gemma").control_texts)
        assert encoder.encode(LlamaText("Hi")) == encode(LlamaText("Hi"), vocabulary)

    def test_a_control_token_of_one_character_is_refused_in_content(self) -> None:
        tokenizer = BytesTokenizer(special(97, "a"))
        assert encode(control("a"), tokenizer) == [97]
        with pytest.raises(ModelError) as caught:
            encode(LlamaText("b a"), tokenizer)
        assert str(caught.value) == (
            "text: this vocabulary writes 'a' only as a control token. "
            "Replace it, since content can't hold one."
        )
