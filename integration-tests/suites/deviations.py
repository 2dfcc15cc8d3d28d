"""The list of explained differences: `deviations/SUITE.md`.

Each heading of such a file explains one cause in prose; below it, each line of the form `` - `pattern` `` names tests
that differ for it (shell wildcards; `[` is taken as written). A pattern may be limited to one layout: `` - `pattern` (two) ``.
"""

import re
from fnmatch import translate
from pathlib import Path

from suites.suite import FAILED, PASSED

DIRECTORY = Path(__file__).resolve().parents[2] / "deviations"
LINE = re.compile(r"^- `(?P<pattern>.+)`(?: \((?P<layout>one|two|sharded)\))?\s*$")


def listed(suite: str, layout: str) -> list[str]:
    path = DIRECTORY / f"{suite}.md"
    if not path.exists():
        return []
    matches = (LINE.match(line) for line in path.read_text().splitlines())
    return [m["pattern"] for m in matches if m and m["layout"] in (None, layout)]


def differences(direct: dict[str, str], proxied: dict[str, str]) -> list[str]:
    """The tests that pass on PostgreSQL itself and not through the proxy."""
    return sorted(name for name, outcome in direct.items() if outcome == PASSED and proxied.get(name, FAILED) != PASSED)


def unexplained(suite: str, layout: str, names: list[str]) -> tuple[list[str], list[str]]:
    """The differences that no pattern names, and the patterns that name none."""
    patterns = listed(suite, layout)
    compiled = [re.compile(translate(p.replace("[", "[[]"))) for p in patterns]
    left = [name for name in names if not any(c.match(name) for c in compiled)]
    unused = [p for p, c in zip(patterns, compiled) if not any(c.match(name) for name in names)]
    return left, unused
