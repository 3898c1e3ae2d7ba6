"""How a conversation opens: system text and function documentation, each where the format wants it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

from chatwrap.chat.functions import ChatModelFunctions
from chatwrap.chat.json_text import dump_json
from chatwrap.chat.openai import functions_to_openai
from chatwrap.chat.slotted import Slot
from chatwrap.chat.text import LlamaText, LlamaTextInput, control
from chatwrap.errors import Fault
from chatwrap.wrapper.declarations import (
    GEMMA_MARKS,
    gemma_declarations,
    namespace_of,
    namespaced_json_lines,
    python_stubs,
    xml_functions,
)
from chatwrap.wrapper.document import typescript_signatures
from chatwrap.wrapper.reader import TemplateReader
from chatwrap.wrapper.slots import SlotRule, SlotString
from chatwrap.wrapper.typescript import functionary_namespace, harmony_namespace

PLACES: Final = ("start", "last_user")
FORMS: Final[Mapping[str, Callable[[ChatModelFunctions], LlamaTextInput] | None]] = {
    "json_lines": None,
    "json_array": None,
    "bare_json_lines": None,
    "typescript": typescript_signatures,
    "xml": xml_functions,
    "python_stubs": python_stubs,
    "gemma_declarations": gemma_declarations,
    "harmony_namespace": harmony_namespace,
    "functionary_namespace": functionary_namespace,
    "namespaced_json_lines": namespaced_json_lines,
}

_SYSTEM: Final = SlotRule(Slot.SYSTEM_PROMPT, "the system message goes", anywhere=True)
_FUNCTIONS: Final = SlotRule(Slot.FUNCTIONS, "the functions' documentation goes", anywhere=True)
_RECIPIENTS: Final = SlotRule(Slot.RECIPIENTS, "the functions as recipients go", optional=True, anywhere=True)
_MESSAGE: Final = SlotRule(Slot.MESSAGE, "the user's message goes", anywhere=True)
_OPTIONAL_MESSAGE: Final = SlotRule(Slot.MESSAGE, "the user's message goes", optional=True, anywhere=True)
_DATE: Final = SlotRule(Slot.DATE, "today's date goes", optional=True, repeatable=True, anywhere=True)
_CASES: Final[Mapping[str, tuple[SlotRule, ...]]] = {
    "plain": (_DATE,),
    "system": (_SYSTEM, _DATE),
    "functions": (_FUNCTIONS, _RECIPIENTS, _DATE),
    "system_and_functions": (_SYSTEM, _FUNCTIONS, _RECIPIENTS, _DATE),
}
_RECIPIENT: Final = (SlotRule(Slot.FUNCTION_NAME, "the function's name goes"),)
_DOCUMENTED: Final = (SlotRule(Slot.FUNCTIONS, "the functions' documentation goes"),)


@dataclass(frozen=True, slots=True)
class Opening:
    """The opening of a conversation for each case: with or without system message and functions.

    A case that the format doesn't give is opened by the ordinary frames. An opening with a slot for the
    user's message takes the place of the frame of the first user message, or of the last one if `place`
    is ``last_user``.
    """

    cases: Mapping[str, SlotString] = field(default_factory=dict)
    place: str = "start"

    def case(self, *, has_system: bool, has_functions: bool) -> str | None:
        """The case that fits and is given. One without system is no match for a history that has it,
        except for functions: then the system message goes into its ordinary frame.
        """
        name = "functions" if has_functions else "system" if has_system else "plain"
        if has_system and has_functions and "system_and_functions" in self.cases:
            name = "system_and_functions"
        return name if name in self.cases else None

    @property
    def documents_functions(self) -> bool:
        """Whether functions have a place of their own here."""
        return "functions" in self.cases

    @property
    def is_dated(self) -> bool:
        """Whether today's date stands in any case."""
        return any(Slot.DATE in case.slots for case in self.cases.values())

    @property
    def texts(self) -> Iterator[str]:
        """The format's own texts in all cases."""
        return (text for case in self.cases.values() for text in case.texts)


def fill(text: SlotString, values: Mapping[Slot, LlamaTextInput]) -> LlamaText:
    """`text` with its slots filled: what stands between them is control text."""
    parts: list[LlamaTextInput] = []
    for own, slot in zip_longest(text.texts, text.slots):
        parts += [control(own), values.get(slot, "") if slot else ""]
    return LlamaText(parts)


