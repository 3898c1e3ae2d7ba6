"""From prompt ids to sampled ids, on llama-cpp-python's `Llama`.

The loop is our own: `Llama.generate` compares prompts in Python, id by id, can't be interrupted while it
evaluates one, and masks the vocabulary for every token under a grammar. Only a draft model needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias, TypeVar

import llama_cpp
import numpy as np
import numpy.typing as npt

from chatwrap.engine.calls import TokenConstraint
from chatwrap.engine.constrained import ConstrainedSampler, Logits, NativeGrammar
from chatwrap.engine.sampling import LogitsProcessor, SamplingOptions, clamped_biases
from chatwrap.engine.turns import Turn
from chatwrap.engine.vocabulary import vocabulary_of
from chatwrap.errors import ChatwrapError, ModelError, OptionError

TokenIds: TypeAlias = npt.NDArray[np.intc]
_T = TypeVar("_T")


class Evaluator:
    """Evaluates a prompt and samples token ids, with the options of one answer.

    `constraint` is a grammar of the whole answer that knows the vocabulary's special tokens.
    What the context already holds of the prompt isn't evaluated again. An error inside llama.cpp is
    raised as `ModelError`, one of a logits processor as it is; both leave the context empty.

    Raises `OptionError` for a bias on a token that the vocabulary lacks, `GrammarError` for a grammar
    that can't be read or would harm llama.cpp, `ModelError` for a model that was closed.
    """

    def __init__(
        self,
        llama: llama_cpp.Llama,
        options: SamplingOptions,
        turn: Turn,
        *,
        constraint: TokenConstraint | None = None,
    ) -> None:
        self._llama = llama
        self._options = options
        self._turn = turn
        self._processors = _Processors(llama, options)
        grammar = options.checked_grammar
        if constraint is not None:
            if grammar is not None:
                raise OptionError.of("grammar", "given together with a constraint.", "Give one of them.")
            self._grammar: NativeGrammar | None = constraint.native(vocabulary_of(llama))
        else:
            self._grammar = None if grammar is None else NativeGrammar(vocabulary_of(llama), grammar)

    def ids(self, prompt_ids: Sequence[int], aborted: Callable[[], bool]) -> Generator[int, None, None]:
        """Sampled ids without end, until `aborted` says so; asked for every batch and every token."""
        ids = np.asarray(prompt_ids, dtype=np.intc)
        self._evaluate_early_batches(ids, aborted)
        if aborted():
            return
        self._call(self._seed)
        sampled = self._sampled(ids)
        while not aborted():
            yield self._call(partial(next, sampled))
            self._processors.raise_failure()

    def admitted(self, token_ids: Sequence[int]) -> Iterator[int]:
        """Ids to be put into the answer without being sampled, as far as the grammar lets them come next."""
        for token_id in token_ids:
            if self._grammar is not None:
                if not self._grammar.allows(token_id):
                    return
                self._grammar.accept(token_id)
            yield token_id

    def _call(self, work: Callable[[], _T]) -> _T:
        check_open(self._llama)
        with self._turn.evaluating(), _emptied_on_error(self._llama):
            return work()

    def _evaluate_early_batches(self, prompt_ids: TokenIds, aborted: Callable[[], bool]) -> None:
        """Evaluates a long prompt up to its last batch, batch by batch, so that it can be aborted."""
        n_batch = self._llama.n_batch
        n_known = n_common(self._llama.input_ids[: self._llama.n_tokens], prompt_ids)
        if len(prompt_ids) - n_known <= n_batch or aborted():
            return
        n_known = self._call(partial(_rewind, self._llama, n_known))
        while len(prompt_ids) - n_known > n_batch and not aborted():
            self._call(partial(_eval, self._llama, prompt_ids[n_known : n_known + n_batch]))
            n_known += n_batch

    def _seed(self) -> None:
        """Sets the seed asked for, or draws one from the last, as `Llama.create_completion` does."""
        bits = self._options.seed_bits
        self._llama.set_seed(next_seed(self._llama) if bits is None else bits)

    def _sampled(self, prompt_ids: TokenIds) -> Iterator[int]:
        if self._grammar is not None:
            return self._constrained(prompt_ids, self._grammar)
        return self._freely(prompt_ids) if self._llama.draft_model is None else self._drafted(prompt_ids)

    def _freely(self, prompt_ids: TokenIds) -> Iterator[int]:
        llama = self._llama
        sampler = llama._init_sampler(logits_processor=self._processors.as_list(), **self._chain_options)
        self._evaluate_rest(prompt_ids)
        while True:
            token_id: int = sampler.sample(llama._ctx, -1)
            yield token_id
            llama.eval([token_id])

    def _drafted(self, prompt_ids: TokenIds) -> Iterator[int]:
        sampled: Iterator[int] = self._llama.generate(
            prompt_ids.tolist(), logits_processor=self._processors.as_list(), **self._chain_options
        )
        return sampled

    @property
    def _chain_options(self) -> dict[str, Any]:
        """The options of llama-cpp-python's sampler chain."""
        options = self._options
        return {
            "temp": float(options.temperature),
            "top_k": options.top_k,
            "top_p": options.top_p,
            "min_p": options.min_p,
            "typical_p": options.typical_p,
            "repeat_penalty": options.repeat_penalty,
            "frequency_penalty": options.frequency_penalty,
            "presence_penalty": options.presence_penalty,
            "mirostat_mode": options.mirostat_mode,
            "mirostat_tau": options.mirostat_tau,
            "mirostat_eta": options.mirostat_eta,
        }

    def _constrained(self, prompt_ids: TokenIds, grammar: NativeGrammar) -> Iterator[int]:
        llama, options = self._llama, self._options
        sampler = ConstrainedSampler(
            vocabulary_of(llama),
            grammar,
            llama._init_sampler(**self._chain_options),
            masks_first=options.mirostat_mode > 0 and options.temperature > 0,
        )
        self._evaluate_rest(prompt_ids)
        while True:
            token_id = sampler.sample(self._logits())
            yield token_id
            llama.eval([token_id])

    def _evaluate_rest(self, prompt_ids: TokenIds) -> None:
        """Evaluates what the context lacks of the prompt; its last token again if the logits are gone."""
        llama = self._llama
        n_known = n_common(llama.input_ids[: llama.n_tokens], prompt_ids)
        if n_known == len(prompt_ids) == llama.n_tokens and not llama._requires_eval:
            return
        n_known = _rewind(llama, min(n_known, len(prompt_ids) - 1))
        _eval(llama, prompt_ids[n_known:])

    def _logits(self) -> Logits:
        """The logits after the last token, with what the caller adds."""
        llama = self._llama
        changed: Logits = self._processors.apply(llama.input_ids[: llama.n_tokens], logits_of(llama))
        return changed


