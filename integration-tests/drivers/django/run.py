"""Django's migrations forwards, an application's use of the tables, and the migrations backwards. Prints what it sees,
which is the same on one PostgreSQL."""
import datetime
import decimal
import os

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"

import django

django.setup()

from django.core.management import call_command
from django.db import IntegrityError
from django.db import connection
from django.db import transaction
from django.db.models import Avg
from django.db.models import Count
from django.db.models import F
from django.db.models import Q
from django.db.models import Sum
from library.models import Author
from library.models import Book
from library.models import Invoice
from library.models import Line
from library.models import Tag


def migrate(*arguments):
    call_command("migrate", *arguments, verbosity=1, interactive=False)
    tables = [t for t in connection.introspection.table_names() if t.startswith("library_")]
    print(arguments, tables)


migrate("library", "0001")
migrate("library", "0002")
migrate()
call_command("makemigrations", "--check", "--dry-run")
call_command("migrate", "--check")
call_command("check", "--database", "default")

# The library: rows of one shard.
author = Author.objects.create(name="Ursula", born=datetime.date(1929, 10, 21))
others = Author.objects.bulk_create([Author(name=f"author {n}", email=f"a{n}@x.org") for n in range(5)])
print("ids", author.pk, [a.pk for a in others])
books = [
    Book(title=f"title {n}", author=others[n % 5], price=decimal.Decimal(n) / 4, pages=n, extra={"n": n})
    for n in range(20)
]
Book.objects.bulk_create(books, batch_size=8)
rare = Tag.objects.get(word="rare")
for book in Book.objects.filter(pages__lt=5):
    book.tags.add(rare, Tag.objects.get(word="new"))
print("rare", list(rare.book_set.order_by("title").values_list("title", "author__name")))
print("joined", list(Book.objects.select_related("author").filter(author__name__startswith="author 3").order_by("pk")
                     .values_list("title", "author__email")[:3]))
print("prefetched", [(b.title, sorted(t.word for t in b.tags.all()))
                     for b in Book.objects.prefetch_related("tags").order_by("pages")[:3]])
print("grouped", list(Author.objects.annotate(n=Count("books"), worth=Sum("books__price")).order_by("pk")
                      .values_list("name", "n", "worth")))
print("aggregated", Book.objects.aggregate(Avg("pages"), Sum("price"), n=Count("pk", filter=Q(pages__gt=9))))
print("updated", Book.objects.filter(pages__gte=10).update(price=F("price") + 1))
print("json", Book.objects.filter(extra__n__gte=18).count())
print("got", Author.objects.get_or_create(name="Ursula", defaults={"born": None})[1],
      Author.objects.update_or_create(email="a1@x.org", defaults={"name": "changed"})[1])
try:
    with transaction.atomic():
        Author.objects.create(name="twice", email="a1@x.org")
except IntegrityError as error:
    print("refused", error.__cause__.diag.constraint_name is not None)
with transaction.atomic():
    locked = Author.objects.select_for_update().get(pk=author.pk)
    locked.name = "Ursula K."
    locked.save()
    try:
        with transaction.atomic():
            Book.objects.create(title="bad", author=locked, price=-1)
    except IntegrityError:
        print("rolled back to a savepoint")
print("iterated", sum(b.pages for b in Book.objects.order_by("pk").iterator(chunk_size=7)))
print("deleted", Author.objects.filter(name="changed").delete())

# Invoices: rows by tenant.
for tenant in range(1, 9):
    with transaction.atomic():
        for number in (1, 2):
            Invoice.objects.create(tenant_id=tenant, number=number, amount=tenant * 10 + number)
            Line.objects.bulk_create(
                [Line(tenant_id=tenant, invoice_number=number, position=p, what=f"line {p}") for p in range(3)]
            )
print("got", Invoice.objects.get(pk=(3, 2)).amount)
print("of a tenant", list(Invoice.objects.filter(tenant_id=4).order_by("number").values_list("number", "amount")))
print("all", Invoice.objects.count(), Line.objects.count(), Invoice.objects.aggregate(Sum("amount")))
print("by tenant", list(Invoice.objects.values("tenant_id").annotate(s=Sum("amount"), n=Count("number"))
                        .order_by("-s").values_list("tenant_id", "s", "n")[:3]))
print("paid", Invoice.objects.filter(tenant_id=5).update(paid=True), Invoice.objects.filter(paid=True).count())
with transaction.atomic():
    # Two tenants, so most likely two shards, in one transaction.
    Invoice.objects.filter(pk=(1, 1)).update(amount=F("amount") - 5)
    Invoice.objects.filter(pk=(2, 1)).update(amount=F("amount") + 5)
try:
    with transaction.atomic():
        Invoice.objects.filter(pk=(1, 1)).update(amount=F("amount") - 5)
        Invoice.objects.filter(pk=(6, 1)).update(amount=F("amount") + 5)
        raise RuntimeError
except RuntimeError:
    print("rolled back", Invoice.objects.aggregate(Sum("amount")))
print("many", len(Invoice.objects.bulk_create([Invoice(tenant_id=t, number=9, amount=t) for t in range(1, 9)])))
print("everywhere", Invoice.objects.filter(number=9).update(amount=F("amount") + 1))
print("the sum", Invoice.objects.filter(number=9).aggregate(Sum("amount")))
with transaction.atomic():
    print("gone", Invoice.objects.filter(number=9).delete())
invoice = Invoice.objects.get(pk=(7, 1))
invoice.delete()
print("cascaded", Line.objects.filter(tenant_id=7).count())

migrate("library", "0002")
migrate("library", "zero")
migrate("auth", "zero")
print("Django is content")
