SET session_replication_role = replica;
DO $$
DECLARE t regclass;
BEGIN
  FOR t IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace NOT IN
      (SELECT oid FROM pg_namespace WHERE nspname IN ('pg_catalog', 'information_schema')) LOOP
    EXECUTE format('CREATE TEMPORARY TABLE turned AS SELECT * FROM %s ORDER BY ctid DESC', t);
    EXECUTE format('DELETE FROM %s', t);
    EXECUTE format('INSERT INTO %s OVERRIDING SYSTEM VALUE SELECT * FROM turned', t);
    DROP TABLE turned;
  END LOOP;
END $$;
ALTER DATABASE mirrored SET enable_indexscan = off;
ALTER DATABASE mirrored SET enable_indexonlyscan = off;
ALTER DATABASE mirrored SET enable_bitmapscan = off;
ALTER DATABASE mirrored SET enable_hashagg = off;
ALTER DATABASE mirrored SET enable_mergejoin = off;
