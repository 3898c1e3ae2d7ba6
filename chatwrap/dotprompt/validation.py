"""Whether a value is valid by a prompt's schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chatwrap.errors import DotpromptError, Fault


def faults_by_schema(value: Any, schema: Mapping[str, Any], where: str) -> list[Fault]:
    """What is wrong with a value by a JSON Schema, by path; errors call the value `where`.

    Raises `DotpromptError` if the schema itself is none.
    """
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise DotpromptError.of(f"{where}.schema", f"no JSON Schema: {error.message}.") from None
    faults = []
    for fault in Draft202012Validator(schema).iter_errors(value):
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in fault.absolute_path)
        problem = fault.message if len(fault.message) <= 200 else fault.message[:197] + "..."
        faults.append(Fault(where + path, f"{problem}."))
    return faults
