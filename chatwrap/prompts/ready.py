"""Templates ready to use: native tools, ReAct, calls as JSON, calls as Python.

A chat template takes ``__CHAT_HISTORY__``; an agent template takes ``custom_instruction`` and
``__PLAN__`` besides, both of which may be left out. Give either its tools with `with_tools`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from chatwrap.prompts.generation import LlmGenerationConfig
from chatwrap.prompts.messages import Message
from chatwrap.prompts.parser import OutputParser
from chatwrap.prompts.template import PromptTemplate
from chatwrap.prompts.tool_readers import JsonToolOutputParser, PythonToolOutputParser, ReactToolOutputParser
from chatwrap.prompts.tool_texts import JSON_CALLS_AS_TEXT, PYTHON_CALLS_AS_TEXT, REACT_AS_TEXT
from chatwrap.prompts.transforms import (
    CoalesceSystemMessagesTransform,
    MessageTransform,
    RemoveEmptyNonUserMessageTransform,
)

_TOOL_LIST: Final = "{% for tool in __TOOLS__ %}\n{{ tool.function | tojson }}{% endfor %}"
_ANSWER_RULE: Final = (
    "If the results so far are enough, or no tool helps, answer the user in plain words instead."
)
_INSTRUCTION: Final = "{% if custom_instruction %}{{ custom_instruction }}{% endif %}"
_PLAN: Final = "{% if __PLAN__ %}The plan, which you follow step by step:\n{{ __PLAN__ }}{% endif %}"

_JSON_TOOLS: Final = f"""\
{{% if __TOOLS__ %}}You can call these tools:{_TOOL_LIST}

To call one, write nothing but a JSON object with its name and its parameters, or a list of such objects:
{{"name": "tool", "parameters": {{"parameter": "value"}}}}
The results come between <tool_response> marks. {_ANSWER_RULE}{{% endif %}}"""

_PYTHON_TOOLS: Final = f"""\
{{% if __TOOLS__ %}}You can call these functions:{_TOOL_LIST}

To call some, write nothing but a Python list of calls with named arguments:
[function(parameter='value'), other(number=1)]
The results come between <tool_response> marks. {_ANSWER_RULE}{{% endif %}}"""

_REACT_TOOLS: Final = f"""\
{{% if __TOOLS__ %}}You solve tasks in steps: a thought, then an action, which is one call of a tool.
Tools:{_TOOL_LIST}

Write each step exactly so:
## Thought: what you need to know, and which tool tells it
## Action:
```json
{{"name": "tool", "parameters": {{"parameter": "value"}}}}
```
Then stop; the result comes as ## Observation. If the results so far are enough, or no tool helps, write:
## Thought: why you know the answer
## Answer: what you tell the user{{% endif %}}"""


def _template(
    name: str,
    tools_text: str,
    *,
    is_agent: bool,
    parser: OutputParser | None = None,
    as_text: MessageTransform | None = None,
    config: LlmGenerationConfig | None = None,
) -> PromptTemplate:
    system = [_INSTRUCTION, tools_text] if is_agent else [tools_text]
    messages = [Message(text, role="system") for text in system if text]
    closing = [Message(_PLAN, role="system")] if is_agent else []
    return PromptTemplate(
        [*messages, PromptTemplate.CHAT_HISTORY_PLACEHOLDER, *closing],
        output_parser=parser,
        post_rendering_transforms=_transforms(as_text, is_agent=is_agent),
        native_tool_calling=parser is None,
        generation_config=config,
        name=name,
    )


def _transforms(as_text: MessageTransform | None, *, is_agent: bool) -> Sequence[MessageTransform]:
    calls = [as_text] if as_text else []
    coalesce, remove = CoalesceSystemMessagesTransform(), RemoveEmptyNonUserMessageTransform()
    return [remove, coalesce, *calls] if is_agent else [*calls, remove, coalesce]


_REACT_CONFIG: Final = LlmGenerationConfig(stop=["## Observation"])

NATIVE_CHAT_TEMPLATE: Final = _template("native chat", "", is_agent=False)
NATIVE_AGENT_TEMPLATE: Final = _template("native agent", "", is_agent=True)
REACT_CHAT_TEMPLATE: Final = _template(
    "ReAct chat",
    _REACT_TOOLS,
    is_agent=False,
    parser=ReactToolOutputParser(),
    as_text=REACT_AS_TEXT,
    config=_REACT_CONFIG,
)
REACT_AGENT_TEMPLATE: Final = _template(
    "ReAct agent",
    _REACT_TOOLS,
    is_agent=True,
    parser=ReactToolOutputParser(),
    as_text=REACT_AS_TEXT,
    config=_REACT_CONFIG,
)
LLAMA_CHAT_TEMPLATE: Final = _template(
    "JSON-call chat", _JSON_TOOLS, is_agent=False, parser=JsonToolOutputParser(), as_text=JSON_CALLS_AS_TEXT
)
LLAMA_AGENT_TEMPLATE: Final = _template(
    "JSON-call agent", _JSON_TOOLS, is_agent=True, parser=JsonToolOutputParser(), as_text=JSON_CALLS_AS_TEXT
)
PYTHON_CALL_CHAT_TEMPLATE: Final = _template(
    "Python-call chat",
    _PYTHON_TOOLS,
    is_agent=False,
    parser=PythonToolOutputParser(),
    as_text=PYTHON_CALLS_AS_TEXT,
)
PYTHON_CALL_AGENT_TEMPLATE: Final = _template(
    "Python-call agent",
    _PYTHON_TOOLS,
    is_agent=True,
    parser=PythonToolOutputParser(),
    as_text=PYTHON_CALLS_AS_TEXT,
)
