"""How fast chatwrap is on this machine, beside llama.cpp's own parts and llama-cpp-python's way."""

from __future__ import annotations

import os
import platform
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import llama_cpp
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

from chatwrap.chat.history import ChatHistory, as_history
from chatwrap.chat.text import LlamaText
from chatwrap.engine.model import Model
from chatwrap.engine.session import ChatSession
from chatwrap.files import encode_utf8
from chatwrap.output.stop import StopDetector
from chatwrap.output.utf8 import Utf8Decoder
from chatwrap.tokens.encode import Encoder
from chatwrap.tokens.memory import Memory

SIZES: Final = (10, 50, 200, 500)
_TEMPLATE_KEY: Final = "tokenizer.chat_template"
_TEXT: Final = (
    "the of and to in is that it was for on are as with his they at be this from have or by one had not "
    "but what all were when we there can an your which their said if do will each about how up out them "
    "then she many some so these would other into has more her two like him see time could no make than "
    "first been its who now people my made over did down only way find use may water long little very "
    "after words called just where most know internationalization benchmark tokenizer conversation "
)
_WORDS: Final = tuple(_TEXT.split())


@dataclass(frozen=True, slots=True)
class Measure:
    """What one thing took, in seconds, ours and the yardstick's, at a size."""

    name: str
    yardstick: str
    size: int
    ours_s: float
    yardstick_s: float

    @property
    def ratio(self) -> float:
        """How many times as long the yardstick takes."""
        return self.yardstick_s / self.ours_s

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio}


def machine() -> str:
    """The machine and the versions that a measure depends on, on one line."""
    return (
        f"{platform.machine()} with {_n_cpus()} CPUs, {platform.system()}, "
        f"Python {platform.python_version()}, llama-cpp-python {llama_cpp.__version__}"
    )


def measures(model: Model) -> Iterator[Measure]:
    """All measures, one after another; takes about a minute for a small model."""
    yield from turns(model)
    yield cold_encode(model)
    yield from decode(model)
    yield tokens_per_second(model, n_tokens=150)
    yield first_token(model)


def turns(model: Model, sizes: Sequence[int] = SIZES) -> Iterator[Measure]:
    """The next turn of a conversation of so many messages, to token ids: only the last one is new."""
    format_prompt = formatter(model)
    for n_messages in sizes:
        yield from _turn(model, n_messages, format_prompt)


def _turn(model: Model, n_messages: int, format_prompt: Callable[[ChatHistory], str]) -> Iterator[Measure]:
    history = conversation(n_messages)
    encoder = Encoder(model.vocabulary, model.chat_wrapper.control_texts, Memory())
    encoder.encode(model.context_state(history).context_text)
    histories = [(*history, *conversation(2, start=n)[1:]) for n in range(18)]
    texts = iter([model.context_state(longer).context_text for longer in histories[:9]])
    longer = iter(histories[9:])
    encode = best_of(lambda: encoder.encode(next(texts)), 9)
    both = best_of(lambda: encoder.encode(model.context_state(next(longer)).context_text), 9)
    prompt = encode_utf8(format_prompt(history))
    tokenize = best_of(lambda: model.llama.tokenize(prompt, False, True), 3)
    theirs = best_of(lambda: model.llama.tokenize(encode_utf8(format_prompt(history)), False, True), 3)
    yield Measure("next turn: encode", "llama_tokenize", n_messages, encode, tokenize)
    yield Measure("next turn: render and encode", "format and llama_tokenize", n_messages, both, theirs)


def cold_encode(model: Model, n_bytes: int = 1_000_000) -> Measure:
    """Prose that was never encoded before."""
    text, vocabulary = prose(n_bytes), model.vocabulary
    data = encode_utf8(text)
    vocabulary.fast_encoder()
    ours = best_of(lambda: Encoder(vocabulary, (), Memory(0)).encode(LlamaText(text)), 5)
    theirs = best_of(lambda: model.llama.tokenize(data, False, False), 3)
    return Measure("cold encode", "llama_tokenize", n_bytes, ours, theirs)


def decode(model: Model, positions: Sequence[int] = (100, 8000)) -> Iterator[Measure]:
    """From a token id to certain text (bytes, stop triggers, UTF-8), each, at places of an answer."""
    vocabulary = model.vocabulary
    ids = vocabulary.tokenize(prose(60_000))[: max(positions) + 100]
    triggers = model.context_state(conversation(2)).stop_generation_triggers
    times: dict[int, list[float]] = {position: [] for position in positions}
    for _ in range(5):
        detector, decoder = StopDetector(triggers, vocabulary), Utf8Decoder()
        for position, token_id in enumerate(ids):
            if position in times:
                started = time.perf_counter()
                for next_id in ids[position : position + 100]:
                    decoder.feed(detector.feed(next_id))
                times[position].append((time.perf_counter() - started) / 100)
            else:
                decoder.feed(detector.feed(token_id))
    joined = best_of(lambda: b"".join(map(vocabulary.piece, ids)), 5) / len(ids)
    for position in positions:
        yield Measure("decode and stop, a token", "joining pieces", position, min(times[position]), joined)


