"""`Dotprompt`: prompts from files and strings, with the helpers, partials, tools and schemas they use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeAlias

from chatwrap.chat.functions import ChatModelFunction
from chatwrap.chat.model import ChatModel, ChatRequest
from chatwrap.dotprompt.answer import PromptAnswer, PromptStream, to_request
from chatwrap.dotprompt.data import DataArgument, DataLike, conversation, variables
from chatwrap.dotprompt.document import ParsedPrompt, PromptMetadata, RenderedPrompt, parse_prompt
from chatwrap.dotprompt.handlebars.source import Source
from chatwrap.dotprompt.handlebars.template import PartialResolver
from chatwrap.dotprompt.picoschema import SchemaResolver
from chatwrap.dotprompt.prompt import MetadataLike, Prompt, Registry, fields_of
from chatwrap.dotprompt.request import as_documents
from chatwrap.dotprompt.store import DirectoryStore, PromptStore, split_file_name
from chatwrap.dotprompt.tools import ToolLike, ToolResolver, ToolsLike
from chatwrap.dotprompt.validation import faults_by_schema
from chatwrap.errors import DotpromptError
from chatwrap.files import read_text

ModelLoader: TypeAlias = Callable[[str], ChatModel]
_HUB_FILE = re.compile(r"hf:(?P<repository>[\w.-]+/[\w.-]+?)/(?P<file>.+)")


class Dotprompt:
    """Reads, renders and runs prompts.

    `store` is a folder of ``.prompt`` files, or whatever else gives prompts and partials by name.
    `model` answers; without it, `load_model` is asked for the model that a prompt names
    (``chatwrap.load_model``), once for each name. Functions among `tools` are run when a model calls them.
    """

    def __init__(
        self,
        store: str | Path | PromptStore | None = None,
        *,
        model: ChatModel | str | None = None,
        load_model: ModelLoader | None = None,
        default_model: str | None = None,
        model_configs: Mapping[str, Mapping[str, Any]] | None = None,
        helpers: Mapping[str, Callable[..., Any]] | None = None,
        partials: Mapping[str, str] | None = None,
        partial_resolver: PartialResolver | None = None,
        tools: ToolsLike = (),
        tool_resolver: ToolResolver | None = None,
        schemas: Mapping[str, Mapping[str, Any]] | None = None,
        schema_resolver: SchemaResolver | None = None,
    ) -> None:
        self.store = DirectoryStore(Path(store)) if isinstance(store, str | Path) else store
        self._model = model
        self._load_model = load_model
        self._loaded: dict[str, ChatModel] = {}
        self._prompts: dict[tuple[str, str | None], tuple[str, Prompt]] = {}
        self._partial_resolver = partial_resolver
        self._registry = Registry(
            default_model, dict(model_configs or {}), dict(schemas or {}), schema_resolver
        )
        self._registry.environment.resolver = self._find_partial
        self._registry.tools.resolver = tool_resolver
        self._registry.tools.add(tools)
        for name, function in (helpers or {}).items():
            self.define_helper(name, function)
        for name, source in (partials or {}).items():
            self.define_partial(name, source)

    def define_helper(self, name: str, function: Callable[..., Any]) -> Self:
        """Lets templates call a function: ``{{name value key=value}}``.

        One with a parameter ``options`` gets a `BlockOptions` there, with the named arguments and, for
        ``{{#name}}``, the block. Raises `DotpromptError` for the name of a helper that is built in.
        """
        self._registry.environment.define_helper(name, function)
        return self

    def define_partial(self, name: str, source: str) -> Self:
        """Lets templates put another one in: ``{{> name}}``."""
        self._registry.environment.define_partial(name, source)
        return self

    def define_tool(self, tool: ToolLike, name: str | None = None) -> Self:
        """Lets prompts name a tool: a definition, or a function that describes and runs itself."""
        self._registry.tools.add([tool] if name is None else {name: tool})
        self._registry.n_changes += 1
        return self

    def define_schema(self, name: str, schema: Mapping[str, Any]) -> Self:
        """Lets Picoschema name a JSON Schema."""
        self._registry.schemas[name] = schema
        self._registry.n_changes += 1
        return self

    def has_partial(self, name: str) -> bool:
        """Whether a partial has this name. Raises `DotpromptError` if what it says is no template."""
        return self._registry.environment.partial(name) is not None

    def parse(self, source: str, *, name: str = "prompt") -> ParsedPrompt:
        """The prompt in a text, which errors call `name`."""
        return parse_prompt(source, name=name)

    def compile(
        self, source: str | ParsedPrompt, extra: MetadataLike | None = None, *, name: str = "prompt"
    ) -> Prompt:
        """A prompt that can be rendered again and again; what `extra` says replaces what the text says."""
        parsed = source if isinstance(source, ParsedPrompt) else self.parse(source, name=name)
        if extra is not None:
            fields = {**parsed.fields, **fields_of(extra)}
            parsed = ParsedPrompt(fields, parsed.source, parsed.offsets)
        return Prompt(parsed, self._registry.environment.compile(parsed.source), self._registry)

    def render(
        self,
        source: str | ParsedPrompt,
        data: DataLike | None = None,
        options: MetadataLike | None = None,
    ) -> RenderedPrompt:
        """The messages of a prompt for ``{"input": ..., "context": ..., "docs": ..., "messages": ...}``."""
        return self.compile(source).render(data, options)

    def render_metadata(
        self, source: str | ParsedPrompt, options: MetadataLike | None = None
    ) -> PromptMetadata:
        """What is known of a prompt, schemas and tools resolved."""
        parsed = source if isinstance(source, ParsedPrompt) else self.parse(source)
        return self._registry.resolve(parsed, options)

    def load(self, name: str, *, variant: str | None = None, version: str | None = None) -> Prompt:
        """A prompt of the store, compiled once for each version. Raises `FileError` if there is none."""
        if self.store is None:
            raise DotpromptError.of("store", f"none, but {name!r} is asked for.", "Give a folder.")
        stored = self.store.load(name, variant=variant, version=version)
        known = self._prompts.get((name, variant))
        if known and known[0] == stored.version:
            return known[1]
        parsed = named(self.parse(stored.source, name=stored.where), name, variant)
        prompt = self.compile(parsed)
        self._prompts[name, variant] = stored.version, prompt
        return prompt

    def load_file(self, path: str | Path) -> Prompt:
        """The prompt in a file, wherever it is; its name tells what the front matter doesn't."""
        name, variant = split_file_name(Path(path).name)
        return self.compile(named(self.parse(read_text(path), name=str(path)), name, variant))

    def run(
        self,
        prompt: str | Prompt,
        input: Any = None,
        **arguments: Any,
    ) -> PromptAnswer:
        """The model's answer to a prompt, by its name in the store. Takes what `stream` takes.

        Raises `DotpromptError` for an input that isn't valid by ``input.schema``, and `AnswerError` for
        an answer that isn't by ``output.schema``.
        """
        return self.stream(prompt, input, **arguments).answer

    def stream(
        self,
        prompt: str | Prompt,
        input: Any = None,
        *,
        variant: str | None = None,
        version: str | None = None,
        context: Mapping[str, Any] | None = None,
        docs: Any = (),
        messages: Any = (),
        options: MetadataLike | None = None,
        sections: Mapping[str, str] | None = None,
        model: ChatModel | str | None = None,
    ) -> PromptStream:
        """The same as `run`, piece by piece: iterate over it, then take its `answer`.

        `messages` is the conversation so far, `options` replaces fields of the front matter, `sections`
        are texts for ``{{section}}``, `model` answers in place of any other.
        """
        asked = self.load(prompt, variant=variant, version=version) if isinstance(prompt, str) else prompt
        given = variables(input, "input")
        data = DataArgument(given, variables(context, "context"), as_documents(docs), conversation(messages))
        self.check(asked, given, options)
        rendered = asked.render(data, options)
        request = self.request(rendered, sections)
        return PromptStream(self._choose_model(model, rendered), request)

    def request(self, rendered: RenderedPrompt, sections: Mapping[str, str] | None = None) -> ChatRequest:
        """What a model is asked to answer a rendered prompt: history, functions, schema and options."""
        return to_request(rendered, self._functions(rendered), sections)

    def close(self) -> None:
        """Frees the models that were loaded for prompts."""
        with ExitStack() as stack:
            for model in self._loaded.values():
                if close := getattr(model, "close", None):
                    stack.callback(close)
        self._loaded.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _find_partial(self, name: str) -> Source | str | None:
        found = self._partial_resolver(name) if self._partial_resolver else None
        if found is not None or self.store is None:
            return found
        stored = self.store.load_partial(name)
        return None if stored is None else Source.of(stored.source, stored.where)

    def check(self, prompt: Prompt, given: Mapping[str, Any], options: MetadataLike | None = None) -> None:
        """Raises `DotpromptError` if variables aren't valid by the prompt's ``input.schema``."""
        declared = prompt.metadata(options).input or {}
        defaults, schema = declared.get("default"), declared.get("schema")
        if not isinstance(schema, dict):
            return
        whole = {**(defaults if isinstance(defaults, dict) else {}), **given}
        if faults := faults_by_schema(whole, schema, "input"):
            raise DotpromptError(faults)

    def _functions(self, rendered: RenderedPrompt) -> dict[str, ChatModelFunction]:
        if rendered.tools:
            raise DotpromptError.of(
                "tools", f"no tool {rendered.tools[0]!r}.", "Register it: tools=[...], or --tools FILE.py."
            )
        functions = {}
        for definition in rendered.tool_defs or ():
            tool = self._registry.tools.get(definition.name)
            own = ChatModelFunction(description=definition.description, parameters=definition.input_schema)
            functions[definition.name] = tool.function if tool else own
        return functions

    def _choose_model(self, model: ChatModel | str | None, rendered: RenderedPrompt) -> ChatModel:
        chosen = model if model is not None else self._model
        if chosen is None:
            chosen = model_name(rendered)
        if not isinstance(chosen, str):
            return chosen
        if chosen not in self._loaded:
            if self._load_model is None:
                raise DotpromptError.of(
                    "model", f"nobody loads {chosen!r}.", "Give load_model=chatwrap.load_model, or a model."
                )
            self._loaded[chosen] = self._load_model(chosen)
        return self._loaded[chosen]


def named(parsed: ParsedPrompt, name: str, variant: str | None) -> ParsedPrompt:
    """A prompt with the name and variant of its file where its front matter tells none."""
    told = {
        "name": name.rpartition("/")[2] if "/" in name else name,
        **({"variant": variant} if variant else {}),
    }
    return ParsedPrompt({**told, **parsed.fields}, parsed.source, parsed.offsets)


def model_name(prompt: PromptMetadata) -> str:
    """The model that a prompt names; of a file on a hub, in the revision that ``config.version`` tells.

    Raises `DotpromptError` if it names none, or a version of something that has none.
    """
    told = prompt.model.get("name") if isinstance(prompt.model, dict) else prompt.model
    if not isinstance(told, str) or not told:
        remedy = "Write model: NAME into its front matter, or give a model."
        raise DotpromptError.of("model", "the prompt names none.", remedy)
    version = prompt.config.get("version")
    if version is None or version == told:
        return told
    match = _HUB_FILE.fullmatch(told)
    if match is None or "@" in told:
        problem = f"{version!r} can't be chosen for {told!r}."
        raise DotpromptError.of("config.version", problem, "Only hf: files without @ have versions.")
    return f"hf:{match['repository']}@{version}/{match['file']}"
