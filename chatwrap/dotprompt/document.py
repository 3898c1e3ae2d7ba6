"""A .prompt file: what its front matter says of it, and its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import Field, JsonValue, ValidationError

from chatwrap.dotprompt.front_matter import FrontMatter, Path, read, split
from chatwrap.dotprompt.handlebars.source import Source
from chatwrap.dotprompt.handlebars.values import shown
from chatwrap.dotprompt.request import (
    Document,
    GenerateRequest,
    MediaPart,
    Message,
    ToolDefinition,
    Value,
    faults_of,
)
from chatwrap.errors import DotpromptError, Fault

# Key of the front matter, what its value has to be, and that in words.
_FIELDS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "name": ((str,), "a text"),
    "variant": ((str,), "a text"),
    "version": ((str, int, float), "a text"),
    "description": ((str,), "a text"),
    "model": ((str, dict), "a model's name, or a mapping"),
    "tools": ((list,), "a list of names"),
    "toolDefs": ((list,), "a list of tool definitions"),
    "config": ((dict,), "a mapping"),
    "input": ((dict,), "a mapping with default or schema"),
    "output": ((dict,), "a mapping with format or schema"),
    "metadata": ((dict,), "a mapping"),
    "ext": ((dict,), "a mapping"),
}
_INNER: Final[Mapping[Path, tuple[tuple[type, ...], str]]] = {
    ("input", "default"): ((dict,), "a mapping of variables"),
    ("output", "format"): ((str,), "a format's name"),
}
KNOWN_KEYS: Final = (*_FIELDS, "raw")


class PromptMetadata(Value):
    """What is known of a prompt besides its text. `input` and `output` hold JSON Schemas once resolved.

    `tools` has the names that nobody could resolve, `tool_defs` the definitions of the others. `ext` has
    the front matter's namespaces, `raw` all of the front matter as it is.
    """

    name: str | None = None
    variant: str | None = None
    version: str | int | float | None = None
    description: str | None = None
    model: str | dict[str, JsonValue] | None = None
    tools: tuple[str, ...] | None = None
    tool_defs: tuple[ToolDefinition, ...] | None = None
    config: dict[str, JsonValue] = Field(default_factory=dict)
    input: dict[str, JsonValue] | None = None
    output: dict[str, JsonValue] | None = None
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    ext: dict[str, JsonValue] = Field(default_factory=dict)
    raw: dict[str, JsonValue] | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON form: `config`, `metadata` and `ext` always, what else was set besides."""
        kept = {"config": self.config, "metadata": self.metadata, "ext": self.ext}
        return {**kept, **self.model_dump(mode="json", exclude_none=True, by_alias=True)}


class RenderedPrompt(PromptMetadata):
    """A prompt's metadata, without `input`, and the messages that it rendered to.

    `docs` are the documents it was rendered with, which its JSON form leaves out.
    """

    messages: tuple[Message, ...]
    docs: tuple[Document, ...] = Field(default=(), exclude=True)

    def to_json(self) -> dict[str, Any]:
        messages = [message.to_json() for message in self.messages]
        return {**super().to_json(), "messages": messages}

    def to_generate_request(self) -> GenerateRequest:
        """All that a model is asked: messages, config, tools, output, and the documents as ``context``.

        Media tell the content type that their address has. A tool that nobody knows is named.
        """
        tools = (*(self.tool_defs or ()), *(ToolDefinition(name=name) for name in self.tools or ()))
        told = {"config": self.config, "tools": tools, "output": self.output, "context": self.docs}
        return GenerateRequest(
            messages=tuple(_with_media_types(message) for message in self.messages),
            **{name: value for name, value in told.items() if value},  # type: ignore[arg-type]
        )


def _with_media_types(message: Message) -> Message:
    parts = [
        part.model_copy(update={"media": part.media.typed()}) if isinstance(part, MediaPart) else part
        for part in message.content
    ]
    return message.model_copy(update={"content": tuple(parts)})


