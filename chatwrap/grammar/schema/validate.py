"""Whether a value is valid by a JSON Schema: the check for what a grammar had to leave open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for
from referencing import Registry

from chatwrap.errors import Fault


def value_faults(value: Any, schema: dict[str, Any] | bool) -> Iterator[Fault]:  # noqa: FBT001
    """All that is wrong with a JSON value by a schema, each with its JSON path.

    The draft is the one that ``$schema`` names, 2020-12 without it. Formats count. A reference to
    another document is never fetched.
    """
    kind = validator_for(schema, default=Draft202012Validator)
    validator = kind(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER)
    for error in validator.iter_errors(value):
        yield Fault(error.json_path, f"{error.message}.")
