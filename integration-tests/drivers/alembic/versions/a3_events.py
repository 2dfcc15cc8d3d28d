"""Tables that the proxy shards by tenant_id."""
import sqlalchemy as sa
from alembic import op

revision = "a3"
down_revision = "a2"


def upgrade():
    op.create_table(
        "event",
        sa.Column("tenant_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("amount", sa.Integer, server_default="7", nullable=False),
    )
    op.create_table(
        "event_note",
        sa.Column("tenant_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("event_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("body", sa.String, nullable=False),
    )
    op.create_foreign_key(
        "note_of_event", "event_note", "event", ["tenant_id", "event_id"], ["tenant_id", "id"]
    )
    op.add_column("event", sa.Column("seen", sa.DateTime, server_default=sa.func.now()))
    op.create_index("event_by_kind", "event", ["tenant_id", "kind"])
    op.drop_index("event_by_kind")


def downgrade():
    op.drop_table("event_note")
    op.drop_table("event")
