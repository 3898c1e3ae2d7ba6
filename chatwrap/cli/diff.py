"""``chatwrap diff``: where two formats write different prompts, in bytes and in token ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from chatwrap.chat.json_text import dump_json
from chatwrap.cli.subjects import Subject, open_vocabulary, subject
from chatwrap.tokens.encode import encode
from chatwrap.wrapper.jinja import JinjaTemplateChatWrapper
from chatwrap.wrapper.likeness import CASES, Case, Comparison, compare, first_difference
from chatwrap.wrapper.resolve import comparable_cases

if TYPE_CHECKING:
    from chatwrap.engine.vocabulary import Vocabulary

DIFFERENT: Final = 1
_SHOWN_BEFORE: Final = 20
_SHOWN_AFTER: Final = 40
_SHOWN_TOKENS: Final = 6


def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="A format, a .toml or .jinja file, or a model.")],
    second: Annotated[str, typer.Argument(metavar="B", help="What to compare it with.")],
    *,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Compare token ids in this model's vocabulary too.")
    ] = None,
) -> None:
    """Compare the prompts of two formats over a set of histories. Exit code 1 if any differ.

    A model stands for the template in its file. Histories that one of the two can't express as they are
    don't count.
    """
    given = open_vocabulary(model)
    left, right = subject(first, given), subject(second, given)
    vocabulary = given or left.vocabulary or right.vocabulary
    cases = _shared_cases(left, right)
    different = 0
    for case in CASES:
        if case not in cases:
            print(f"skipped  {case.name}: a template has no place for it.")
            continue
        (comparison,) = compare(left.wrapper, right.wrapper, (case,), vocabulary)
        different += _report(comparison, left, right, vocabulary)
    if different:
        raise typer.Exit(DIFFERENT)


def _shared_cases(*subjects: Subject) -> tuple[Case, ...]:
    """The cases that every template among the subjects has a place for."""
    cases: tuple[Case, ...] = CASES
    for one in subjects:
        if isinstance(one.wrapper, JinjaTemplateChatWrapper):
            taken = comparable_cases(one.wrapper.capabilities)
            cases = tuple(case for case in cases if case in taken)
    return cases


def _report(comparison: Comparison, left: Subject, right: Subject, vocabulary: Vocabulary | None) -> bool:
    """Prints what became of a case, and tells whether it differs."""
    name = comparison.case.name
    if not comparison.both_express:
        told = [
            f"{one.name}: {problem}"
            for one, problem in zip((left, right), comparison.problems, strict=True)
            if problem
        ]
        print(f"skipped  {name}: {' '.join(told)}")
        return False
    ids = _token_ids(comparison, left, right, vocabulary)
    if comparison.equal and (ids is None or ids[0] == ids[1]):
        print(f"equal    {name}")
        return False
    print(f"differs  {name}: {_places(comparison, ids)}")
    for one, prompt in zip((left, right), comparison.prompts, strict=True):
        print(f"  {one.name}: {_excerpt(prompt, comparison)}")
    if ids is not None and vocabulary is not None:
        _print_tokens(ids, (left, right))
    return True


def _places(comparison: Comparison, ids: tuple[list[int], list[int]] | None) -> str:
    places = [] if comparison.equal else [f"byte {comparison.byte_offset}"]
    if ids is not None and ids[0] != ids[1]:
        places.append(f"token {first_difference(*ids)}")
    return ", ".join(places)


def _excerpt(prompt: str, comparison: Comparison) -> str:
    """The prompt around the first difference, as JSON."""
    at = first_difference(*comparison.prompts)
    start = max(0, at - _SHOWN_BEFORE)
    before, after = prompt[start:at], prompt[at : at + _SHOWN_AFTER]
    marks = ("…" if start else "", "…" if len(prompt) > at + _SHOWN_AFTER else "")
    return f"{marks[0]}{dump_json(before)[1:-1]}»{dump_json(after)[1:-1]}{marks[1]}"


def _token_ids(
    comparison: Comparison, left: Subject, right: Subject, vocabulary: Vocabulary | None
) -> tuple[list[int], list[int]] | None:
    first, second = comparison.texts
    if vocabulary is None or first is None or second is None:
        return None
    return (
        encode(first, vocabulary, control_texts=left.wrapper.control_texts),
        encode(second, vocabulary, control_texts=right.wrapper.control_texts),
    )


def _print_tokens(ids: tuple[list[int], list[int]], subjects: tuple[Subject, Subject]) -> None:
    at = first_difference(*ids)
    for one, own in zip(subjects, ids, strict=True):
        shown = " ".join(map(str, own[at : at + _SHOWN_TOKENS]))
        print(f"  {one.name}: tokens from {at}: {shown or '(end)'}")
