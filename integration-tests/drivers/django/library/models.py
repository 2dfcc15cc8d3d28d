"""A library on one shard, and invoices that are sharded by tenant."""
from django.db import models
from django.db.models import F
from django.db.models import Q


class Author(models.Model):
    name = models.CharField(max_length=100)
    born = models.DateField(null=True)
    email = models.EmailField(unique=True, null=True)


class Tag(models.Model):
    word = models.SlugField(unique=True)


class Book(models.Model):
    title = models.CharField(max_length=200, db_index=True)
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    price = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    pages = models.PositiveIntegerField(default=0)
    extra = models.JSONField(default=dict)
    tags = models.ManyToManyField(Tag)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["author", "title"], name="one_title_per_author"),
            models.CheckConstraint(condition=Q(price__gte=0), name="price_not_negative"),
        ]
        indexes = [models.Index(F("price").desc(), name="book_by_price")]


class Invoice(models.Model):
    pk = models.CompositePrimaryKey("tenant_id", "number")
    tenant_id = models.BigIntegerField()
    number = models.BigIntegerField()
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    paid = models.BooleanField(default=False)


class Line(models.Model):
    pk = models.CompositePrimaryKey("tenant_id", "invoice_number", "position")
    tenant_id = models.BigIntegerField()
    invoice_number = models.BigIntegerField()
    position = models.IntegerField()
    what = models.CharField(max_length=50)
