"""The results of the last runs, and the table in README that is made of them."""

import json
from pathlib import Path

from suites import deviations
from suites.servers import LAYOUTS
from suites.suite import FAILED, PASSED, Suite

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).resolve().parent / "results.json"
START, END = "<!-- works with: made by scripts/suites -->", "<!-- end of works with -->"


def counts(results: dict[str, str]) -> dict[str, int]:
    return {kind: sum(1 for outcome in results.values() if outcome == kind) for kind in (PASSED, FAILED)}


def load() -> dict:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def record(suite: Suite, layout: str, results: dict[str, str], differing: int) -> None:
    """Keeps the counts of a whole run; the outcomes of single tests stay in the work directory."""
    kept = load()
    kept.setdefault(suite.name, {"title": suite.title})[layout] = counts(results) | {"differing": differing}
    kept[suite.name]["title"] = suite.title
    RESULTS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def table() -> str:
    lines = ["| suite | PostgreSQL itself | through Shardway, one shard | two shards | its tables sharded | why they differ |", "|---|---|---|---|---|---|"]
    for name, entry in sorted(load().items()):
        cells = []
        for layout in LAYOUTS:
            if run := entry.get(layout):
                missing = run["differing"] - run[FAILED]  # what has no outcome of its own: the suite was out of time
                cell = f"{run[PASSED]} passed" + (f", {run[FAILED]} failed" if run[FAILED] else "")
                cells.append(cell + (f", {missing} not reached" if missing > 0 else ""))
            else:
                cells.append("" if layout == "sharded" else "not run")
        why = f"[deviations/{name}.md](deviations/{name}.md)" if (deviations.DIRECTORY / f"{name}.md").exists() else ""
        lines.append(f"| {entry['title']} | {' | '.join(cells)} | {why} |")
    return "\n".join(lines)


def write_readme() -> None:
    path = ROOT / "README.md"
    text = path.read_text()
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{START}\n{table()}\n{END}{after}")
