"""A shop on one shard."""
import sqlalchemy as sa
from alembic import op

revision = "a1"
down_revision = None


def upgrade():
    op.create_table(
        "customer",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(80), nullable=False),
        sa.Column("since", sa.DateTime, server_default=sa.func.now(), nullable=False),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "parcel",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("customer_id", sa.Integer, sa.ForeignKey("customer.id", ondelete="CASCADE"), nullable=False),
        sa.Column(
            "state",
            sa.Enum("draft", "shipped", "returned", name="parcel_state"),
            server_default="draft",
            nullable=False,
        ),
        sa.Column("weight", sa.Integer, server_default=sa.text("1"), nullable=False),
    )


def downgrade():
    op.drop_table("parcel")
    op.drop_table("customer")
    op.execute("DROP TYPE parcel_state")