def tokens_per_second(model: Model, n_tokens: int, n_rounds: int = 3) -> Measure:
    """Generating so many tokens greedily, beside a loop of `llama_decode` and a sampler alone."""
    prompt = model.prompt_ids(conversation(1))
    n_tokens = min(n_tokens, model.n_ctx - len(prompt) - 1)
    ours = min(generated(model, n_tokens) for _ in range(n_rounds))
    bare = min(decoded(model, prompt, n_tokens) for _ in range(n_rounds))
    return Measure("generate", "llama_decode and a sampler", n_tokens, ours, bare)


def first_token(model: Model, n_turns: int = 40) -> Measure:
    """The time to the first token in turn 2 (the yardstick) and in a late turn, with the same new text."""
    session = ChatSession(model, system_prompt="")
    times: list[float] = []
    for turn in range(n_turns):
        started = time.perf_counter()
        stream = session.stream(f"{turn + 10}: say yes.", temperature=0, max_tokens=2)
        next(stream, None)
        times.append(time.perf_counter() - started)
        list(stream)
    return Measure("time to first token", "the same in turn 2", n_turns, min(times[-3:]), min(times[1:4]))


def formatter(model: Model) -> Callable[[ChatHistory], str]:
    """llama-cpp-python's way from messages to a prompt: the template in the file, or a join without one."""
    template = model.vocabulary.metadata.get(_TEMPLATE_KEY)
    if template is None:
        return lambda history: "".join(str(item) for item in history)
    formats = Jinja2ChatFormatter(template=template, eos_token="", bos_token="")
    return lambda history: str(formats(messages=_messages(history)).prompt)  # type: ignore[arg-type]


def conversation(n_messages: int, *, start: int = 0) -> ChatHistory:
    """A system prompt, then user and model in turns, about 70 tokens a message, the user first."""
    rnd = random.Random(start)
    items: list[dict[str, Any]] = [{"type": "system", "text": "Be brief."}]
    for index in range(n_messages):
        text = f"{start + index}: " + " ".join(rnd.choices(_WORDS, k=60)) + "."
        user = index % 2 == 0
        items.append({"type": "user", "text": text} if user else {"type": "model", "response": [text]})
    return as_history(items)


def prose(n_bytes: int) -> str:
    """English-like text, the same at every call."""
    rnd = random.Random(7)
    endings = ("", "", "", "", "s", "ing", ",", ".", ".\n")
    parts, size = [], 0
    while size < n_bytes:
        parts.append(rnd.choice(_WORDS) + rnd.choice(endings))
        size += len(parts[-1]) + 1
    return " ".join(parts)[:n_bytes]


def best_of(work: Callable[[], object], n_rounds: int) -> float:
    """The shortest of so many times, in seconds."""
    times = []
    for _ in range(n_rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def _messages(history: ChatHistory) -> list[dict[str, str]]:
    roles = {"user": "user", "model": "assistant", "system": "system"}
    return [{"role": roles[item.type], "content": str(getattr(item, "text", ""))} for item in history]


def generated(model: Model, n_tokens: int) -> float:
    generation = model.generate(conversation(1), temperature=0, max_tokens=n_tokens + 1)
    next(generation)
    started, count = time.perf_counter(), 0
    for chunk in generation:
        count += len(chunk.token_ids)
    return (time.perf_counter() - started) * n_tokens / max(1, count)


def decoded(model: Model, prompt: Sequence[int], n_tokens: int) -> float:
    llama = model.llama
    llama.reset()  # type: ignore[no-untyped-call]
    llama.eval(prompt)
    sampler, token = llama._init_sampler(temp=0.0), (llama_cpp.llama_token * 1)()
    started = time.perf_counter()
    for _ in range(n_tokens):
        token[0] = llama_cpp.llama_sampler_sample(sampler.sampler, llama.ctx, -1)
        llama_cpp.llama_decode(llama.ctx, llama_cpp.llama_batch_get_one(token, 1))
    taken = time.perf_counter() - started
    llama.reset()  # type: ignore[no-untyped-call]
    return taken


def _n_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
