"""What the installed build of llama.cpp can do."""

from __future__ import annotations

from dataclasses import dataclass

from chatwrap.errors import ModelError


@dataclass(frozen=True, slots=True)
class Build:
    """Features of a llama.cpp build. `system_info` is llama.cpp's own line on them."""

    supports_gpu_offload: bool
    supports_mmap: bool
    supports_mlock: bool
    system_info: str

    @property
    def uses_amx(self) -> bool:
        """Whether its matrix kernels for Intel AMX are on."""
        return "AMX_INT8 = 1" in self.system_info


def require_llama_cpp() -> None:
    """Loads llama.cpp. Raises `ModelError` if the installed build can't be loaded."""
    try:
        import llama_cpp  # noqa: F401 - what counts is that it can be
    except (ImportError, OSError, RuntimeError) as error:
        remedy = "Run: pip install --force-reinstall --no-cache-dir llama-cpp-python"
        raise ModelError(f"llama-cpp-python: can't be loaded: {error}. {remedy}") from error


def describe_build() -> Build:
    """The features of the llama.cpp that llama-cpp-python brought along; raises as `require_llama_cpp`."""
    require_llama_cpp()
    import llama_cpp

    return Build(
        supports_gpu_offload=bool(llama_cpp.llama_supports_gpu_offload()),
        supports_mmap=bool(llama_cpp.llama_supports_mmap()),
        supports_mlock=bool(llama_cpp.llama_supports_mlock()),
        system_info=llama_cpp.llama_print_system_info().decode("utf-8", "replace").strip(" |"),
    )
