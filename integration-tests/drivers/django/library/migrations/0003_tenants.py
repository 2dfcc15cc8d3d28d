"""Tables that the proxy shards by tenant_id: the key is part of every key."""
from django.db import migrations
from django.db import models


class Migration(migrations.Migration):
    dependencies = [("library", "0002_grow")]
    operations = [
        migrations.CreateModel(
            name="Invoice",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("number", models.BigIntegerField()),
                ("amount", models.DecimalField(max_digits=10, decimal_places=2)),
            ],
        ),
        migrations.CreateModel(
            name="Line",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "invoice_number",
                        "position",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("invoice_number", models.BigIntegerField()),
                ("position", models.IntegerField()),
                ("what", models.CharField(max_length=50)),
            ],
        ),
        migrations.RunSQL(
            "ALTER TABLE library_line ADD CONSTRAINT line_of_invoice FOREIGN KEY (tenant_id, invoice_number) "
            "REFERENCES library_invoice (tenant_id, number) ON DELETE CASCADE",
            "ALTER TABLE library_line DROP CONSTRAINT line_of_invoice",
        ),
        migrations.AddField("invoice", "paid", models.BooleanField(default=False)),
    ]
