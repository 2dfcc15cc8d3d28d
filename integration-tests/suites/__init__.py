"""The public test suites of PostgreSQL, drivers and ORMs, run against PostgreSQL itself and through Shardway.

`scripts/suites` runs them. Each suite is a module here with one class derived from `suite.Suite`, named in `catalogue.py`.
"""
