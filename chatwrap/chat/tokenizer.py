"""What chatwrap needs to know of a vocabulary. The engine has one; tests may bring their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class SpecialTokenEntry:
    """A control, user-defined or unknown-marker entry of a vocabulary.

    llama.cpp emits a `user_defined` token wherever its text stands, even with special tokens off;
    a control token only where they are on. Some entries also swallow the white space on one side.
    """

    token_id: int
    text: str
    user_defined: bool = False
    unknown: bool = False
    strips_left: bool = False
    strips_right: bool = False


class Tokenizer(Protocol):
    """A vocabulary: text to token ids, token ids to bytes, and its special tokens."""

    @property
    def special_tokens(self) -> Mapping[int, SpecialTokenEntry]:
        """All control, user-defined and unknown-marker entries by token id."""

    @property
    def adds_bos(self) -> bool:
        """Whether a prompt starts with this vocabulary's BOS token."""

    def role_id(self, name: Literal["BOS", "EOS", "EOT", "NL", "SEP"]) -> int | None:
        """The id of the token that has a role in this vocabulary, or None."""

    def is_end_of_generation(self, token_id: int) -> bool:
        """Whether the model ends its turn by this token (llama.cpp's EOG set)."""

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """The ids of `text`, no BOS added. With `special`, special tokens in it are recognised."""

    def piece(self, token_id: int) -> bytes:
        """The bytes of a token as text; of a special token, its text."""
