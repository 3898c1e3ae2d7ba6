"""The definition that equals a chat template: a built-in one, or one drafted from what it renders."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

from chatwrap.chat.slotted import as_slotted
from chatwrap.chat.tokenizer import Tokenizer
from chatwrap.errors import DefinitionError, HistoryError, TemplateError
from chatwrap.files import read_text
from chatwrap.wrapper.definition import builtin_definitions, parse_definition
from chatwrap.wrapper.drafts import Drafter
from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper
from chatwrap.wrapper.likeness import Case, Comparison, compare
from chatwrap.wrapper.resolve import comparable_cases
from chatwrap.wrapper.template import TemplateChatWrapper

_DRAFT: Final = Path("draft.toml")
_CHOICES: Final[Mapping[str, tuple[Any, ...]]] = {
    "trim_messages": (False, True, ["model"]),
    "join_adjacent_messages_of_the_same_type": (False, True),
    "hoist_system_messages": (False, True),
    "kept_thoughts": ("all", "after_last_user", "none"),
    "empty_thoughts": ("none", "last", "after_last_user", "all"),
}
_WITH_THOUGHTS: Final = ("kept_thoughts", "empty_thoughts")


@dataclass(frozen=True, slots=True)
class Conversion:
    """A definition as TOML text; `builtin` is its name if it is a built-in one."""

    text: str
    builtin: str | None = None


def convert_template(own: JinjaTemplateChatWrapper, tokenizer: Tokenizer | None = None) -> Conversion:
    """The definition that renders every comparable history as the template `own` does, byte for byte.

    Costs about a hundred renders of short histories in each of the formats that are tried. Raises
    `DefinitionError` if no definition was found, with the first histories that the likeliest one renders
    otherwise.
    """
    cases = [case for case in comparable_cases(own.capabilities) if _is_taken(own, case)]
    if not cases:
        problem = "it takes no history as it is, so that nothing can be compared."
        raise DefinitionError.of("template", problem, "Run `chatwrap lint` to see what it does.")
    for definition in builtin_definitions():
        if not _differences(own, definition.wrapper, cases, tokenizer):
            return Conversion(read_text(definition.path), definition.name)
    best: list[str] | None = None
    for options in _drafts(own, tokenizer):
        text = written_definition(options)
        differences = _differences(own, parse_definition(text, path=_DRAFT).wrapper, cases, tokenizer)
        if not differences:
            return Conversion(text)
        best = differences if best is None or len(differences) < len(best) else best
    problem = "no definition found that equals it."
    if best is not None:
        problem = f"no definition found that equals it; the likeliest differs on {', '.join(best)}."
    raise DefinitionError.of("template", problem, "Use the template itself: it is a format, too.")


def _is_taken(own: JinjaTemplateChatWrapper, case: Case) -> bool:
    """Whether the template takes a history as it is."""
    try:
        return not own.generate_context_state(case.history, case.functions).changes
    except HistoryError:
        return False


def _differences(
    own: JinjaTemplateChatWrapper, other: TemplateChatWrapper, cases: list[Case], tokenizer: Tokenizer | None
) -> list[str]:
    """The names of the cases that the two render differently."""
    found: Iterator[Comparison] = compare(own, other, cases, tokenizer)
    return [comparison.case.name for comparison in found if not comparison.equal]


def _drafts(own: JinjaTemplateChatWrapper, tokenizer: Tokenizer | None) -> Iterator[dict[str, Any]]:
    """Options for definitions that may equal the template, the plainest first."""
    drafter = Drafter(own, tokenizer)
    frames = drafter.frames()
    if frames is None:
        return
    frames |= drafter.functions(frames)
    thought = own.learned_syntax.thought
    segments = {}
    if thought is not None and thought.suffix is not None:
        prefix, suffix = (str(as_slotted(text).fill({})) for text in (thought.prefix, thought.suffix))
        segments = {"segments": {"thought_template": f"{prefix}{{{{content}}}}{suffix}"}}
    names = [name for name in _CHOICES if segments or name not in _WITH_THOUGHTS]
    for values in product(*(_CHOICES[name] for name in names)):
        options = {**frames, **dict(zip(names, values, strict=True)), **segments}
        try:
            TemplateChatWrapper(**options)
        except TemplateError:
            return
        yield options


def written_definition(options: Mapping[str, Any]) -> str:
    """The options of a `TemplateChatWrapper` as the text of a definition; those by default are left out.

    >>> print(written_definition({"template": "a\\n", "trim_messages": True, "opening": {"plain": "<s>"}}))
    template = "a\\n"
    trim_messages = true
    <BLANKLINE>
    [opening]
    plain = "<s>"
    <BLANKLINE>
    """
    plain = {key: value for key, value in options.items() if not isinstance(value, dict)}
    defaults = {name: values[0] for name, values in _CHOICES.items()}
    defaults["join_adjacent_messages_of_the_same_type"] = True
    lines = [f"{key} = {_toml(value)}" for key, value in plain.items() if value != defaults.get(key)]
    for key, value in options.items():
        if isinstance(value, dict):
            lines += ["", f"[{key}]", *(f"{name} = {_toml(text)}" for name, text in value.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """A string, a flag or a list of strings in TOML, which writes them as JSON does but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
