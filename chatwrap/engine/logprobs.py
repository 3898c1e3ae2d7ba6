"""How likely the model found the tokens that were sampled, and others in their place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chatwrap.engine.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Likelihood:
    """A token and the natural logarithm of its probability, before temperature and truncation."""

    token_id: int
    piece: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The token that was sampled, and the likeliest ones in its place, the likeliest first."""

    sampled: Likelihood
    top: tuple[Likelihood, ...]


class LogprobRecorder:
    """A logits processor that changes nothing: it keeps the logits that the next token is drawn from.

    Biases count, as they are added before. Cost: a pass over the vocabulary for each token.
    """

    def __init__(self, vocabulary: Vocabulary, n_top: int) -> None:
        self._vocabulary = vocabulary
        self._n_top = n_top
        self._logits: npt.NDArray[np.single] = np.zeros(0, np.single)

    def __call__(self, input_ids: Any, logits: Any) -> Any:
        self._logits = np.array(logits, np.single)
        return logits

    def entry(self, token_id: int) -> TokenLogprob:
        """The likelihood of the token that was drawn."""
        largest = self._logits.max()
        logprobs = self._logits - (largest + np.log(np.exp(self._logits - largest).sum()))
        n_top = min(self._n_top, len(logprobs))
        unsorted = np.argpartition(-logprobs, n_top - 1)[:n_top] if n_top else np.zeros(0, np.intp)
        top_ids = unsorted[np.argsort(-logprobs[unsorted], kind="stable")]
        return TokenLogprob(
            self._likelihood(token_id, logprobs),
            tuple(self._likelihood(int(top_id), logprobs) for top_id in top_ids),
        )

    def _likelihood(self, token_id: int, logprobs: npt.NDArray[np.single]) -> Likelihood:
        return Likelihood(token_id, self._vocabulary.piece(token_id), float(logprobs[token_id]))
