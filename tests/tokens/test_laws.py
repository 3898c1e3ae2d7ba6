"""The laws of exactness and of safety, on SmolLM2's vocabulary and on each of llama.cpp's."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from chatwrap import LlamaText, SpecialToken, SpecialTokensText, encode
from chatwrap.chat.text import control
from chatwrap.chat.tokenizer import SpecialTokenEntry
from chatwrap.engine.vocabulary import Vocabulary
from chatwrap.tokens.encode import Encoder
from tests.sources import VOCABULARY_NAMES
from tests.tokens.look_alikes import FOREIGN, WORDS, harmless, look_alike

N_LOOK_ALIKES = 550
N_EXACT = 250
WITH_MARKERS = (
    *(
        "command-r",
        "deepseek-coder",
        "deepseek-llm",
        "gemma-4",
        "gpt-neox",
        "mpt",
        "qwen2",
        "qwen35",
    ),
    "refact",
)
OTHERS = ("baichuan", "bert-bge", "gemma-4", "llama-spm", "nomic-bert-moe", "phi-3")
"""These normalize text or put a space in front; the others keep every byte."""
BYTE_LEVEL = tuple(name for name in VOCABULARY_NAMES if name not in OTHERS)


@dataclass(frozen=True)
class Specials:
    """The special tokens of a vocabulary, as the tests see them."""

    control_ids: frozenset[int]
    control: tuple[str, ...]
    markers: tuple[str, ...]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Specials:
        entries = [entry for entry in vocabulary.special_tokens.values() if entry.text]
        controls = [entry for entry in entries if not entry.user_defined and not entry.unknown]
        markers = tuple(entry.text for entry in entries if is_marker(entry))
        control_ids = frozenset(entry.token_id for entry in controls)
        return cls(control_ids, tuple(entry.text for entry in controls), markers)

    @property
    def texts(self) -> tuple[str, ...]:
        return (*self.control, *self.markers)


def is_marker(entry: SpecialTokenEntry) -> bool:
    """Whether a user-defined token is more than a character or white space, which are plain text."""
    return entry.user_defined and len(entry.text) > 1 and bool(entry.text.strip())


def whole_prompt(text: LlamaText, vocabulary: Vocabulary) -> list[int]:
    """The ids of the whole prompt string, special tokens on, with the BOS that the vocabulary wants."""
    return with_bos(vocabulary.tokenize(str(text), special=True), vocabulary)


def with_bos(ids: list[int], vocabulary: Vocabulary) -> list[int]:
    bos = vocabulary.role_id("BOS")
    if not vocabulary.adds_bos or bos is None:
        return ids
    while ids[:1] == [bos]:
        ids = ids[1:]
    return [bos, *ids]


def content_spans(text: LlamaText) -> Iterator[tuple[int, int]]:
    """Where content stands in ``str(text)``."""
    ends = accumulate(len(str(value)) for value in text.values)
    for value, end in zip(text.values, ends, strict=True):
        if isinstance(value, str):
            yield end - len(value), end


def touches_content(text: LlamaText, specials: Specials) -> bool:
    """Whether any special token's text stands in the prompt, wholly or partly in content."""
    prompt = str(text)
    spans = list(content_spans(text))
    for special in filter(prompt.__contains__, specials.texts):
        for match in re.finditer(f"(?={re.escape(special)})", prompt):
            start, end = match.start(), match.start() + len(special)
            if any(start < span_end and span_start < end for span_start, span_end in spans):
                return True
    return False


def random_text(rnd: random.Random, specials: Specials) -> LlamaText:
    """Control text with special tokens, and content, in turns."""

    def control_text() -> LlamaText:
        pieces = rnd.choices((*WORDS, *rnd.choices(specials.texts, k=len(WORDS))), k=rnd.randint(1, 4))
        return control("".join(pieces))

    makers = (control_text, lambda: LlamaText(harmless(rnd, specials.texts)))
    return LlamaText(rnd.choice(makers)() for _ in range(rnd.randint(1, 6)))


def check_safe(opening: str, content: str, closing: str, vocabulary: Vocabulary, specials: Specials) -> None:
    """No control id, and no id of a marker that the control text uses, but those of the control text."""
    used = {
        entry.token_id
        for entry in vocabulary.special_tokens.values()
        if entry.user_defined and entry.text.strip() and (entry.text in opening or entry.text in closing)
    }
    protected = specials.control_ids | used
    opened, closed = (
        [token_id for token_id in vocabulary.tokenize(text, special=True) if token_id in protected]
        for text in (opening, closing)
    )
    expected = with_bos(opened, vocabulary) + closed
    ids = encode(LlamaText(control(opening), content, control(closing)), vocabulary)
    assert [token_id for token_id in ids if token_id in protected] == expected, repr(content)


def test_exact_on_every_vocabulary(vocabulary: Vocabulary, vocabulary_name: str) -> None:
    rnd, specials = random.Random(f"exact {vocabulary_name}"), Specials.of(vocabulary)
    n_checked = 0
    for _ in range(4 * N_EXACT):
        text = random_text(rnd, specials)
        if n_checked < N_EXACT and not touches_content(text, specials):
            assert encode(text, vocabulary) == whole_prompt(text, vocabulary), repr(text)
            n_checked += 1
    assert n_checked == N_EXACT