@dataclass(frozen=True, slots=True)
class ParsedPrompt:
    """A .prompt file that was read: its fields as JSON, its template, and where each field stands."""

    fields: dict[str, Any]
    source: Source
    offsets: dict[Path, int] = field(default_factory=dict)

    @property
    def template(self) -> str:
        """The template's text."""
        return self.source.text[self.source.start : self.source.end]

    @property
    def metadata(self) -> PromptMetadata:
        """The fields as they stand in the file, schemas and tools not resolved."""
        return PromptMetadata.model_validate(self.fields)

    def fault(self, path: Path, problem: str, remedy: str = "") -> Fault:
        """A fault of the field at `path`, by line and column if it stands in the file."""
        return _fault(self.source, self.offsets, path, problem, remedy)


def parse_prompt(text: str, *, name: str = "prompt") -> ParsedPrompt:
    """The prompt in a file's text, which errors call `name`.

    Raises `DotpromptError` with line and column for broken front matter; it never becomes text.

    >>> prompt = parse_prompt("---\\nmodel: m\\n---\\nHi {{name}}\\n")
    >>> prompt.fields["model"], prompt.template
    ('m', 'Hi {{name}}')
    """
    parts = split(text, name=name)
    source = Source(text, name, *parts.body)
    if parts.front is None:
        return ParsedPrompt({"config": {}, "metadata": {}, "ext": {}}, source)
    front = read(text, parts.front, name=name)
    faults = list(_faults(front, source))
    if faults:
        raise DotpromptError(faults)
    known = {key: value for key, value in front.values.items() if key in _FIELDS and value is not None}
    fields = {"config": {}, "metadata": {}, **known, "ext": _extensions(front.values), "raw": front.values}
    return ParsedPrompt(fields, source, front.offsets)


def _faults(front: FrontMatter, source: Source) -> Iterator[Fault]:
    for key, (kinds, wanted) in _FIELDS.items():
        yield from _kind_faults(front, source, (key,), kinds, wanted)
    for path, (kinds, wanted) in _INNER.items():
        if isinstance(front.values.get(str(path[0])), dict):
            yield from _kind_faults(front, source, path, kinds, wanted)
    tools = front.values.get("tools")
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        if not isinstance(tool, str):
            problem = f"tools[{index}] must be a tool's name, not {tool!r}."
            yield _fault(source, front.offsets, ("tools", index), problem)
    definitions = front.values.get("toolDefs")
    for index, definition in enumerate(definitions if isinstance(definitions, list) else ()):
        try:
            ToolDefinition.model_validate(definition)
        except ValidationError as error:
            for fault in faults_of(error, f"toolDefs[{index}]"):
                problem = f"{fault.where}: {fault.problem}"
                yield _fault(source, front.offsets, ("toolDefs", index), problem, fault.remedy)
    for key in front.values:
        namespace, dot, name = key.rpartition(".")
        if dot and not (namespace and name):
            problem = f"{key!r} is no name in a namespace."
            yield _fault(source, front.offsets, (key,), problem, "Write namespace.name.")


def _kind_faults(
    front: FrontMatter, source: Source, path: Path, kinds: tuple[type, ...], wanted: str
) -> Iterator[Fault]:
    value: Any = front.values
    for step in path:
        value = value.get(step)
    if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
        problem = f"{'.'.join(map(str, path))} must be {wanted}, not {shown(value)}."
        yield _fault(source, front.offsets, path, problem)


def _fault(source: Source, offsets: Mapping[Path, int], path: Path, problem: str, remedy: str = "") -> Fault:
    known = path
    while known and known not in offsets:
        known = known[:-1]
    if not known:
        where = ".".join(map(str, path))
        return Fault(f"{source.name}: {where}" if where else source.name, problem, remedy)
    return Fault.at(source.text, offsets[known], problem, remedy, name=source.name)


def _extensions(values: Mapping[str, JsonValue]) -> dict[str, Any]:
    """The fields with a dot, by namespace: what stands before the last dot; ``ext`` itself besides."""
    own = values.get("ext")
    extensions: dict[str, Any] = {
        key: dict(value) if isinstance(value, dict) else value
        for key, value in (own if isinstance(own, dict) else {}).items()
    }
    for key, value in values.items():
        namespace, dot, name = key.rpartition(".")
        if dot:
            members = extensions.setdefault(namespace, {})
            if isinstance(members, dict):
                members[name] = value
            else:
                extensions[namespace] = {name: value}
    return extensions
