"""Transforms that sum up long messages and long conversations, and remember what they summed up.

A summary is found by the content that it sums up, never by where that stands: an edited message gets a
new one, and a message that moved keeps its own.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Literal, TypeAlias

from chatwrap.chat.json_text import dump_json
from chatwrap.errors import Fault, OptionError, PromptError
from chatwrap.prompts.contents import ImageContent, MessageContent, TextContent, ToolResult
from chatwrap.prompts.messages import Message, text_of
from chatwrap.prompts.models import ModelLike
from chatwrap.prompts.store import Datastore, DatastoreLike, Entity, SummaryCache, as_datastore, cache_entity
from chatwrap.prompts.summarizer import CHARACTERS_PER_TOKEN, Summarizer, n_tokens_estimated, texts_of
from chatwrap.prompts.transforms import MessageTransform

_ContentKind: TypeAlias = Literal["content", "toolres"]


class _InMemory:
    """The mark of a datastore that wasn't specified."""

    def __repr__(self) -> str:
        return "IN_MEMORY"


IN_MEMORY: Final = _InMemory()


class _SummarizingTransform(MessageTransform):
    """What both transforms have: a summarizer, and a cache unless there is to be none."""

    def __init__(
        self,
        summarizer: Summarizer,
        datastore: DatastoreLike | None,
        collection: str,
        max_size: int | None,
        max_lifetime_s: float | None,
        instructions: str,
    ) -> None:
        self._summarizer, self._instructions = summarizer, instructions
        store = Datastore() if datastore is None else as_datastore(datastore)
        self.cache: SummaryCache | None = SummaryCache(
            store, collection, max_size=max_size, max_lifetime_s=max_lifetime_s
        )

    @staticmethod
    def get_entity_definition() -> Entity:
        """What the collection of a datastore has to hold. Tables are made so where they are missing."""
        return cache_entity()

    async def call_async(self, messages: list[Message]) -> list[Message]:
        """As calling it, on a worker thread."""
        return await asyncio.to_thread(self, messages)

    def _remembered(self, key: str, make: Callable[[], str]) -> str:
        """The text of a key, made and kept unless it is there."""
        found = self.cache.get(key) if self.cache is not None else None
        if found is None:
            found = make()
            if self.cache is not None:
                self.cache.put(key, found)
        return found

    def _hash(self, *texts: str) -> Any:
        """A hash begun with the instructions: other instructions make other summaries."""
        digest = hashlib.sha256()
        for text in (self._instructions, *texts):
            _update(digest, text)
        return digest


