"""Django's own tests of what touches the database: backend, ORM, migrations, transactions, PostgreSQL's extras."""

import json
from pathlib import Path

from suites import accounts, suite
from suites.suite import FAILED, PASSED, SKIPPED, Target

VERSION = "5.2.19"
LABELS = (
    "aggregation aggregation_regress annotations backends basic bulk_create composite_pk constraints custom_columns "
    "custom_lookups custom_pk datatypes dates datetimes db_functions db_typecasts db_utils defer delete delete_regress "
    "distinct_on_fields expressions expressions_case expressions_window fixtures fixtures_regress foreign_object "
    "get_or_create indexes inspectdb introspection lookup m2m_through many_to_many many_to_one migrations model_fields "
    "model_inheritance multiple_database null_queries ordering postgres_tests prefetch_related queries raw_query "
    "schema select_for_update select_related serializers timezones transaction_hooks transactions update"
).split()


class Django(suite.Suite):
    name = "django"
    title = f"Django {VERSION}"
    limit = 7200
    database = "django_default"
    databases = ("django_other", "postgres")
    sample = ["transactions", "transaction_hooks", "select_for_update", "backends"]

    def fetch(self, work: Path) -> None:
        suite.sdist(f"Django=={VERSION}", work).rename(work / "source")

    def run(self, target: Target, work: Path, sample: bool) -> dict[str, str]:
        report = work / f"{target.layout}.jsonl"
        report.write_text("")
        accounts.give(work)
        suites = Path(__file__).resolve().parents[1]
        command = [suite.python(), "runtests.py", "--settings=suites.django_settings", "--keepdb", "--parallel=1", "--noinput"]
        command += self.sample if sample else LABELS
        extra = {"PYTHONPATH": f"{work / 'source'}:{suites}", "SUITE_REPORT": str(report), "PYTHONDONTWRITEBYTECODE": "1"}
        suite.run(command, target, work / "source" / "tests", work / f"{target.layout}.log", self.limit, extra)
        return outcomes(report)


def outcomes(report: Path) -> dict[str, str]:
    """A test is told of once, and once more for each of its parts that failed."""
    results: dict[str, str] = {}
    for name, outcome in map(json.loads, report.read_text().splitlines()):
        if results.get(name) != FAILED:
            results[name] = {"passed": PASSED, "failed": FAILED, "skipped": SKIPPED}[outcome]
    return results