class _Processors:
    """The caller's logits processors and biases, as llama-cpp-python calls them.

    It calls them from C, where an exception would be printed and lost: the first is kept instead.
    """

    def __init__(self, llama: llama_cpp.Llama, options: SamplingOptions) -> None:
        self._failure: BaseException | None = None
        self._processors: list[LogitsProcessor] = list(options.logits_processors)
        biases = clamped_biases(options.logit_bias)
        beyond = [token_id for token_id in biases if token_id >= llama.n_vocab()]
        if beyond:
            problem = f"no token {beyond[0]} in a vocabulary of {llama.n_vocab()}."
            raise OptionError.of("logit_bias", problem, f"Ids go up to {llama.n_vocab() - 1}.")
        if biases:
            self._processors.insert(0, _bias_processor(biases))

    def as_list(self) -> llama_cpp.LogitsProcessorList | None:
        return llama_cpp.LogitsProcessorList([self.apply]) if self._processors else None

    def apply(self, input_ids: TokenIds, logits: npt.NDArray[np.single]) -> Any:
        try:
            for processor in self._processors if self._failure is None else ():
                logits = processor(input_ids, logits)
        except BaseException as error:  # raised again by `raise_failure`, outside of C
            self._failure = error
        return logits

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _bias_processor(biases: dict[int, float]) -> LogitsProcessor:
    token_ids = np.fromiter(biases.keys(), dtype=np.intc)
    values = np.fromiter(biases.values(), dtype=np.single)

    def add_biases(_: TokenIds, logits: npt.NDArray[np.single]) -> npt.NDArray[np.single]:
        logits[token_ids] += values
        return logits

    return add_biases


def check_open(llama: llama_cpp.Llama) -> None:
    """Raises `ModelError` if a model was closed: llama.cpp would crash on it."""
    if llama.model is None:
        raise ModelError(f"{llama.model_path}: the model was closed. Load it again.")


def context_size(llama: llama_cpp.Llama) -> int:
    """How many tokens fit: llama.cpp may round the context up, llama-cpp-python's own buffer isn't."""
    check_open(llama)
    return min(int(llama.n_ctx()), len(llama.input_ids))


def logits_of(llama: llama_cpp.Llama) -> Logits:
    """A copy of the logits after the last token evaluated, one a token of the vocabulary."""
    pointer = llama_cpp.llama_get_logits_ith(llama.ctx, -1)
    return np.ctypeslib.as_array(pointer, shape=(llama.n_vocab(),)).copy()


def n_common(known_ids: TokenIds, token_ids: TokenIds) -> int:
    """How many ids at the start of both are the same. Takes 0.01 ms for 36k."""
    length = min(len(known_ids), len(token_ids))
    differing = np.flatnonzero(known_ids[:length] != token_ids[:length])
    return int(differing[0]) if len(differing) else length


def _eval(llama: llama_cpp.Llama, token_ids: TokenIds) -> None:
    """Evaluates ids behind those that the context holds, in batches."""
    llama.eval(token_ids.tolist())


def _rewind(llama: llama_cpp.Llama, n_known: int) -> int:
    """Takes the context back to its first `n_known` tokens, or to none where the model can't."""
    if n_known == llama.n_tokens:
        return n_known
    folded = llama_cpp.llama_model_is_recurrent(llama.model) or llama_cpp.llama_model_is_hybrid(llama.model)
    if folded or not llama._ctx.kv_cache_seq_rm(-1, n_known, -1):
        llama.reset()  # type: ignore[no-untyped-call]
        return 0
    llama._requires_eval = True
    llama.n_tokens = n_known
    return n_known


def next_seed(llama: llama_cpp.Llama) -> int:
    """The seed after a model's last one: 32 bits, never the one that llama.cpp takes as "random"."""
    return int(np.random.default_rng(llama._seed).integers(0xFFFF_FFFF))


@contextmanager
def _emptied_on_error(llama: llama_cpp.Llama) -> Iterator[None]:
    """Forgets what the context holds if an evaluation breaks off, since nobody knows how far it came."""
    try:
        yield
    except BaseException as error:
        llama.reset()  # type: ignore[no-untyped-call]
        if isinstance(error, ChatwrapError) or not isinstance(error, Exception):
            raise
        remedy = "If memory is short, load the model with a smaller n_ctx or n_batch."
        raise ModelError(f"{llama.model_path}: llama.cpp failed: {error}. {remedy}") from error
