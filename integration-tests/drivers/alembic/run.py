"""Alembic's migrations forwards, an application's use of the tables, and the migrations backwards. Prints what it sees,
which is the same on one PostgreSQL. Ids of sharded tables are only counted: they are unique, but other numbers."""
import os

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from models import Base
from models import Customer
from models import Event
from models import Note
from models import Parcel
from models import State
from sqlalchemy import func
from sqlalchemy import insert
from sqlalchemy import select
from sqlalchemy import update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session
from sqlalchemy.orm import selectinload

url = sa.URL.create(
    "postgresql+psycopg",
    os.environ["PGUSER"],
    os.environ["PGPASSWORD"],
    os.environ["PGHOST"],
    int(os.environ["PGPORT"]),
    os.environ["PGDATABASE"],
)
engine = sa.create_engine(url)


def migrate(how, revision, **attributes):
    config = Config()
    config.set_main_option("script_location", os.path.dirname(os.path.abspath(__file__)))
    config.set_main_option("path_separator", "os")
    with engine.connect() as connection:
        config.attributes.update(attributes, connection=connection)
        how(config, revision)
    print(how.__name__, revision, sorted(sa.inspect(engine).get_table_names()))


migrate(command.upgrade, "a1")
migrate(command.upgrade, "head")
with engine.connect() as connection:
    print("differs", compare_metadata(MigrationContext.configure(connection), Base.metadata))

# The shop: rows of one shard.
with Session(engine) as session:
    print("customers", session.execute(select(Customer.id, Customer.name).order_by(Customer.id)).all())
    customers = [Customer(name=f"customer {n}", parcels=[Parcel(), Parcel(state=State.shipped)]) for n in range(30)]
    session.add_all(customers)
    session.commit()
    print("ids", [c.id for c in customers], [p.id for c in customers for p in c.parcels])
    some = session.scalars(select(Customer).options(selectinload(Customer.parcels)).order_by(Customer.id).limit(5))
    print("parcels", [(c.name, [(p.state.name, p.weight, p.labels) for p in c.parcels]) for c in some])
    print("states", session.execute(
        select(Parcel.state, func.count(), func.sum(Parcel.weight)).group_by(Parcel.state).order_by(Parcel.state)
    ).all())
    returned = session.execute(
        update(Parcel).where(Parcel.id < 5).values(state=State.returned).returning(Parcel.id)
    )
    print("returned", sorted(returned.scalars()))
    session.commit()
    session.delete(session.get(Customer, customers[0].id))
    session.commit()
    statement = upsert(Customer).values([{"name": "customer 3"}, {"name": "customer 99"}])
    statement = statement.on_conflict_do_update(index_elements=["name"], set_={"name": statement.excluded.name + "?"})
    print("upserted", session.scalars(statement.returning(Customer.name)).all())
    session.rollback()

# Events: rows by tenant.
with Session(engine) as session:
    for tenant in (1, 2, 3):
        session.add(Event(tenant_id=tenant, kind="single"))
        session.commit()
    event = session.scalars(select(Event).where(Event.tenant_id == 2)).one()
    session.add_all([Note(tenant_id=2, event_id=event.id, position=n, body=f"note {n}") for n in range(3)])
    event.amount += 1
    session.commit()
    print("read", session.execute(select(Event.tenant_id, Event.kind, Event.amount).order_by(Event.tenant_id)).all())
    print("joined", session.execute(
        select(Event.kind, func.count(Note.position)).join(Note, sa.and_(
            Note.tenant_id == Event.tenant_id, Note.event_id == Event.id
        )).where(Event.tenant_id == 2).group_by(Event.kind)
    ).all())
with Session(engine) as session:
    # Two tenants in one transaction, and given up.
    for tenant in (1, 2, 3):
        session.execute(update(Event).where(Event.tenant_id == tenant).values(amount=Event.amount + 10))
    session.commit()
    session.execute(update(Event).where(Event.tenant_id == 1).values(amount=0))
    session.execute(update(Event).where(Event.tenant_id == 3).values(amount=0))
    session.rollback()
    print("amounts", session.execute(select(Event.tenant_id, Event.amount).order_by(Event.tenant_id)).all())
with Session(engine) as session:
    # Many rows with RETURNING, in one statement.
    events = [Event(tenant_id=tenant, kind=f"bulk {tenant}") for tenant in range(10, 30)]
    session.add_all(events)
    session.commit()
    print("bulk", len({e.id for e in events}), [(e.tenant_id, e.kind, e.amount, e.seen is not None) for e in events])
    rows = session.execute(
        insert(Event).returning(Event.tenant_id, Event.kind, sort_by_parameter_order=True),
        [{"tenant_id": tenant, "kind": f"more {tenant}", "amount": tenant} for tenant in range(30, 50)],
    )
    print("more", rows.all())
    session.commit()
    values = insert(Event).values([{"tenant_id": t, "kind": "values"} for t in range(50, 60)])
    print("values", sorted(session.execute(values.returning(Event.tenant_id)).scalars()))
    session.commit()
    print("all", session.execute(select(func.count(), func.sum(Event.amount), func.max(Event.tenant_id))).all())
    changed = session.execute(update(Event).where(Event.kind == "values").values(amount=1))
    print("changed", changed.rowcount)
    gone = session.execute(sa.delete(Event).where(Event.kind == "values").returning(Event.tenant_id))
    print("gone", sorted(gone.scalars()))
    session.commit()

migrate(command.downgrade, "a2")
migrate(command.upgrade, "head", transaction_per_migration=True)
migrate(command.downgrade, "base")
print("SQLAlchemy is content")
