"""What a second release does to tables that are there already: new columns, names, types, indexes, constraints, rows."""
import django.db.models.deletion
from django.db import migrations
from django.db import models
from django.db.models import F
from django.db.models import Q


def first_tags(apps, schema_editor):
    apps.get_model("library", "Tag").objects.bulk_create(
        [apps.get_model("library", "Tag")(word=word) for word in ("new", "old", "rare")]
    )


def no_tags(apps, schema_editor):
    apps.get_model("library", "Tag").objects.filter(word__in=["new", "old", "rare"]).delete()


class Migration(migrations.Migration):
    dependencies = [("library", "0001_initial")]
    operations = [
        migrations.AddField("author", "born", models.DateField(null=True)),
        migrations.AddField("author", "email", models.EmailField(max_length=254, unique=True, null=True)),
        migrations.RenameField("book", "name", "title"),
        migrations.AlterField("book", "title", models.CharField(max_length=200, db_index=True)),
        migrations.AlterField("book", "price", models.DecimalField(max_digits=8, decimal_places=2, default=0)),
        migrations.AddField("book", "pages", models.PositiveIntegerField(default=0)),
        migrations.AddField("book", "extra", models.JSONField(default=dict)),
        migrations.AlterField(
            "book",
            "author",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="books", to="library.author"
            ),
        ),
        migrations.AddConstraint(
            "book", models.UniqueConstraint(fields=["author", "title"], name="one_title_per_author")
        ),
        migrations.AddConstraint("book", models.CheckConstraint(condition=Q(price__gte=0), name="price_not_negative")),
        migrations.AddIndex("book", models.Index(F("price").desc(), name="book_by_price")),
        migrations.RunPython(first_tags, no_tags),
    ]
