"""What a later release changes."""
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "a2"
down_revision = "a1"


def upgrade():
    op.alter_column("parcel", "weight", type_=sa.Numeric(8, 3), server_default=sa.text("1.5"))
    op.add_column(
        "parcel",
        sa.Column("labels", postgresql.JSONB, server_default=sa.text("'{}'::jsonb"), nullable=False),
    )
    op.create_index(
        "parcel_by_state", "parcel", ["state"], postgresql_where=sa.text("state <> 'returned'::parcel_state")
    )
    customers = sa.table("customer", sa.column("id", sa.Integer), sa.column("name", sa.String))
    op.bulk_insert(customers, [{"name": "first"}, {"name": "second"}])
    op.execute("UPDATE customer SET name = name || '!' WHERE name = 'second'")


def downgrade():
    op.execute("DELETE FROM customer WHERE name IN ('first', 'second!')")
    op.drop_index("parcel_by_state", table_name="parcel")
    op.drop_column("parcel", "labels")
    op.alter_column("parcel", "weight", type_=sa.Integer, server_default=sa.text("1"))
