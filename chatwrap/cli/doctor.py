"""``chatwrap doctor``: what this machine and the installed llama.cpp build can do."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from chatwrap import __version__ as chatwrap_version
from chatwrap.engine.build import describe_build, require_llama_cpp
from chatwrap.errors import ModelError
from chatwrap.models import default_model, installed_path

_CPU_FLAGS: Final = (
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512_vnni",
    "amx_tile",
    "amx_int8",
    "asimd",
    "sve",
)


def doctor() -> None:
    """Examine the installation: versions, GPU offload, CPU features, threads, the demo model."""
    warnings: list[str] = []
    for name, value in _facts(warnings):
        print(f"{name:18} {value}")
    for warning in warnings:
        print(f"warning: {warning}")
    require_llama_cpp()


def _facts(warnings: list[str]) -> Iterator[tuple[str, str]]:
    yield "chatwrap", chatwrap_version
    yield "python", f"{platform.python_version()} on {platform.platform()}"
    yield "llama-cpp-python", _version("llama-cpp-python")
    yield from _build_facts(warnings)
    flags = _cpu_flags()
    yield "cpu", f"{os.cpu_count()} threads; {' '.join(flags) or 'features unknown'}"
    entry = default_model()
    path = installed_path(entry)
    yield "demo model", f"{entry.name}: {path or 'not installed'}"
    if path is None:
        warnings.append('the demo model isn\'t installed. Run: pip install "chatwrap[demo]"')


def _build_facts(warnings: list[str]) -> Iterator[tuple[str, str]]:
    try:
        build = describe_build()
    except ModelError:  # raised again when all else has been told
        return
    yield "gpu offload", "yes" if build.supports_gpu_offload else "no: built for the CPU only"
    yield "built with", build.system_info
    yield (
        "mmap, mlock",
        f"{'yes' if build.supports_mmap else 'no'}, {'yes' if build.supports_mlock else 'no'}",
    )
    if build.uses_amx:
        warnings.append(
            "llama.cpp was built with AMX, whose kernel crashes at the first prompt on some machines "
            "(ggml-org/llama.cpp issue 20824). Rebuild it portable: CMAKE_ARGS=-DGGML_NATIVE=OFF pip install "
            "--force-reinstall --no-cache-dir --no-binary llama-cpp-python llama-cpp-python"
        )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _cpu_flags() -> tuple[str, ...]:
    """The features of this CPU that matter to llama.cpp, where Linux tells them."""
    file = Path("/proc/cpuinfo")
    if not file.exists():
        return ()
    words = set(file.read_text(encoding="utf-8", errors="replace").split())
    return tuple(flag for flag in _CPU_FLAGS if flag in words)
