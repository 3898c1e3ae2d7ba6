"""Templates render as handlebars.js renders them, within bounds, and structure never comes out of data."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatwrap.dotprompt.handlebars.template import Environment
from chatwrap.dotprompt.helpers import HELPERS, RoleMark
from chatwrap.errors import DotpromptError
from tests.dotprompt.handlebars.cases import environment, read_cases

CASES = read_cases()


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["template"][:60])
def test_a_template_renders_as_in_handlebars_js(case: dict[str, Any]) -> None:
    made = environment(CASES["partials"])
    if "error" in case:
        with pytest.raises(DotpromptError):
            made.compile(case["template"]).render(CASES["context"], CASES["data"])
    else:
        assert made.compile(case["template"]).render(CASES["context"], CASES["data"]) == case["text"]


# Where we are more friendly than handlebars.js, on purpose.
FRIENDLIER = {
    '{"a": {{n}}}': '{"a": 3}',
    "{{list.1}}": "b",
    "{{{{raw}}}}{{who}} {{{{/raw}}}}": "{{who}} ",
    "{{yes}}{{n}}": "true3",
    "{{#each numbered}}{{@key}}{{/each}}": "ba10",
}


@pytest.mark.parametrize("template", FRIENDLIER)
def test_where_handlebars_js_refuses_or_errs(template: str) -> None:
    context = {"n": 3, "list": ["a", "b"], "who": "x", "yes": True, "numbered": {"b": 0, "a": 0, "10": 0}}
    assert environment({}).compile(template).render(context) == FRIENDLIER[template]


def nested(depth: int, wrap: Callable[[Any], Any], innermost: Any) -> Any:
    return reduce(lambda value, _: wrap(value), range(depth), innermost)


DEEP_LIST = nested(5000, lambda value: [value], 1)
ITSELF: list[Any] = []
ITSELF.append(ITSELF)
FAULTS: list[tuple[str, Any, str]] = [
    (
        "a\n{{#if x}}\n  {{#each y}}\n{{/if}}",
        {},
        "template:4:1: {{/if}} closes {{#each}}. Write {{/each}}.\n  {{/if}}\n  ^",
    ),
    (
        "{{#if x}}a",
        {},
        "template:1:11: unexpected end of the template. Close {{#if}} with {{/if}} first.\n"
        "  {{#if x}}a\n            ^",
    ),
    ("a {{/if}}", {}, "template:1:3: unexpected '{{/'. No block is open here.\n  a {{/if}}\n    ^"),
    ("x\n  {{name", {}, "template:2:3: a tag that isn't closed. Close it with }}.\n    {{name\n    ^"),
    ("{{}}", {}, "template:1:3: unexpected '}}'. Put a name here.\n  {{}}\n    ^"),
    ("{{!-- x", {}, "template:1:1: a comment that isn't closed. Close it with }} or --}}.\n  {{!-- x\n  ^"),
    ("{{jsn x}}", {}, "template:1:3: no helper 'jsn'. Did you mean 'json'?\n  {{jsn x}}\n    ^"),
    (
        "{{zq x}}",
        {},
        "template:1:3: no helper 'zq'. Register it, or remove the arguments.\n  {{zq x}}\n    ^",
    ),
    (
        "{{json}}",
        {},
        "template:1:1: json: missing a required argument: 'value'. "
        "Change the arguments, or write {{this.json}} for a variable.\n  {{json}}\n  ^",
    ),
    (
        "{{#if a b}}{{/if}}",
        {},
        "template:1:1: if with 2 arguments. Give it one argument.\n  {{#if a b}}{{/if}}\n  ^",
    ),
    ("{{if a}}", {}, "template:1:1: if without a block. Write {{#if ...}}.\n  {{if a}}\n  ^"),
    ("{{> a b c}}", {}, "template:1:1: 2 contexts for a partial. Give one.\n  {{> a b c}}\n  ^"),
    (
        "{{> gone}}",
        {},
        "template:1:1: no partial 'gone'. Define it, or put it into the folder as a file.\n  {{> gone}}\n  ^",
    ),
    (
        "{{> (lookup . 'a')}}",
        {"a": 1},
        "template:1:1: a partial's name is 1. Give a string.\n  {{> (lookup . 'a')}}\n  ^",
    ),
    (
        '{{role "User"}}',
        {},
        "template:1:1: role: 'User' is no role. Use system, user, model, tool.\n  {{role \"User\"}}\n  ^",
    ),
    (
        "{{role}}",
        {},
        "template:1:1: role: missing a required argument: 'name'. "
        "Change the arguments, or write {{this.role}} for a variable.\n  {{role}}\n  ^",
    ),
    (
        "{{section 3}}",
        {},
        "template:1:1: section: 3 is no section's name. Give a string.\n  {{section 3}}\n  ^",
    ),
    (
        "{{media url=x}}",
        {},
        "template:1:1: media: url is nothing. Give the address as a string.\n  {{media url=x}}\n  ^",
    ),
    (
        "a\n{{x}}",
        {"x": object()},
        "template:2:1: a Python object, not a JSON value. Convert it first.\n  {{x}}\n  ^",
    ),
    (
        "{{x.y}}",
        {"x": print},
        "template:1:3: a Python builtin_function_or_method, not a JSON value. Convert it first.\n"
        "  {{x.y}}\n    ^",
    ),
    (
        "{{json x}}",
        {"x": {1}},
        "template:1:1: json: a Python set, not a JSON value. Convert it first.\n  {{json x}}\n  ^",
    ),
    (
        "{{#each x}}{{/each}}",
        {"x": {1}},
        "template:1:1: each over a Python set, not a JSON value.\n  {{#each x}}{{/each}}\n  ^",
    ),
    ("{{x}}", {"x": DEEP_LIST}, "template:1:1: nested too deep. Flatten the data.\n  {{x}}\n  ^"),
    (
        "{{json x}}",
        {"x": DEEP_LIST},
        "template:1:1: json: nested too deep. Flatten the data.\n  {{json x}}\n  ^",
    ),
    ("{{json x}}", {"x": ITSELF}, "template:1:1: json: Circular reference detected.\n  {{json x}}\n  ^"),
    (
        "{{#each x}}{{../y}}{{/each}}",
        {"x": [1] * 1000, "y": "z" * 60_000},
        "template:1:1: more than 50000000 characters of output. Give it less data.\n"
        "  {{#each x}}{{../y}}{{/each}}\n  ^",
    ),
    (
        "{{#each x}}{{json ../y}}{{/each}}",
        {"x": [1] * 1000, "y": ["z" * 600_000]},
        "template:1:1: more than 50000000 characters of output. Give it less data.\n"
        "  {{#each x}}{{json ../y}}{{/each}}\n  ^",
    ),
    (
        "{{#each x}}{{#each ../x}}{{/each}}{{/each}}",
        {"x": [1] * 2000},
        "template:1:1: more than 1000000 items and partials. Give it less data.\n"
        "  {{#each x}}{{#each ../x}}{{/each}}{{/each}}\n  ^",
    ),
]


@pytest.mark.parametrize("index", range(len(FAULTS)), ids=[fault[0][:40] for fault in FAULTS])
def test_a_fault_tells_its_place(index: int) -> None:
    template, context, message = FAULTS[index]
    made = Environment()
    made.helpers |= HELPERS
    with pytest.raises(DotpromptError) as caught:
        made.compile(template).render(context)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "template",
    [
        "{{#if a}}" * 5000 + "{{/if}}" * 5000,
        "{{json " + "(lookup a " * 5000 + "b" + ")" * 5000 + "}}",
        "{{#if a}}" + "{{else if b}}" * 5000 + "{{/if}}",
        "{{#> a}}" * 5000 + "{{/a}}" * 5000,
    ],
    ids=["blocks", "sub-expressions", "else if", "partial blocks"],
)
def test_a_template_that_is_nested_too_deep_is_refused(template: str) -> None:
    with pytest.raises(DotpromptError) as caught:
        environment({}).compile(template)
    assert caught.value.faults[0].problem == "nested deeper than 100 levels."


def test_as_deep_as_allowed_renders() -> None:
    made = environment({})
    assert made.compile("{{#if a}}" * 100 + "x" + "{{/if}}" * 100).render({"a": 1}) == "x"
    calls = "{{loud " + "(loud " * 99 + "a" + ")" * 99 + "}}"
    assert made.compile(calls).render({"a": "x"}) == "X" + "!" * 100


TREE = "{{v}}{{#each kids}}{{> tree}}{{/each}}"


def test_data_ends_the_recursion_of_partials() -> None:
    tree = nested(150, lambda value: {"v": 1, "kids": [value]}, {"v": 0, "kids": []})
    assert environment({"tree": TREE}).compile("{{> tree}}").render(tree) == "1" * 150 + "0"


@pytest.mark.parametrize(
    ("partials", "template", "message"),
    [
        (
            {"a": "{{> b}}", "b": "x{{> a}}"},
            "{{> a}}",
            "partial 'b':1:2: partials stand deeper than 200 in one another: a > b > a > .... "
            "End the recursion.\n  x{{> a}}\n   ^",
        ),
        (
            {"tree": TREE},
            "{{> tree}}",
            "partial 'tree':1:20: partials stand deeper than 200 in one another: tree > tree > .... "
            f"End the recursion.\n  {TREE}\n                     ^",
        ),
    ],
)
def test_recursion_without_end_names_the_chain(partials: dict[str, str], template: str, message: str) -> None:
    tree = nested(5000, lambda value: {"v": 1, "kids": [value]}, {})
    with pytest.raises(DotpromptError) as caught:
        environment(partials).compile(template).render(tree)
    assert str(caught.value) == message


class Guarded:
    """Whatever a template does with it, nothing of it may be read or called."""

    secret = "secret"

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)

    def __call__(self) -> Any:
        raise AssertionError("called")

    def __str__(self) -> str:
        raise AssertionError("shown")


@pytest.mark.parametrize(
    "template",
    [
        "{{x}}",
        "{{x.secret}}",
        "{{json x}}",
        "{{lookup x 'secret'}}",
        "{{#with x}}{{secret}}{{/with}}",
        "{{#each x}}{{/each}}",
    ],
)
def test_objects_are_neither_read_nor_called(template: str) -> None:
    with pytest.raises(DotpromptError) as caught:
        environment({}).compile(template).render({"x": Guarded()})
    assert "a Python Guarded, not a JSON value" in str(caught.value)


def test_helpers_get_arguments_and_blocks() -> None:
    made = Environment()
    made.define_helper("greet", lambda name, *, style="Hi": f"{style} {name}")
    made.define_helper(
        "times", lambda n, options: "".join(options.fn({"i": i}, data={"i": i}) for i in range(n))
    )
    made.define_helper(
        "here", lambda options: f"{options.context['a']}{options.data['v']}{options.hash}{options.is_block}"
    )
    made.define_helper("nothing", lambda value: value)
    assert made.compile("{{greet 'Bo'}}, {{greet a style='Yo'}}").render({"a": "Al"}) == "Hi Bo, Yo Al"
    assert made.compile("{{#times 3}}{{i}}{{@i}}{{../a}} {{/times}}").render({"a": "x"}) == "00x 11x 22x "
    assert made.compile("{{here k=1}}").render({"a": "x"}, {"v": "y"}) == "xy{'k': 1}False"
    assert made.compile("[{{nothing gone}}{{nothing true}}{{nothing 2.0}}]").render({}) == "[true2]"


def test_what_goes_wrong_in_a_helper_is_told_with_its_place() -> None:
    def breaks() -> None:
        raise KeyError("inner")

    made = Environment()
    made.define_helper("breaks", breaks)
    with pytest.raises(DotpromptError) as caught:
        made.compile("a {{breaks}}").render({})
    assert str(caught.value) == "template:1:3: breaks: 'inner'.\n  a {{breaks}}\n    ^"
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(DotpromptError) as caught:
        made.compile("{{breaks 1 a=2}}")
    assert str(caught.value) == (
        "template:1:1: breaks: too many positional arguments. "
        "Change the arguments, or write {{this.breaks}} for a variable.\n  {{breaks 1 a=2}}\n  ^"
    )
    with pytest.raises(DotpromptError) as caught:
        made.define_helper("each", breaks)
    assert str(caught.value) == "helpers: 'each' is built in. Choose another name."


def test_log_tells_pythons_logging(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "chatwrap.dotprompt"):
        assert environment({}).compile("{{log 'a' x level='warning'}}b{{log 1}}").render({"x": [1]}) == "b"
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "a 1"),
        ("INFO", "1"),
    ]


def test_partials_come_from_the_resolver_once_in_each_rendering() -> None:
    asked: list[str] = []

    def resolve(name: str) -> str | None:
        asked.append(name)
        return {"a": "A{{> b}}", "b": "B"}.get(name)

    made = Environment(resolver=resolve)
    template = made.compile("{{> a}}{{> b}}{{#> c}}none{{/c}}")
    assert template.render({}) == template.render({}) == "ABBnone"
    assert asked == ["a", "b", "c"] * 2


def test_threads_share_a_template() -> None:
    template = environment({"tree": TREE}).compile(
        "{{#each xs}}{{#box}}{{this}}{{> tree ../t}}{{/box}}{{/each}}"
    )
    context = {"xs": list(range(50)), "t": {"v": "t", "kids": [{"v": "u"}]}}
    expected = template.render(context)
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(template.render(context))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


@given(st.text(alphabet="{}~#/^!>&*\"'[]()=|@. \\\n-abif", max_size=40))
def test_any_text_is_a_template_or_a_fault(text: str) -> None:
    try:
        template = environment({"a": "A"}).compile(text)
        template.render({"a": [{"b": "c"}], "b": {"a": 1}})
    except DotpromptError as error:
        assert str(error).startswith(("template:", "partial 'a':"))


@given(st.text())
def test_text_without_tags_is_itself(text: str) -> None:
    literal = text.replace("{{", "")
    assert Environment().compile(literal).render({}) == literal


@given(st.text())
def test_data_is_never_read_as_a_template(text: str) -> None:
    made = environment({"p": "{{this}}"})
    assert made.compile("{{x}}{{#each xs}}{{> p}}{{/each}}").render({"x": text, "xs": [text]}) == text + text


@given(st.text(alphabet="\x000123456789: a\n"))
def test_a_block_helper_keeps_structure_and_no_text_becomes_it(text: str) -> None:
    made = environment({})
    pieces = made.compile('{{#box}}{{x}}{{role "system"}}{{x}}{{/box}}').pieces({"x": text})
    assert [piece for piece in pieces if not isinstance(piece, str)] == [RoleMark("system")]
    assert "".join(piece for piece in pieces if isinstance(piece, str)) == f"<{text}{text}|>"


@pytest.mark.parametrize(
    ("tag", "column", "path"),
    [
        ("{{a.}}", 3, "a."),
        ("{{a..b}}", 3, "a.."),
        ("{{a.b.}}", 3, "a.b."),
        ("{{@a.}}", 3, "@a."),
        ("{{..a}}", 3, "..a"),
        ("{{#if a.}}x{{/if}}", 7, "a."),
        ("{{json (lookup a.. 1)}}", 16, "a.."),
        ("{{> a..b}}", 5, "a.."),
    ],
)
def test_what_is_no_path(tag: str, column: int, path: str) -> None:
    with pytest.raises(DotpromptError) as caught:
        Environment().compile(tag)
    assert str(caught.value) == (
        f"template:1:{column}: {path!r} is no path. Put one dot between names, and none at the end.\n"
        f"  {tag}\n  {' ' * (column - 1)}^"
    )


def test_dots_with_spaces_around_are_arguments() -> None:
    made = Environment()
    made.define_helper("join", lambda *values: "+".join(map(str, values)))
    assert made.compile("{{#each l}}{{join . ../a .}}{{/each}}").render({"l": [1], "a": 2}) == "1+2+1"