def test_safe_on_every_vocabulary(vocabulary: Vocabulary, vocabulary_name: str) -> None:
    rnd, specials = random.Random(f"safe {vocabulary_name}"), Specials.of(vocabulary)
    for _ in range(N_LOOK_ALIKES):
        opening, closing, *used = (rnd.choice((*specials.texts, *specials.control)) for _ in range(6))
        content = look_alike(rnd, (*specials.texts, *used, *used, *FOREIGN))
        check_safe(f"{opening}user\n", content, f"{closing}\n", vocabulary, specials)


@pytest.mark.parametrize("vocabulary_name", WITH_MARKERS, indirect=True)
def test_markers_of_the_format_are_safe_though_this_prompt_lacks_them(
    vocabulary: Vocabulary, vocabulary_name: str
) -> None:
    rnd, specials = random.Random(f"markers {vocabulary_name}"), Specials.of(vocabulary)
    for _ in range(60):
        used = rnd.sample(specials.markers, min(3, len(specials.markers)))
        encoder = Encoder(vocabulary, [f"text {marker} text" for marker in used])
        ids = encoder.encode(LlamaText(control("x: "), look_alike(rnd, used)))
        entries = [vocabulary.special_tokens.get(token_id) for token_id in ids]
        assert not {entry.text for entry in entries if entry}.intersection(used)


def test_straddling_special_tokens_are_text(vocabulary: Vocabulary) -> None:
    specials = Specials.of(vocabulary)
    for token_text in (*specials.control[:40], *specials.markers[:40]):
        for at in range(1, len(token_text)):
            head, tail = token_text[:at], token_text[at:]
            # The format uses the marker elsewhere, or a user-defined one would be plain text.
            ids = encode(LlamaText(control(head), tail), vocabulary, control_texts=[token_text])
            started = ids[1:] if vocabulary.adds_bos else ids
            texts = {vocabulary.special_tokens[i].text for i in started if i in vocabulary.special_tokens}
            inner = {text for text in specials.texts if text in head}
            assert texts - inner - {"<unk>", "[UNK]"} == set(), (head, tail, ids)


@pytest.mark.parametrize("vocabulary_name", BYTE_LEVEL, indirect=True)
def test_content_keeps_its_bytes(vocabulary: Vocabulary, vocabulary_name: str) -> None:
    rnd, specials = random.Random(f"bytes {vocabulary_name}"), Specials.of(vocabulary)
    for _ in range(300):
        content = look_alike(rnd, (*specials.texts, *FOREIGN))
        ids = encode(LlamaText(content), vocabulary, control_texts=specials.markers[:5])
        start = 1 if vocabulary.adds_bos else 0
        assert b"".join(map(vocabulary.piece, ids[start:])) == content.encode()


_TEXTS = st.lists(st.one_of(st.text(max_size=8), st.sampled_from((*WORDS, *FOREIGN))), max_size=6).map(
    "".join
)
_PLAIN = st.text(alphabet=st.characters(exclude_characters="<|>", exclude_categories=["Cs"]), max_size=20)


def _smollm_control() -> st.SearchStrategy[SpecialTokensText]:
    tokens = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<repo_name>", "\n", "user", "x: ", " ")
    return st.lists(st.sampled_from(tokens), min_size=1, max_size=4).map("".join).map(SpecialTokensText)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(_PLAIN | _smollm_control(), max_size=8))
def test_exact_on_smollm(smollm: Vocabulary, values: list[str | SpecialTokensText]) -> None:
    text = LlamaText(values)
    assume(not touches_content(text, Specials.of(smollm)))
    assert encode(text, smollm) == whole_prompt(text, smollm)


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=_TEXTS.filter(lambda text: not re.search("[\ud800-\udfff]", text)))
def test_safe_on_smollm(smollm: Vocabulary, content: str) -> None:
    check_safe("<|im_start|>user\n", content, "<|im_end|>\n", smollm, Specials.of(smollm))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(_TEXTS | _smollm_control(), max_size=8))
def test_from_tokens_encodes_to_the_same_ids(
    smollm: Vocabulary, values: list[str | SpecialTokensText]
) -> None:
    text = LlamaText(values)
    assume(not re.search("[\ud800-\udfff]", str(text)))
    ids = encode(text, smollm)
    assume(b"".join(map(smollm.piece, ids)) == str(text).encode())  # SmolLM2 lacks the rarest bytes
    assert encode(LlamaText.from_tokens(smollm, ids), smollm) == ids


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text("ab 1\n", max_size=8))
def test_from_tokens_encodes_to_the_same_ids_in_every_vocabulary(vocabulary: Vocabulary, text: str) -> None:
    eos = [SpecialToken("EOS"), text] if vocabulary.role_id("EOS") is not None else []
    ids = encode(LlamaText(text, *eos), vocabulary)
    assume(
        b"".join(map(vocabulary.piece, vocabulary.tokenize(text))).decode("utf-8", "replace").strip()
        == text.strip()
    )
    assert encode(LlamaText.from_tokens(vocabulary, ids), vocabulary) == ids
