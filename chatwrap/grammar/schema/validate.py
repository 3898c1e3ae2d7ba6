"""Whether a value is valid by a JSON Schema: the check for what a grammar had to leave open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import UnknownType
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from chatwrap.errors import Fault, SchemaError


def value_faults(value: Any, schema: dict[str, Any] | bool) -> list[Fault]:  # noqa: FBT001
    """All that is wrong with a JSON value by a schema, each with its JSON path.

    The draft is the one that ``$schema`` names, 2020-12 without it. Formats count. A reference to
    another document is never fetched.

    Raises `SchemaError` for a schema that jsonschema can't follow: a pattern that Python's ``re``
    doesn't read, a reference that leads nowhere or in a circle.

    >>> print(*value_faults(["a", 3], {"items": {"type": "integer"}}))
    $[0]: 'a' is not of type 'integer'.
    """
    try:
        return list(_faults(value, schema))
    except (re.error, Unresolvable, UnknownType, RecursionError) as error:
        problem = f"the answer can't be validated: {error or type(error).__name__}."
        remedy = "Remove what the report calls relaxed or unsupported."
        raise SchemaError.of("$", problem, remedy) from error


def _faults(value: Any, schema: dict[str, Any] | bool) -> Iterator[Fault]:  # noqa: FBT001
    kind = validator_for(schema, default=Draft202012Validator)
    validator = kind(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER)
    for error in validator.iter_errors(value):
        yield Fault(error.json_path, f"{error.message}.")
