"""Alembic's environment: one connection, whose transaction holds all migrations."""
from alembic import context
from models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    compare_type=True,
    compare_server_default=True,
    transaction_per_migration=context.config.attributes.get("transaction_per_migration", False),
)
with context.begin_transaction():
    context.run_migrations()
