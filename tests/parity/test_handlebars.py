"""Our templates against handlebars.js itself, on the cases and on templates made at random."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from chatwrap.errors import DotpromptError
from tests.dotprompt.handlebars.cases import environment, read_cases
from tests.sources import UnavailableError, handlebars_folder

CASES = read_cases()
PROGRAM = Path(__file__).with_name("handlebars.cjs")
VALUES = """
who person.name rows.1.id list.[1] this ../who @index @key @first @last @root.who gone map.x no nil half yes
off blank grid list.length ./who it i it.id ../../who @../index person none @state.v 'q' 1 true null
(lookup|list|1) (loud|who) (time)
"""
SPACES = ("", "", "\n", " ", "\n  ", "\n\n", "x", "x\n", " y", "\r\n", "\t")


@pytest.fixture(scope="module")
def package() -> Path:
    try:
        return handlebars_folder()
    except UnavailableError as error:
        pytest.skip(str(error))


def rendered_there(package: Path, templates: list[str], scratch: Path) -> list[dict[str, str]]:
    cases = [
        {"t": template, "ctx": CASES["context"], "data": CASES["data"], "partials": CASES["partials"]}
        for template in templates
    ]
    file = scratch / "cases.json"
    file.write_text(json.dumps(cases), encoding="utf-8")
    command = ["node", str(PROGRAM), str(package), str(file)]
    result = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=120)
    read: list[dict[str, str]] = json.loads(result.stdout)
    return read


def rendered_here(template: str) -> str | None:
    try:
        return environment(CASES["partials"]).compile(template).render(CASES["context"], CASES["data"])
    except DotpromptError:
        return None


def test_the_cases_are_what_handlebars_js_renders(package: Path, tmp_path: Path) -> None:
    there = rendered_there(package, [case["template"] for case in CASES["cases"]], tmp_path)
    assert [answer.get("ok") for answer in there] == [case.get("text") for case in CASES["cases"]]


class Maker:
    """Makes templates at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, *choices: str) -> str:
        return self.random.choice(choices)

    def value(self) -> str:
        return self.random.choice(VALUES.split()).replace("|", " ")

    def tag(self, text: str) -> str:
        return f"{{{{{self.one('', '', '~')}{text}{self.one('', '', '~')}}}}}"

    def template(self, depth: int) -> str:
        if depth == 0:
            return self.random.choice(SPACES)
        return "".join(
            self.random.choice(SPACES) + self.node(depth) + self.random.choice(SPACES)
            for _ in range(self.random.choice((0, 1, 1, 2, 3)))
        )

    def node(self, depth: int) -> str:
        kind = self.random.randrange(10)
        if kind < 4:
            return "." + self.tag(self.value())  # handlebars.js adds neighbouring numbers up
        if kind < 5:
            return self.tag(f"> {self.one('row', 'lines', 'data')}{self.one('', ' this', ' id=1')}")
        if kind < 6:
            return self.one(
                self.tag("! note"), self.tag("!-- }} --"), "{{{who}}}", "\\{{who}}", "\\\\{{who}}"
            )
        return self.block(depth - 1)

    def block(self, depth: int) -> str:
        items = self.one("list", "rows", "map", "none", "grid", "person.tags")
        opening, end = self.random.choice(
            [
                (f"#if {self.value()}", "/if"),
                (f"#unless {self.value()}", "/unless"),
                (
                    f"#each {items}{self.one('', ' as |it i|')}",
                    "/each",
                ),
                (f"#with {self.one('person', 'map', 'gone', 'rows')}", "/with"),
                (f"#ifEquals {self.value()} {self.value()}", "/ifEquals"),
                (f"{self.one('#', '^')}person", "/person"),
                ("#box", "/box"),
                ("#> layout", "/layout"),
                ('#*inline "row"', "/inline"),
            ]
        )
        has_else = not opening.startswith(("#>", "#*", "^"))
        inverse = self.inverse(depth) if has_else else ""
        return self.tag(opening) + self.template(depth) + inverse + self.tag(end)

    def inverse(self, depth: int) -> str:
        kind = self.random.randrange(4)
        if kind == 0:
            return ""
        if kind == 1:
            chain = self.one(
                f"else if {self.value()}", "else each list", "else with person", "else unless off"
            )
            return self.tag(chain) + self.template(depth) + self.inverse(depth)
        return self.tag(self.one("else", "^")) + self.template(depth)


@pytest.mark.parametrize("seed", range(3))
def test_templates_made_at_random_render_alike(seed: int, package: Path, tmp_path: Path) -> None:
    maker = Maker(seed)
    templates = ["<" + maker.template(3) for _ in range(600)]
    there = rendered_there(package, templates, tmp_path)
    n_rendered = 0
    for template, answer in zip(templates, there, strict=True):
        if "Cannot read properties" in answer.get("err", ""):
            continue  # it crashed
        assert rendered_here(template) == answer.get("ok"), (template, answer)
        n_rendered += "ok" in answer
    assert n_rendered > 400
