"""Runs named checks of a Python client and tells each outcome on a line of its own: `ok NAME`, `not ok NAME: reason`."""

import asyncio
import inspect
import os
import signal
import sys
import time
import traceback
from contextlib import contextmanager

LIMIT = 30
CHECKS: dict = {}

sharded = os.environ.get("SHARDWAY_LAYOUT") == "sharded"


def check(function):
    """Makes a function, plain or async, a check; its name with spaces is the check's."""
    CHECKS[function.__name__.replace("_", " ").strip()] = function
    return function


def _late(_signal, _frame):
    raise TimeoutError(f"no answer in {LIMIT} seconds")


def run() -> None:
    """Runs all checks in their order; one that takes too long has failed, and the next one runs all the same."""
    signal.signal(signal.SIGALRM, _late)
    for name, function in CHECKS.items():
        signal.alarm(LIMIT)
        try:
            if inspect.iscoroutinefunction(function):
                asyncio.run(function())
            else:
                function()
            print(f"ok {name}", flush=True)
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)
            own = [f"{f.filename.rsplit('/', 1)[-1]}:{f.lineno}" for f in where]
            reason = f"{type(error).__name__} {getattr(error, 'sqlstate', '')} {error} ({' '.join(own)})"
            print(f"not ok {name}: {reason}".replace("\n", " | "), flush=True)
        finally:
            signal.alarm(0)
    sys.stdout.flush()
    # Threads that a failed check left behind shall not keep the program alive.
    os._exit(0)


@contextmanager
def refused(sqlstate: str):
    """Fails unless the block is refused with this SQLSTATE; gives a list that holds the error afterwards."""
    caught: list = []
    try:
        yield caught
    except Exception as error:
        if getattr(error, "sqlstate", None) != sqlstate:
            raise
        caught.append(error)
    else:
        raise AssertionError(f"expected {sqlstate}, got no error")


def equal(got, expected) -> None:
    assert got == expected, f"got {got!r}, expected {expected!r}"


def eventually(condition, what: str) -> None:
    """Waits until `condition` gives something true, at most five seconds."""
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)