@dataclass(frozen=True, slots=True)
class FunctionDocumentation:
    """How functions are told to the model: a text around them, and their form.

    >>> from chatwrap.chat.functions import as_functions
    >>> str(FunctionDocumentation().text(as_functions({"now": {"description": "The time."}})))
    '{"type": "function", "function": {"name": "now", "description": "The time."}}'
    """

    template: SlotString = field(default_factory=lambda: SlotString(("", ""), (Slot.FUNCTIONS,)))
    form: str = "json_lines"
    separator: str = "\n"
    indent: int | None = None
    recipient: SlotString = field(default_factory=lambda: SlotString(("", ""), (Slot.FUNCTION_NAME,)))

    def recipients(self, functions: ChatModelFunctions) -> LlamaText:
        """What the functions are as recipients of messages: a text for each namespace of names."""
        names = dict.fromkeys(map(namespace_of, functions))
        return LlamaText([fill(self.recipient, {Slot.FUNCTION_NAME: name}) for name in names])

    def text(self, functions: ChatModelFunctions, *, document_params: bool = True) -> LlamaText:
        """The documentation of `functions`. Names, descriptions and schemas are content."""
        if not document_params:
            functions = {
                name: function.model_copy(update={"parameters": None}) for name, function in functions.items()
            }
        return fill(self.template, {Slot.FUNCTIONS: self._written(functions)})

    def _written(self, functions: ChatModelFunctions) -> LlamaTextInput:
        if (write := FORMS[self.form]) is not None:
            return write(functions)
        tools: list[dict[str, Any]] = functions_to_openai(functions)
        match self.form:
            case "json_array":
                return dump_json(tools, indent=self.indent, where="functions")
            case "bare_json_lines":
                tools = [tool["function"] for tool in tools]
        lines = [dump_json(tool, indent=self.indent, where="functions") for tool in tools]
        return LlamaText.join_values(control(self.separator), lines)


def read_opening(options: object, reader: TemplateReader) -> Opening:
    """The opening that the option ``opening`` describes; faults go to `reader`."""
    if options is None:
        return Opening()
    given = reader.mapping(options, "opening", optional=(*_CASES, "at"))
    place = reader.choice(given.pop("at", PLACES[0]), PLACES, "opening.at")
    message = _MESSAGE if place == "last_user" else _OPTIONAL_MESSAGE
    cases = {
        name: reader.split(text, (*_CASES[name], message), f"opening.{name}") for name, text in given.items()
    }
    if "system_and_functions" in cases and "functions" not in cases:
        reader.faults.append(
            Fault("opening.functions", "missing.", "Say how functions stand without a system message too.")
        )
    return Opening({name: text for name, text in cases.items() if text}, place)


def read_documentation(options: object, reader: TemplateReader) -> FunctionDocumentation:
    """The documentation that the option ``function_documentation`` describes."""
    if options is None:
        return FunctionDocumentation()
    where = "function_documentation"
    keys = ("template", "form", "separator", "indent", "recipient")
    given = reader.mapping(options, where, optional=keys)
    default = FunctionDocumentation()
    template = (
        reader.split(given["template"], _DOCUMENTED, f"{where}.template") if "template" in given else None
    )
    separator = reader.text(given.get("separator", default.separator), f"{where}.separator")
    indent = given.get("indent")
    if indent is not None and (isinstance(indent, bool) or not isinstance(indent, int) or indent < 0):
        reader.faults.append(Fault(f"{where}.indent", f"must be a whole number from 0 on, not {indent!r}."))
    form = reader.choice(given.get("form", default.form), tuple(FORMS), f"{where}.form")
    recipient = (
        reader.split(given["recipient"], _RECIPIENT, f"{where}.recipient") if "recipient" in given else None
    )
    return FunctionDocumentation(
        template or default.template, form, separator, indent, recipient or default.recipient
    )


def texts_of(documentation: FunctionDocumentation) -> Sequence[str]:
    """The format's own texts in a documentation."""
    marks = GEMMA_MARKS if documentation.form == "gemma_declarations" else ()
    return (
        *documentation.template.texts,
        documentation.separator,
        *documentation.recipient.texts,
        *marks,
    )
