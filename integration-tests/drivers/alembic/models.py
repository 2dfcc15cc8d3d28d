"""Tables of a small application on SQLAlchemy: a shop on one shard, and events that are sharded by tenant."""
import datetime
import decimal
import enum

from sqlalchemy import BigInteger
from sqlalchemy import Enum
from sqlalchemy import ForeignKey
from sqlalchemy import ForeignKeyConstraint
from sqlalchemy import Identity
from sqlalchemy import Index
from sqlalchemy import Integer
from sqlalchemy import Numeric
from sqlalchemy import String
from sqlalchemy import func
from sqlalchemy import text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.orm import Mapped
from sqlalchemy.orm import mapped_column
from sqlalchemy.orm import relationship


class Base(DeclarativeBase):
    pass


class State(enum.Enum):
    draft = "draft"
    shipped = "shipped"
    returned = "returned"


class Customer(Base):
    __tablename__ = "customer"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(80), unique=True)
    since: Mapped[datetime.datetime] = mapped_column(server_default=func.now())
    parcels: Mapped[list["Parcel"]] = relationship(
        back_populates="customer", order_by="Parcel.id", cascade="all, delete", passive_deletes=True
    )


class Parcel(Base):
    __tablename__ = "parcel"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    customer_id: Mapped[int] = mapped_column(ForeignKey("customer.id", ondelete="CASCADE"))
    state: Mapped[State] = mapped_column(Enum(State, name="parcel_state"), server_default="draft")
    weight: Mapped[decimal.Decimal] = mapped_column(Numeric(8, 3), server_default=text("1.5"))
    labels: Mapped[dict] = mapped_column(JSONB, server_default=text("'{}'::jsonb"))
    customer: Mapped[Customer] = relationship(back_populates="parcels")
    __table_args__ = (Index("parcel_by_state", "state", postgresql_where=text("state <> 'returned'")),)


class Event(Base):
    __tablename__ = "event"
    tenant_id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    kind: Mapped[str] = mapped_column(String(20))
    amount: Mapped[int] = mapped_column(server_default="7")
    seen: Mapped[datetime.datetime | None] = mapped_column(server_default=func.now())


class Note(Base):
    __tablename__ = "event_note"
    tenant_id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    event_id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    position: Mapped[int] = mapped_column(Integer, primary_key=True)
    body: Mapped[str] = mapped_column(String)
    __table_args__ = (ForeignKeyConstraint(["tenant_id", "event_id"], ["event.tenant_id", "event.id"]),)
