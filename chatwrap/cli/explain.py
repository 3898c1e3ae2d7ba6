"""``chatwrap explain``: which chat wrapper a model gets, why, and what its template can express."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from chatwrap.chat.json_text import dump_json
from chatwrap.cli.streams import printable_json
from chatwrap.cli.subjects import open_vocabulary
from chatwrap.errors import DefinitionError
from chatwrap.files import read_text
from chatwrap.wrapper.chosen import is_template_file
from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper
from chatwrap.wrapper.probe import Capabilities, Feature, Outcome
from chatwrap.wrapper.resolve import TEMPLATE_KEY, ModelFacts, Resolution, resolve


def explain(
    source: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|TEMPLATE",
            help="A GGUF file, a model's name, a file's name alone, or a .jinja file.",
        ),
    ],
    *,
    chat_format: Annotated[
        str, typer.Option("--format", "-f", help="Explain this choice: a format's name or file, or 'jinja'.")
    ] = "auto",
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="For a .jinja file: the model it is for.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show which chat wrapper a model gets and why, and what its template keeps, drops and refuses."""
    facts = _facts(source, model)
    resolution = resolve(facts, chat_format)
    own = _own_template(facts)
    if as_json:
        print(printable_json(_as_json(resolution, own), indent=2))
        return
    print(f"{source}: {resolution.wrapper.wrapper_name}")
    for number, step in enumerate(resolution.steps, start=1):
        print(f"{number}. {step.rule}: {step.chosen or '-'}: {step.reason}")
    for message in resolution.warnings:
        print(f"warning: {message}")
    if own:
        print()
        _print_template(own)


def _facts(source: str, model: str | None) -> ModelFacts:
    """What there is to go by. A name that leads to no file is looked at as a name."""
    if is_template_file(source):
        return ModelFacts({TEMPLATE_KEY: read_text(source)}, open_vocabulary(model), Path(source).name)
    from chatwrap.engine.build import require_llama_cpp

    require_llama_cpp()
    from chatwrap.engine.resolve import facts_of

    return facts_of(source)


def _own_template(facts: ModelFacts) -> JinjaTemplateChatWrapper | None:
    """The file's template; None without one that compiles, which a warning tells."""
    if facts.template is None:
        return None
    try:
        return JinjaTemplateChatWrapper(facts.template, tokenizer=facts.tokenizer)
    except DefinitionError:
        return None


def _print_template(own: JinjaTemplateChatWrapper) -> None:
    found = own.capabilities
    print("The template")
    for feature, outcome in found.outcomes.items():
        print(f"  {outcome:<8} {feature}{_detail(found, feature, outcome)}")
    print(f"  generation prompt: {dump_json(found.generation_prompt)}")
    for line in (*_notes(found), *_syntax_notes(own)):
        print(f"  {line}")


def _syntax_notes(own: JinjaTemplateChatWrapper) -> list[str]:
    """The template's own notation, as far as it could be learned."""
    notes = []
    learned = own.learned_syntax
    if learned.functions:
        notes.append(f"a call: {dump_json(str(own.generate_function_call('NAME', {'KEY': 'VALUE'})))}")
        notes.append(f"a result: {dump_json(str(own.generate_function_call_result('NAME', {}, 'RESULT')))}")
    if learned.thought:
        marks = f"{learned.thought.prefix}THOUGHT{learned.thought.suffix or ''}"
        notes.append(f"a thought: {dump_json(marks)}{_OPENED if own.opens_thought else ''}")
    return notes


_OPENED: Final = ", opened by the generation prompt"


def _detail(found: Capabilities, feature: Feature, outcome: Outcome) -> str:
    if outcome is Outcome.REFUSED:
        return f": {found.refusals.get(feature, 'no reason given.')}"
    return ": dropped in silence" if outcome is Outcome.LOST else ""


def _notes(found: Capabilities) -> list[str]:
    notes = []
    if found.thought_key:
        notes.append(f"thoughts are read from: {found.thought_key}")
    if found.keeps(Feature.CALLS):
        kinds = {"objects": found.object_arguments, "JSON text": found.string_arguments}
        notes.append(f"arguments are taken as: {', '.join(kind for kind, taken in kinds.items() if taken)}")
        notes.append(f"call ids are written: {'yes' if found.prints_call_ids else 'no'}")
    if found.default_system_message:
        notes.append(f"without a system message it says: {dump_json(found.default_system_message)}")
    return notes


def _as_json(resolution: Resolution, own: JinjaTemplateChatWrapper | None) -> dict[str, Any]:
    steps = [
        {"rule": step.rule.value, "chosen": step.chosen, "reason": step.reason} for step in resolution.steps
    ]
    return {
        "format": resolution.wrapper.wrapper_name,
        "steps": steps,
        "warnings": list(resolution.warnings),
        "template": None if own is None else _template_json(own),
    }


def _template_json(own: JinjaTemplateChatWrapper) -> dict[str, Any]:
    found, learned = own.capabilities, own.learned_syntax
    return {
        "features": {feature.value: outcome.value for feature, outcome in found.outcomes.items()},
        "refusals": {feature.value: told for feature, told in found.refusals.items()},
        "thought_key": found.thought_key,
        "object_arguments": found.object_arguments,
        "string_arguments": found.string_arguments,
        "needs_null_content": found.needs_null_content,
        "prints_call_ids": found.prints_call_ids,
        "names_call_ids": found.names_call_ids,
        "generation_prompt": found.generation_prompt,
        "default_system_message": found.default_system_message,
        "opens_thought": own.opens_thought,
        "learned_call_syntax": learned.functions is not None,
        "learned_thought_syntax": learned.thought is not None,
    }
