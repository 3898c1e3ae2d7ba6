"""`AnswerFormat`: what an answer has to be, from a property, a type or a JSON Schema, and its value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from chatwrap.errors import AnswerError, Fault, PromptError
from chatwrap.grammar.schema.validate import value_faults
from chatwrap.prompts.properties import Property

ResponseFormatLike: TypeAlias = Property | Mapping[str, Any] | type | Any
"""A `Property`, a JSON Schema, a pydantic model, or any type that pydantic knows."""


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """The JSON Schema of an answer, and the type that its value is made an object of, if there is one."""

    schema: dict[str, Any]
    adapter: TypeAdapter[Any] | None = None

    @classmethod
    def of(cls, form: ResponseFormatLike) -> Self:
        """The format that `form` stands for. Raises `PromptError` for what is none."""
        if isinstance(form, Property):
            return cls(form.to_json_schema())
        if isinstance(form, Mapping):
            Property.from_json_schema(form)
            return cls(dict(form))
        remedy = "Give a Property, a JSON Schema, a pydantic model or a type."
        if isinstance(form, str):
            raise PromptError.of("response_format", f"a text: {form!r:.60}.", remedy)
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(form)
            return cls(adapter.json_schema(), adapter)
        except PydanticUserError as error:
            raise PromptError.of("response_format", f"{form!r:.60}: {error.message}", remedy) from None

    def value(self, text: str) -> Any:
        """The value that an answer's text is: an object of the type, else a JSON value.

        Raises `AnswerError` for a text that isn't JSON or isn't valid.
        """
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise AnswerError(f"it isn't JSON: {error}.", text=text) from None
        faults = value_faults(value, self.schema)
        if faults:
            raise AnswerError(f"it isn't valid: {'; '.join(map(str, faults))}", text=text)
        if self.adapter is None:
            return value
        try:
            return self.adapter.validate_json(text)
        except ValidationError as error:
            found = [Fault(_path(each["loc"]), f"{each['msg']}.") for each in error.errors(include_url=False)]
            raise AnswerError(f"it isn't valid: {'; '.join(map(str, found))}", text=text) from None


def _path(steps: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
