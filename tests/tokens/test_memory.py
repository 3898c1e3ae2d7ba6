"""Law of increments: whatever was encoded before, the ids are those of encoding everything."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatwrap import LlamaText, SpecialToken, SpecialTokensText
from chatwrap.chat.text import LlamaTextValue, control
from chatwrap.chat.tokenizer import SpecialTokenEntry
from chatwrap.engine.vocabulary import Vocabulary
from chatwrap.tokens.encode import Encoder
from chatwrap.tokens.memory import Memory
from tests.tokens.look_alikes import harmless, look_alike
from tests.tokens.test_encode import BytesTokenizer, special
from tests.tokens.test_laws import Specials

SMALL = 20_000


def values(rnd: random.Random, specials: Specials, n_values: int) -> list[LlamaTextValue]:
    """Control text with special tokens anywhere in it, content that may look like them, and roles."""
    texts = (*specials.texts, "user\n", " ", "\n", "x: ")
    made: list[LlamaTextValue] = []
    for _ in range(n_values):
        kind = rnd.randrange(8)
        if kind == 0:
            made.append(SpecialToken(rnd.choice(("BOS", "EOS", "NL"))))
        elif kind < 4:
            made.append(SpecialTokensText("".join(rnd.choices(texts, k=rnd.randint(1, 3)))))
        else:
            made.append(rnd.choice((harmless, look_alike))(rnd, specials.texts))
    return made


def fresh(text: LlamaText, vocabulary: Vocabulary, formats: list[str]) -> list[int]:
    return Encoder(vocabulary, formats, Memory()).encode(text)


def test_turns_and_branches_on_every_vocabulary(vocabulary: Vocabulary, vocabulary_name: str) -> None:
    rnd, specials = random.Random(vocabulary_name), Specials.of(vocabulary)
    formats = list(specials.markers[:2])
    memories = [Memory(), Memory(SMALL)]
    encoders = [Encoder(vocabulary, formats, memory) for memory in memories]
    so_far: list[LlamaTextValue] = []
    for _ in range(40):
        if rnd.random() < 0.2:
            so_far = so_far[: rnd.randint(0, len(so_far))]
        so_far = so_far + values(rnd, specials, rnd.randint(1, 4))
        prompt = LlamaText(so_far, values(rnd, specials, 1))
        expected = fresh(prompt, vocabulary, formats)
        for encoder in encoders:
            assert encoder.encode(prompt) == expected, repr(prompt)


_PIECES = st.sampled_from(("<|im_start|>", "<|im_end|>", "user\n", " ", "a", "<|im_", "end|>", "7"))
_VALUES = st.lists(_PIECES.map(SpecialTokensText) | _PIECES | st.just(SpecialToken("EOS")), max_size=8)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(prompts=st.lists(_VALUES, max_size=6))
def test_any_prompts_one_after_another(smollm: Vocabulary, prompts: list[list[LlamaTextValue]]) -> None:
    encoder = Encoder(smollm, (), Memory(SMALL))
    for index, prompt in enumerate(prompts):
        for text in (LlamaText(prompt), LlamaText(prompts[: index + 1])):
            assert encoder.encode(text) == fresh(text, smollm, [])


class CountingTokenizer(BytesTokenizer):
    """Says what it was asked to tokenize."""

    def __init__(self, tokens: dict[int, SpecialTokenEntry]) -> None:
        super().__init__(tokens)
        self.asked: list[str] = []

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        self.asked.append(text)
        return super().tokenize(text, special=special)


TURN = "<a>"


def turns(n_turns: int, word: str = "said") -> LlamaText:
    return LlamaText([[control(f"{TURN}user "), f"{word} {n}", control(TURN)] for n in range(n_turns)])


class TestWhatIsEncoded:
    TOKENS = special(300, TURN)

    def test_a_turn_asks_for_what_is_new(self) -> None:
        tokenizer = CountingTokenizer(self.TOKENS)
        encoder = Encoder(tokenizer)
        encoder.encode(turns(50))
        tokenizer.asked.clear()
        assert encoder.encode(turns(51)) == Encoder(tokenizer, (), Memory()).encode(turns(51))
        assert tokenizer.asked[0] == "user said 50"

    def test_encoders_of_a_vocabulary_share_what_they_know(self) -> None:
        tokenizer = CountingTokenizer(self.TOKENS)
        Encoder(tokenizer).encode(turns(3))
        tokenizer.asked.clear()
        Encoder(tokenizer, ["another format"]).encode(turns(3))
        assert tokenizer.asked == []

    def test_a_format_that_uses_a_marker_breaks_it_up_again(self) -> None:
        tokenizer = CountingTokenizer(self.TOKENS | special(301, "<m>", user_defined=True))
        text = LlamaText(control(TURN), "a<m>b", control(TURN))
        tokenizer.asked.clear()
        Encoder(tokenizer).encode(text)
        Encoder(tokenizer, ["<m>"]).encode(text)
        assert tokenizer.asked == ["a<m>b", "a<", "\n", "\nm>b"]

    def test_a_marker_that_comes_later_changes_what_was_before(self) -> None:
        tokens = self.TOKENS | special(301, "<m>", user_defined=True)
        encoder, start = Encoder(BytesTokenizer(tokens)), LlamaText(control(TURN), "a<m>b", control(TURN))
        encoder.encode(start)
        later = LlamaText(start, control("<m>"))
        assert encoder.encode(later) == Encoder(BytesTokenizer(tokens), (), Memory()).encode(later)

    def test_the_caller_may_change_what_it_was_given(self, smollm: Vocabulary) -> None:
        encoder, text = Encoder(smollm, (), Memory()), LlamaText(control("<|im_start|>user\n"), "Hi")
        ids = encoder.encode(text)
        ids.clear()
        assert encoder.encode(text) == [1, 4093, 198, 26843]


class TestBounds:
    @pytest.mark.parametrize("n_bytes", [0, 1_000, 50_000, 1_000_000])
    def test_memory_stays_within_its_bytes(self, n_bytes: int) -> None:
        tokenizer, memory = BytesTokenizer(special(300, TURN)), Memory(n_bytes)
        for n in range(300):
            Encoder(tokenizer, (), memory).encode(turns(n % 7, f"{n} " * (n % 50)))
            kept = (memory._runs, memory._prompts)
            sizes = [sum(size for _, size in part._values.values()) for part in kept]
            assert [part._room + size for part, size in zip(kept, sizes, strict=True)] == [n_bytes // 2] * 2
            assert all(part._room >= 0 for part in kept)

    def test_a_conversation_is_kept_once(self) -> None:
        tokenizer, memory = BytesTokenizer(special(300, TURN)), Memory()
        for n in range(1, 40):
            Encoder(tokenizer, (), memory).encode(turns(n))
        assert len(memory._prompts._values) == 1

    def test_threads_encode_the_same(self, smollm: Vocabulary) -> None:
        encoder = Encoder(smollm, (), Memory(SMALL))
        texts = [
            LlamaText([[control("<|im_start|>"), f"{who} {n}"] for n in range(length)])
            for who in ("one", "two")
            for length in range(1, 60, 3)
        ] * 3
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(encoder.encode, texts)) == [fresh(text, smollm, []) for text in texts]
