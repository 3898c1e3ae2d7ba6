"""Rendering a prompt of medium size, beside dotpromptz, Google's own implementation in Python.

The prompt: front matter of 28 lines; two roles, five rules, ten documents with a condition and an inner
loop each, a comparison, JSON and a picture. Run: ``uv run pytest benchmarks/test_dotprompt.py``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chatwrap.dotprompt.dotprompt import Dotprompt

SOURCE = """---
name: review
model: local/small
description: Reviews documents against rules.
config:
  temperature: 0.2
  topP: 0.9
  topK: 40
  maxOutputTokens: 800
  stopSequences: [END]
input:
  default:
    tone: plain
  schema:
    tone: string
    rules(array): string
    docs(array, the documents):
      title: string
      body: string
      tags(array): string
      stars?: integer
    meta: any
output:
  format: json
  schema:
    verdict: string, one word
    reasons(array): string
team.owner: docs
---
{{role "system"}}
You review documents in a {{tone}} tone. Rules:
{{#each rules}}
{{@index}}. {{this}}
{{/each}}
{{#ifEquals tone "plain"}}Use short words.{{else}}Use {{tone}} words.{{/ifEquals}}
{{role "user"}}
{{#each docs}}
## {{title}}{{#if stars}} ({{stars}} stars){{/if}}
{{body}}
Tags: {{#each tags}}{{this}}{{#unless @last}}, {{/unless}}{{/each}}
{{/each}}
Meta: {{json meta}}
{{media url=picture}}
"""
INPUT: dict[str, Any] = {
    "tone": "plain",
    "rules": [f"Rule number {index} is strict" for index in range(5)],
    "docs": [
        {
            "title": f"Document {index}",
            "body": "The body of a document, which says things.",
            "tags": ["a", "b", "c"],
            "stars": index,
        }
        for index in range(10)
    ],
    "meta": {"a": 1, "b": [1, 2, 3], "c": {"d": "e"}},
    "picture": "data:image/png;base64,AAAA",
}


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def ours() -> Callable[[], Any]:
    prompt = Dotprompt().compile(SOURCE)
    return lambda: prompt.render({"input": INPUT}).messages


def theirs(loop: asyncio.Runner, n_times: int = 1) -> Callable[[], Any]:
    dotpromptz = pytest.importorskip("dotpromptz.dotprompt")
    data = pytest.importorskip("dotpromptz.typing").DataArgument(input=INPUT)

    async def compiled() -> Any:
        return await dotpromptz.Dotprompt().compile(SOURCE)

    async def render() -> Any:
        for _ in range(n_times - 1):
            await prompt(data)
        return (await prompt(data)).messages

    prompt = loop.run(compiled())
    return lambda: loop.run(render())


@pytest.mark.benchmark(group="compiled prompt")
@pytest.mark.parametrize("name", ["chatwrap", "dotpromptz"])
def test_render(benchmark: Any, name: str, loop: asyncio.Runner) -> None:
    benchmark(ours() if name == "chatwrap" else theirs(loop))


@pytest.mark.benchmark(group="from the text")
def test_parse_compile_and_render(benchmark: Any) -> None:
    benchmark(lambda: Dotprompt().render(SOURCE, {"input": INPUT}))


def test_ten_times_the_rate_of_dotpromptz(loop: asyncio.Runner) -> None:
    mine, other = ours(), theirs(loop, 20)
    text = "".join(message.text for message in mine())
    parts = [part for message in other() for part in message.content]
    assert text == "".join(getattr(part, "text", None) or "" for part in parts)

    assert max(rate(mine) / (20 * rate(other)) for _ in range(3)) > 10


def rate(function: Callable[[], Any], seconds: float = 0.5) -> float:
    """Calls a second of processor time."""
    start, n_calls = time.process_time(), 0
    while time.process_time() - start < seconds:
        function()
        n_calls += 1
    return n_calls / (time.process_time() - start)
