"""Settings for Django's own tests, as its `tests/runtests.py` wants them, and a runner that writes each outcome down.

Read inside the suite's process only: where to connect and where to write comes by the environment.
"""

import json
import os

from django.test.runner import DiscoverRunner
from django.utils.functional import cached_property


def database(name: str) -> dict:
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": os.environ["PGUSER"],
        "PASSWORD": os.environ["PGPASSWORD"],
        "HOST": os.environ["PGHOST"],
        "PORT": os.environ["PGPORT"],
        # The tests' databases are made before: a pooler knows those of its configuration.
        "TEST": {"NAME": name},
    }


DATABASES = {"default": database("django_default"), "other": database("django_other")}
SECRET_KEY = "django_tests_secret_key"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "suites.django_settings.Runner"


class Outcomes:
    """Mixed into unittest's result: a line of JSON for each test that has ended, so that a run that is killed has told
    of those before."""

    @cached_property
    def report(self):
        return open(os.environ["SUITE_REPORT"], "a", buffering=1)

    def write(self, test, outcome: str) -> None:
        self.report.write(json.dumps([test.id(), outcome]) + "\n")

    def addSuccess(self, test) -> None:
        super().addSuccess(test)
        self.write(test, "passed")

    def addFailure(self, test, err) -> None:
        super().addFailure(test, err)
        self.write(test, "failed")

    def addError(self, test, err) -> None:
        super().addError(test, err)
        self.write(test, "failed")

    def addSubTest(self, test, subtest, err) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.write(test, "failed")

    def addSkip(self, test, reason) -> None:
        super().addSkip(test, reason)
        self.write(test, "skipped")

    def addExpectedFailure(self, test, err) -> None:
        super().addExpectedFailure(test, err)
        self.write(test, "skipped")

    def addUnexpectedSuccess(self, test) -> None:
        super().addUnexpectedSuccess(test)
        self.write(test, "failed")


class Runner(DiscoverRunner):
    def get_resultclass(self):
        base = super().get_resultclass() or self.test_runner.resultclass
        return type("Result", (Outcomes, base), {})
