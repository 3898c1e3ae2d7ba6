"""What a conversion did with each keyword of a schema: enforced, relaxed, unsupported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from chatwrap.errors import Fault

Verdict = Literal["annotation", "enforced", "relaxed", "unsupported"]
_RANK: dict[Verdict, int] = {"annotation": 0, "enforced": 1, "relaxed": 2, "unsupported": 3}


@dataclass(frozen=True, slots=True)
class Finding:
    """One keyword at one path of the schema, and what the grammar makes of it.

    ``enforced``: no text that breaks it gets through. ``relaxed``: harmless to leave open, and left
    open (`note` says why). ``unsupported``: it can't be written as a grammar. ``annotation``: an
    unknown keyword, which JSON Schema gives no meaning.
    """

    path: str
    keyword: str
    verdict: Verdict
    note: str = ""

    def __str__(self) -> str:
        return f"{self.path}.{self.keyword}: {self.verdict}" + (f": {self.note}" if self.note else "")


@dataclass(frozen=True, slots=True)
class Report:
    """All findings of a conversion, path by path."""

    findings: tuple[Finding, ...] = ()

    def of(self, verdict: Verdict) -> tuple[Finding, ...]:
        """The findings with one verdict."""
        return tuple(finding for finding in self.findings if finding.verdict == verdict)

    @property
    def is_exact(self) -> bool:
        """Whether every text the grammar accepts is valid by the schema."""
        return not self.of("relaxed") and not self.of("unsupported")

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.findings)


@dataclass(slots=True)
class Recorder:
    """Collects findings; of several about one keyword the gravest stays."""

    found: dict[tuple[str, str], Finding] = field(default_factory=dict)

    def add(self, path: str, keyword: str, verdict: Verdict, note: str = "") -> None:
        old = self.found.get((path, keyword))
        if old is None or _RANK[verdict] > _RANK[old.verdict]:
            self.found[path, keyword] = Finding(path, keyword, verdict, note)

    def relax(self, path: str, keyword: str, note: str) -> None:
        self.add(path, keyword, "relaxed", note)

    def refuse(self, path: str, keyword: str, note: str = "can't be written as a grammar") -> None:
        self.add(path, keyword, "unsupported", note)

    def report(self) -> Report:
        return Report(tuple(sorted(self.found.values(), key=lambda f: (f.path, f.keyword))))

    def faults(self) -> list[Fault]:
        """A fault for each unsupported keyword, with the mend."""
        return [
            Fault(f"{f.path}.{f.keyword}", f"{f.note}.", 'Remove it, or pass unsupported="relax".')
            for f in self.report().of("unsupported")
        ]