class MessageSummarizationTransform(_SummarizingTransform):
    """Messages longer than `max_message_size` characters replaced by summaries that `llm` writes.

    The size is estimated in tokens, four characters each, images by their pixels. A tool's result is
    summed up apart from the text. Without a `datastore` (a `Datastore`, a URL or a path) the cache is
    in memory. `max_cache_lifetime` is in seconds; None lifts either limit of the cache.

    Raises `OptionError` for impossible limits, and when called `PromptError` naming the message whose
    summary fails.
    """

    DEFAULT_CACHE_COLLECTION_NAME: ClassVar[str] = "summarized_messages_cache"

    def __init__(
        self,
        llm: ModelLike,
        max_message_size: int = 20000,
        summarization_instructions: str = (
            "Please make a summary of this message. Include relevant information and keep it short. "
            "Your response will replace the message, so just output the summary directly, "
            "no introduction needed."
        ),
        summarized_message_template: str = "Summarized message: {{summary}}",
        datastore: DatastoreLike | None = None,
        cache_collection_name: str = DEFAULT_CACHE_COLLECTION_NAME,
        max_cache_size: int | None = 10000,
        max_cache_lifetime: float | None = 14400,
    ) -> None:
        _check_counts({"max_message_size": (max_message_size, 1)})
        summarizer = Summarizer(
            llm, summarization_instructions, summarized_message_template, "summarized_message_template"
        )
        super().__init__(
            summarizer,
            datastore,
            cache_collection_name,
            max_cache_size,
            max_cache_lifetime,
            summarization_instructions,
        )
        self._max_tokens = -(-max_message_size // CHARACTERS_PER_TOKEN)

    def __call__(self, messages: list[Message]) -> list[Message]:
        return [self._shortened(message, f"messages[{i}]") for i, message in enumerate(messages)]

    async def summarize_if_needed(
        self,
        contents: Sequence[MessageContent],
        conv_id: str = "",
        msg_idx: int = 0,
        _type: _ContentKind = "content",
    ) -> list[MessageContent]:
        """`contents`, or one text with their summary if they are too long; errors name the message."""
        where = f"conversation {conv_id!r}, messages[{msg_idx}]" if conv_id else f"messages[{msg_idx}]"
        return await asyncio.to_thread(self._contents, contents, where, _type)

    def _shortened(self, message: Message, where: str) -> Message:
        contents = self._contents(message.contents, where, "content")
        if contents != list(message.contents):
            message = message.copy(contents=contents)
        result = message.tool_result
        if result is None:
            return message
        text = result.content if isinstance(result.content, str) else dump_json(result.content, where=where)
        (shown,) = self._contents([TextContent(text)], f"{where}.tool_result", "toolres")
        if shown == TextContent(text):
            return message
        assert isinstance(shown, TextContent)
        return message.copy(tool_result=ToolResult(shown.content, result.tool_request_id))

    def _contents(
        self, contents: Sequence[MessageContent], where: str, kind: _ContentKind
    ) -> list[MessageContent]:
        if n_tokens_estimated(contents) <= self._max_tokens:
            return list(contents)
        if any(isinstance(part, ImageContent) for part in contents):
            raise PromptError.of(where, "an image makes it too long, and can't be summarized.", "Remove it.")
        texts = [text_of(part) for part in contents if not isinstance(part, ImageContent)]
        key = self._hash("message", kind, *texts).hexdigest()
        summary = self._remembered(key, lambda: self._summarizer.summary(texts, where))
        return [TextContent(self._summarizer.shown(summary))]


class ConversationSummarizationTransform(_SummarizingTransform):
    """Conversations of more than `max_num_messages` with all but the last `min_num_messages` summed up.

    The summary is a user's message at the start, and counts as one. It is made once and then reused as
    long as what it sums up stands there unchanged; the next one goes on from it when the messages have
    become too many again. A tool's result stays with its request. Without `datastore` the cache is in
    memory; None means no cache.

    Raises `OptionError` for impossible limits, and when called `PromptError` if the summary fails.
    """

    DEFAULT_CACHE_COLLECTION_NAME: ClassVar[str] = "summarized_conversations_cache"

    def __init__(
        self,
        llm: ModelLike,
        max_num_messages: int = 50,
        min_num_messages: int = 10,
        summarization_instructions: str = (
            "Please make a summary of this conversation. Include relevant information and keep it short. "
            "Your response will replace the messages, so just output the summary directly, "
            "no introduction needed."
        ),
        summarized_conversation_template: str = "Summarized conversation: {{summary}}",
        datastore: DatastoreLike | _InMemory | None = IN_MEMORY,
        max_cache_size: int | None = 10000,
        max_cache_lifetime: float | None = 14400,
        cache_collection_name: str = DEFAULT_CACHE_COLLECTION_NAME,
    ) -> None:
        _check_counts({"max_num_messages": (max_num_messages, 1), "min_num_messages": (min_num_messages, 0)})
        if min_num_messages > max_num_messages:
            problem = f"{min_num_messages} is more than max_num_messages, {max_num_messages}."
            raise OptionError.of("min_num_messages", problem, "Keep fewer messages.")
        summarizer = Summarizer(
            llm,
            summarization_instructions,
            summarized_conversation_template,
            "summarized_conversation_template",
        )
        super().__init__(
            summarizer,
            None if isinstance(datastore, _InMemory) else datastore,
            cache_collection_name,
            max_cache_size,
            max_cache_lifetime,
            summarization_instructions,
        )
        if datastore is None:
            self.cache = None
        self._max, self._min = max_num_messages, min_num_messages

    def __call__(self, messages: list[Message]) -> list[Message]:
        if len(messages) <= self._max:
            return list(messages)
        cut = _cut(messages, len(messages) - self._min)
        if cut == 0:
            return list(messages)
        keys = self._prefix_keys(messages[:cut])
        n_known, summary = self._known(keys)
        if not n_known or 1 + len(messages) - n_known > self._max:
            texts = texts_of(messages[n_known:cut])
            where = f"messages[{n_known}:{cut}]"
            if n_known < cut:
                summary = self._summarizer.summary(texts, where, before=summary)
                if self.cache is not None:
                    self.cache.put(keys[-1], summary)
            n_known = cut
        return [Message(self._summarizer.shown(summary)), *messages[n_known:]]

    def _known(self, keys: Sequence[str]) -> tuple[int, str]:
        """The longest beginning that has a summary, by its number of messages, and the summary."""
        found = self.cache.first(keys[::-1]) if self.cache is not None else None
        return (0, "") if found is None else (keys.index(found[0]) + 1, found[1])

    def _prefix_keys(self, messages: Sequence[Message]) -> list[str]:
        """A key for each beginning of `messages`, in one pass."""
        digest = self._hash("conversation")
        keys: list[str] = []
        for message in messages:
            _update(digest, _fingerprint(message))
            keys.append(digest.copy().hexdigest())
        return keys


def _fingerprint(message: Message) -> str:
    images = [part.base64_content for part in message.contents if isinstance(part, ImageContent)]
    requests = [(each.name, each.args) for each in message.tool_requests or ()]
    result = message.tool_result is not None
    return dump_json([message.role, message.content, images, requests, result], where="message")


def _update(digest: Any, text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    digest.update(len(data).to_bytes(8, "big") + data)


def _cut(messages: Sequence[Message], cut: int) -> int:
    """`cut`, moved back so that no request is parted from its result."""
    asked: dict[str, int] = {}
    pairs: list[tuple[int, int]] = []
    for index, message in enumerate(messages):
        asked |= {request.tool_request_id: index for request in message.tool_requests or ()}
        if message.tool_result is not None and message.tool_result.tool_request_id in asked:
            pairs.append((asked[message.tool_result.tool_request_id], index))
    for start, end in reversed(pairs):
        if start < cut <= end:
            cut = start
    return cut if all(not start < cut <= end for start, end in pairs) else _cut(messages, cut)


def _check_counts(counts: dict[str, tuple[Any, int]]) -> None:
    faults = [
        Fault(name, f"must be a whole number of at least {least}, not {value!r}.")
        for name, (value, least) in counts.items()
        if not isinstance(value, int) or isinstance(value, bool) or value < least
    ]
    if faults:
        raise OptionError(faults)
