"""A compiled prompt: what it says of itself, and the messages it makes of data."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic import ValidationError

from chatwrap.dotprompt.data import DataArgument, DataLike
from chatwrap.dotprompt.document import ParsedPrompt, PromptMetadata, RenderedPrompt
from chatwrap.dotprompt.front_matter import Path
from chatwrap.dotprompt.handlebars.template import Environment, Template
from chatwrap.dotprompt.helpers import HELPERS
from chatwrap.dotprompt.messages import to_messages
from chatwrap.dotprompt.picoschema import SchemaResolver, from_picoschema
from chatwrap.dotprompt.request import faults_of
from chatwrap.dotprompt.tools import ToolBox
from chatwrap.errors import DotpromptError, Fault

MetadataLike: TypeAlias = "PromptMetadata | Mapping[str, Any]"


@dataclass(slots=True)
class Registry:
    """What prompts share. `n_changes` tells prompts that what they resolved may be out of date."""

    default_model: str | None = None
    model_configs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    schemas: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    schema_resolver: SchemaResolver | None = None
    tools: ToolBox = field(default_factory=ToolBox)
    environment: Environment = field(default_factory=Environment)
    n_changes: int = 0

    def __post_init__(self) -> None:
        self.environment.helpers |= HELPERS

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """The JSON Schema with this name; None if nobody knows it."""
        if name in self.schemas:
            return self.schemas[name]
        return self.schema_resolver(name) if self.schema_resolver else None

    def resolve(self, parsed: ParsedPrompt, options: MetadataLike | None = None) -> PromptMetadata:
        """What is known of a prompt, `options` first, then its file, then what its model is configured with.

        ``config`` is merged key by key. Tools become definitions where they are known, schemas JSON
        Schema. Raises `DotpromptError` with line and column where the file is wrong.
        """
        given = fields_of(options)
        fields = {**parsed.fields, **given}
        model = given.get("model") or parsed.fields.get("model") or self.default_model
        if model is not None:
            fields["model"] = model
        name = model.get("name") if isinstance(model, dict) else model
        base = self.model_configs.get(name, {}) if isinstance(name, str) else {}
        fields["config"] = {**base, **(parsed.fields.get("config") or {}), **(given.get("config") or {})}
        if fields.get("tools") is not None:
            fields |= self._tools(fields, parsed)
        for key in ("input", "output"):
            if isinstance(fields.get(key), Mapping) and fields[key].get("schema") is not None:
                fields[key] = {
                    **fields[key],
                    "schema": self._schema(fields[key]["schema"], key, parsed, given),
                }
        try:
            return PromptMetadata.model_validate(fields)
        except ValidationError as error:
            raise DotpromptError(faults_of(error, parsed.source.name)) from None

    def _tools(self, fields: Mapping[str, Any], parsed: ParsedPrompt) -> dict[str, Any]:
        definitions: list[Any] = list(fields.get("toolDefs") or ())
        unknown: list[str] = []
        faults: list[Fault] = []
        for index, name in enumerate(fields["tools"]):
            try:
                tool = self.tools.get(name)
            except DotpromptError as error:
                faults += [
                    parsed.fault(("tools", index), fault.problem, fault.remedy) for fault in error.faults
                ]
                continue
            if tool is None:
                unknown.append(name)
            else:
                definitions.append(tool.definition)
        if faults:
            raise DotpromptError(faults)
        return {"tools": unknown, "toolDefs": definitions}

    def _schema(
        self, schema: Any, key: str, parsed: ParsedPrompt, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        def fault(path: Path, problem: str, remedy: str) -> Fault:
            where = ".".join(map(str, (key, "schema", *path)))
            if key in given:
                return Fault(where, problem, remedy)
            return parsed.fault((key, "schema", *path), f"{where}: {problem}", remedy)

        return from_picoschema(schema, self.schema, fault=fault)


@dataclass(slots=True)
class Prompt:
    """A prompt whose template is compiled. Rendering it changes nothing that a caller can see."""

    parsed: ParsedPrompt
    template: Template
    registry: Registry
    _known: _Known | None = None

    def metadata(self, options: MetadataLike | None = None) -> PromptMetadata:
        """What is known of the prompt, schemas and tools resolved; see `Registry.resolve`."""
        return self.registry.resolve(self.parsed, options)

    def render(self, data: DataLike | None = None, options: MetadataLike | None = None) -> RenderedPrompt:
        """The messages for some data, with all that is known of the prompt.

        Variables that `data` doesn't give are those of ``input.default``, of `options` before the
        file's. Raises `DotpromptError` with line and column.
        """
        given = DataArgument.of(data)
        fields, shown = self._resolved(options)
        defaults = _defaults(self.parsed.fields)
        if options is not None:
            defaults = {**defaults, **_defaults(fields_of(options))}
        known = {
            "prompt": shown,
            "docs": [document.to_json() for document in given.docs],
            "messages": [message.to_json() for message in given.messages],
        }
        pieces = self.template.pieces({**defaults, **given.input}, {"metadata": known, **given.context})
        messages = to_messages(pieces, given.messages)
        return RenderedPrompt.model_construct(**fields, messages=messages, docs=given.docs)

    def __call__(self, data: DataLike | None = None, options: MetadataLike | None = None) -> RenderedPrompt:
        """The same as `render`."""
        return self.render(data, options)

    def _resolved(self, options: MetadataLike | None) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields of a rendered prompt, the caller's own, and their JSON form for ``@metadata``."""
        known = self._known
        if options is not None or known is None or known.n_changes != self.registry.n_changes:
            known = _Known.of(self.registry.n_changes, self.metadata(options))
            self._known = known if options is None else self._known
        return known.fields(), known.shown


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a prompt without options: fields that can't change, and those that can, as bytes."""

    n_changes: int
    fixed: dict[str, Any]
    changeable: bytes
    shown: dict[str, Any]

    @classmethod
    def of(cls, n_changes: int, metadata: PromptMetadata) -> _Known:
        fields = _set_fields(metadata)
        fixed = {name: value for name, value in fields.items() if not isinstance(value, dict)}
        changeable = {name: value for name, value in fields.items() if isinstance(value, dict)}
        shown = metadata.model_copy(update={"input": None}).to_json()
        return cls(n_changes, fixed, marshal.dumps(changeable), shown)

    def fields(self) -> dict[str, Any]:
        """A copy of the fields, made many times faster than by walking through them."""
        return {**self.fixed, **marshal.loads(self.changeable)}


def _set_fields(metadata: PromptMetadata) -> dict[str, Any]:
    return {name: getattr(metadata, name) for name in metadata.model_fields_set if name != "input"}


def fields_of(options: MetadataLike | None) -> dict[str, Any]:
    """The JSON form of metadata, what wasn't set left out."""
    if options is None:
        return {}
    try:
        metadata = options if isinstance(options, PromptMetadata) else PromptMetadata.model_validate(options)
    except ValidationError as error:
        raise DotpromptError(faults_of(error, "options")) from None
    return metadata.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _defaults(fields: Mapping[str, Any]) -> dict[str, Any]:
    declared = fields.get("input")
    defaults = declared.get("default") if isinstance(declared, Mapping) else None
    return dict(defaults) if isinstance(defaults, Mapping) else {}
