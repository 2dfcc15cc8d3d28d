"""Checks of psycopg 3: each imported module adds its own."""

import application  # noqa: F401
import asynchronous  # noqa: F401
import basics  # noqa: F401
import copying  # noqa: F401
import cursors  # noqa: F401
import pipelines  # noqa: F401
from checks import run

run()
