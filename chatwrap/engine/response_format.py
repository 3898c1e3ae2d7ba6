"""`ResponseFormat`: the shape an answer is asked for in, and the value that a finished answer is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import pydantic_core
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from chatwrap.engine.sampling import SamplingOptions
from chatwrap.errors import AnswerError, Fault, OptionError, SchemaError
from chatwrap.grammar.grammar import Grammar
from chatwrap.grammar.schema.validate import value_faults

if TYPE_CHECKING:
    from chatwrap.engine.generate import GenerationResult

ResponseFormatLike: TypeAlias = "ResponseFormat | Grammar | dict[str, Any] | bool | type | Any"
"""A JSON Schema, a pydantic model (or any type that pydantic knows), a `Grammar`, a `ResponseFormat`."""


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """What an answer has to be: a text of `grammar`, read by `adapter` if there is one.

    The value of an answer is an object of the adapter's type, else the JSON value where the grammar
    comes from a schema, else the text. What the grammar's report calls open is validated.

    >>> ResponseFormat.of({"type": "integer"}).value("42")
    42
    """

    grammar: Grammar
    adapter: TypeAdapter[Any] | None = None

    @classmethod
    def of(cls, form: ResponseFormatLike, **options: Any) -> Self:
        """The response format that `form` stands for.

        `options` are those of `Grammar.from_json_schema`, for a schema or a type: it is closed unless
        ``closed=False``, and what can't be enforced is an error unless ``unsupported="relax"``.

        Raises `SchemaError` for a schema that can't be followed, `OptionError` for what is none of the
        four.
        """
        if options and isinstance(form, ResponseFormat | Grammar):
            remedy = "Give them where it is made."
            raise OptionError.of("response_format", "a finished grammar takes no options.", remedy)
        if isinstance(form, cls):
            return form
        if isinstance(form, Grammar):
            return cls(form)
        options = {"closed": True, **options}
        if isinstance(form, dict | bool):
            return cls(Grammar.from_json_schema(form, **options))
        adapter = _adapter(form)
        return cls(Grammar.from_json_schema(_schema_of(adapter), **options), adapter)

    def applied_to(self, options: SamplingOptions) -> SamplingOptions:
        """`options` with the grammar. Raises `OptionError` if they have one already."""
        if options.grammar is not None:
            raise OptionError.of("response_format", "given together with a grammar.", "Give one of them.")
        return replace(options, grammar=self.grammar)

    def value_of(self, result: GenerationResult) -> Any:
        """The value of an answer. Raises `AnswerError` if it was cut short or isn't valid."""
        if problem := self._cut(result):
            raise AnswerError(*problem, text=result.text)
        return self.value(result.text)

    def value(self, text: str) -> Any:
        """The value that a whole answer is. Raises `AnswerError` if it isn't valid."""
        if self.adapter is None and self.grammar.schema is None:
            return text
        try:
            value = json.loads(text) if self.adapter is None else self.adapter.validate_json(text)
            faults = list(self._faults(value, text))
        except ValidationError as error:
            faults = list(_pydantic_faults(error))
        except (ValueError, RecursionError) as error:
            raise AnswerError(f"it isn't JSON: {error}.", text=text) from None
        if faults:
            raise AnswerError(f"it isn't valid: {'; '.join(map(str, faults))}", text=text)
        return value

    def partial_value(self, text: str) -> Any:
        """The JSON value as far as `text` has it, strings and containers that are still open included.

        It isn't validated. None while nothing of it can be read. For a grammar without a schema it is
        the text. Cost linear in the text.

        >>> ResponseFormat.of({"type": "object", "properties": {"a": {}}}).partial_value('{"a": [1, "x')
        {'a': [1, 'x']}
        """
        if self.adapter is None and self.grammar.schema is None:
            return text
        try:
            return pydantic_core.from_json(text, allow_partial="trailing-strings")
        except ValueError:
            return None

    def _faults(self, value: Any, text: str) -> Iterator[Fault]:
        if not self.grammar.report.is_exact:
            yield from value_faults(value if self.adapter is None else json.loads(text), self.grammar.schema)

    def _cut(self, result: GenerationResult) -> tuple[str, str] | None:
        """What cut an answer short, and the mend; None if it is whole."""
        stop = result.stop
        if stop is not None and stop.token_id is not None:
            return None
        matcher = self.grammar.matcher()
        matcher.feed(result.text)
        if matcher.is_final or (stop is not None and matcher.is_complete):
            return None
        after = f"after {result.n_completion_tokens} tokens, before it was complete."
        if stop is not None:
            return f"the stop {stop.text!r} cut it {after}", "Leave that stop out."
        if result.finish_reason == "abort":
            return f"it was aborted {after}", ""
        return f"it was cut {after}", "Raise max_tokens, or load the model with a larger n_ctx."


def _adapter(form: Any) -> TypeAdapter[Any]:
    """The type's adapter, complete: pydantic leaves open what it can't resolve yet."""
    remedy = "Give a JSON Schema, a pydantic model, a type or a Grammar."
    if isinstance(form, str):
        raise OptionError.of("response_format", f"{form!r:.60} is a text.", remedy)
    try:
        adapter = TypeAdapter(form)
        adapter.rebuild(raise_errors=True)
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        raise OptionError.of("response_format", f"{form!r:.60}: {error.message}", remedy) from None
    return adapter


def _schema_of(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    try:
        return adapter.json_schema()
    except PydanticUserError as error:
        raise SchemaError.of("$", error.message, "Choose types that JSON has.") from None


def _pydantic_faults(error: ValidationError) -> Iterator[Fault]:
    for detail in error.errors(include_url=False):
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in detail["loc"])
        yield Fault("$" + "".join(steps), f"{detail['msg']}.")
