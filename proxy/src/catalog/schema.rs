//! What one shard's `pg_catalog` says, as one query whose answer is one JSON document.
//!
//! The queries are qualified with `pg_catalog` and set `search_path` for themselves, so that they mean the same on any
//! connection; columns that only some of PostgreSQL 14 to 18 have are read through `to_jsonb(row) ->> 'column'`, which
//! is NULL where there is none.

use serde::Deserialize;
use std::collections::BTreeMap;

/// One row, one text column: the JSON of a [`ShardSchema`]. Types are on this shard; names in definitions are
/// qualified (the query empties `search_path` for its own transaction before they are printed).
pub const QUERY: &str = r#"
WITH settled AS MATERIALIZED (
  SELECT pg_catalog.set_config('search_path', '', true) AS path
), visible AS MATERIALIZED (
  SELECT n.oid, n.nspname FROM pg_catalog.pg_namespace n
  WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'shardway')
    AND n.nspname !~ '^pg_(temp|toast_temp)_'
)
SELECT pg_catalog.jsonb_build_object(
  'path', settled.path,
  'version', pg_catalog.current_setting('server_version_num')::pg_catalog.int4,
  'database', (
    SELECT pg_catalog.jsonb_build_object(
      'encoding', pg_catalog.pg_encoding_to_char(d.encoding),
      'provider', COALESCE(pg_catalog.to_jsonb(d) ->> 'datlocprovider', 'c'),
      'collate', pg_catalog.to_jsonb(d) ->> 'datcollate',
      'locale', COALESCE(pg_catalog.to_jsonb(d) ->> 'datlocale', pg_catalog.to_jsonb(d) ->> 'daticulocale'))
    FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()),
  'schemas', COALESCE((SELECT pg_catalog.jsonb_agg(v.nspname ORDER BY v.nspname) FROM visible v), '[]'),
  'system', (
    SELECT pg_catalog.jsonb_agg(c.relname ORDER BY c.relname) FROM pg_catalog.pg_class c
    WHERE c.relnamespace = 'pg_catalog'::pg_catalog.regnamespace AND c.relkind IN ('r', 'v')),
  'collations', COALESCE((
    SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
      'oid', c.oid::pg_catalog.int8, 'schema', n.nspname, 'name', c.collname, 'provider', c.collprovider,
      'collate', c.collcollate,
      'locale', COALESCE(pg_catalog.to_jsonb(c) ->> 'colllocale', pg_catalog.to_jsonb(c) ->> 'colliculocale'),
      'deterministic', c.collisdeterministic) ORDER BY c.oid)
    FROM pg_catalog.pg_collation c JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace
    WHERE n.nspname <> 'pg_catalog' OR c.collname IN ('default', 'C', 'POSIX', 'ucs_basic', 'C.utf8', 'C.UTF-8',
      'unicode', 'pg_c_utf8', 'pg_unicode_fast')
      OR c.oid IN (SELECT a.attcollation FROM pg_catalog.pg_attribute a
        JOIN pg_catalog.pg_class k ON k.oid = a.attrelid JOIN visible v ON v.oid = k.relnamespace)), '[]'),
  'relations', COALESCE((
    SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
      'schema', v.nspname, 'name', c.relname, 'oid', c.oid::pg_catalog.int8, 'kind', c.relkind,
      'row_security', c.relrowsecurity OR c.relforcerowsecurity,
      'has_children', EXISTS (SELECT 1 FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid),
      'parent', (
        SELECT pg_catalog.jsonb_build_object('schema', pn.nspname, 'name', p.relname)
        FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class p ON p.oid = i.inhparent
        JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
        WHERE i.inhrelid = c.oid ORDER BY i.inhseqno LIMIT 1),
      'table', CASE WHEN c.relkind IN ('i', 'I') THEN (
          SELECT pg_catalog.jsonb_build_object('schema', tn.nspname, 'name', t.relname)
          FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class t ON t.oid = x.indrelid
          JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace WHERE x.indexrelid = c.oid)
        WHEN c.relkind = 'S' THEN (
          SELECT pg_catalog.jsonb_build_object('schema', tn.nspname, 'name', t.relname)
          FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_class t ON t.oid = d.refobjid
          JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace
          WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid
            AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.deptype IN ('a', 'i')
          LIMIT 1) END,
      'definition', CASE WHEN c.relkind IN ('v', 'm') THEN pg_catalog.pg_get_viewdef(c.oid) END,
      'rules', EXISTS (
        SELECT 1 FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid AND r.rulename <> '_RETURN'),
      'columns', CASE WHEN c.relkind IN ('i', 'I', 'S') THEN '[]' ELSE COALESCE((
        SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
          'name', a.attname, 'number', a.attnum, 'type', a.atttypid::pg_catalog.int8,
          'type_name', pg_catalog.format_type(a.atttypid, a.atttypmod),
          'collation', a.attcollation::pg_catalog.int8, 'not_null', a.attnotnull,
          'default', CASE WHEN a.atthasdef AND a.attgenerated = '' THEN (
            SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attrdef d
            WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum) END,
          'generated', a.attgenerated <> '', 'identity', a.attidentity <> '') ORDER BY a.attnum)
        FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '[]') END,
      'unique', COALESCE((
        SELECT pg_catalog.jsonb_agg((
          SELECT pg_catalog.jsonb_agg(a.attname ORDER BY k.n)
          FROM pg_catalog.unnest(x.indkey::pg_catalog.int2[]) WITH ORDINALITY AS k(attnum, n)
          JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.attnum
          WHERE k.n <= x.indnkeyatts) ORDER BY x.indexrelid)
        FROM pg_catalog.pg_index x
        WHERE x.indrelid = c.oid AND x.indisunique AND x.indisvalid AND x.indpred IS NULL AND x.indexprs IS NULL), '[]'),
      'triggers', COALESCE((
        SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
          'name', t.tgname, 'function_schema', fn.nspname, 'function', f.proname,
          'events', pg_catalog.pg_get_triggerdef(t.oid)) ORDER BY t.tgname)
        FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc f ON f.oid = t.tgfoid
        JOIN pg_catalog.pg_namespace fn ON fn.oid = f.pronamespace
        WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled <> 'D'), '[]')
      ) ORDER BY v.nspname, c.relname)
    FROM pg_catalog.pg_class c JOIN visible v ON v.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S', 'i', 'I')), '[]'),
  'functions', COALESCE((
    SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
      'schema', v.nspname, 'name', p.proname, 'volatility', p.provolatile, 'language', l.lanname,
      'kind', p.prokind, 'returns_set', p.proretset,
      'extension', EXISTS (
        SELECT 1 FROM pg_catalog.pg_depend d
        WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e'
      )) ORDER BY v.nspname, p.proname, p.oid)
    FROM pg_catalog.pg_proc p JOIN visible v ON v.oid = p.pronamespace
    JOIN pg_catalog.pg_language l ON l.oid = p.prolang), '[]'),
  'operators', COALESCE((
    SELECT pg_catalog.jsonb_agg(DISTINCT o.oprname) FROM pg_catalog.pg_operator o
    JOIN visible v ON v.oid = o.oprnamespace
    WHERE NOT EXISTS (
      SELECT 1 FROM pg_catalog.pg_depend d
      WHERE d.classid = 'pg_catalog.pg_operator'::pg_catalog.regclass AND d.objid = o.oid AND d.deptype = 'e')), '[]'),
  'user_types', COALESCE((
    SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
      'name', pg_catalog.quote_ident(v.nspname) || '.' || pg_catalog.quote_ident(t.typname),
      'oid', t.oid::pg_catalog.int8, 'kind', t.typtype, 'base', t.typbasetype::pg_catalog.int8,
      'element', COALESCE((
        SELECT e.oid::pg_catalog.int8 FROM pg_catalog.pg_type e WHERE e.oid = t.typelem AND e.typarray = t.oid), 0),
      'subtype', COALESCE((
        SELECT r.rngsubtype::pg_catalog.int8 FROM pg_catalog.pg_range r WHERE r.rngtypid = t.oid), 0),
      'range', COALESCE((
        SELECT r.rngtypid::pg_catalog.int8 FROM pg_catalog.pg_range r WHERE r.rngmultitypid = t.oid), 0),
      'fields', CASE WHEN t.typtype = 'c' THEN COALESCE((
        SELECT pg_catalog.jsonb_agg(a.atttypid::pg_catalog.int8 ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped), '[]') ELSE '[]' END,
      'labels', CASE WHEN t.typtype = 'e' THEN COALESCE((
        SELECT pg_catalog.jsonb_agg(l.enumlabel ORDER BY l.enumsortorder) FROM pg_catalog.pg_enum l
        WHERE l.enumtypid = t.oid), '[]') ELSE '[]' END) ORDER BY v.nspname, t.typname)
    FROM pg_catalog.pg_type t JOIN visible v ON v.oid = t.typnamespace), '[]')
)::pg_catalog.text
FROM settled
"#;

/// One row, one text column: a JSON object, name → [`BuiltinFacts`], of the functions in `pg_catalog`,
/// and of those that `information_schema` has for its own views, which drivers call too.
pub const BUILTINS_QUERY: &str = r#"
SELECT pg_catalog.jsonb_object_agg(f.proname, f.facts)::pg_catalog.text FROM (
  SELECT p.proname, pg_catalog.jsonb_build_object(
    'volatility', CASE WHEN pg_catalog.bool_or(p.provolatile = 'v') THEN 'v'
      WHEN pg_catalog.bool_or(p.provolatile = 's') THEN 's' ELSE 'i' END,
    'aggregate', pg_catalog.bool_or(p.prokind = 'a'), 'window', pg_catalog.bool_or(p.prokind = 'w'),
    'returns_set', pg_catalog.bool_or(p.proretset)) AS facts
  FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace
    OR p.pronamespace = pg_catalog.to_regnamespace('information_schema') AND pg_catalog.left(p.proname::text, 4) = '_pg_'
  GROUP BY p.proname) f
"#;

/// What [`QUERY`] answers.
#[derive(Clone, Debug, Deserialize)]
pub struct ShardSchema {
    /// `server_version_num`: 150018 is 15.18.
    pub version: u32,
    pub database: DatabaseFacts,
    pub schemas: Vec<String>,
    /// Tables and views of `pg_catalog`.
    pub system: Vec<String>,
    pub collations: Vec<CollationFacts>,
    pub relations: Vec<RelationFacts>,
    pub functions: Vec<FunctionFacts>,
    /// Names of operators that users made.
    pub operators: Vec<String>,
    #[serde(default)]
    pub user_types: Vec<TypeFacts>,
}

/// A type outside pg_catalog. Numbers are this shard's.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct TypeFacts {
    /// Quoted and qualified.
    pub name: String,
    pub oid: u32,
    /// `typtype`: b base (arrays too), c composite, d domain, e enum, m multirange, p pseudo-type, r range
    pub kind: String,
    /// The type below a domain, else 0.
    pub base: u32,
    /// The type of a true array's elements, else 0.
    pub element: u32,
    /// The type below a range, else 0.
    pub subtype: u32,
    /// The range type of a multirange, else 0.
    pub range: u32,
    /// The types of a composite type's fields, in their order.
    pub fields: Vec<u32>,
    /// The labels of an enum, in their order.
    pub labels: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct DatabaseFacts {
    pub encoding: String,
    /// `c` libc, `i` ICU, `b` built in
    pub provider: String,
    pub collate: Option<String>,
    pub locale: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct CollationFacts {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    /// `d` default, `c` libc, `i` ICU, `b` built in
    pub provider: String,
    pub collate: Option<String>,
    pub locale: Option<String>,
    pub deterministic: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct NameFacts {
    pub schema: String,
    pub name: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct RelationFacts {
    pub schema: String,
    pub name: String,
    #[serde(default)]
    pub oid: u32,
    /// `relkind`: r p v m f S i I
    pub kind: String,
    pub row_security: bool,
    pub has_children: bool,
    pub parent: Option<NameFacts>,
    /// The table of an index, or the one whose column owns a sequence.
    pub table: Option<NameFacts>,
    pub definition: Option<String>,
    pub rules: bool,
    pub columns: Vec<ColumnFacts>,
    pub unique: Vec<Vec<String>>,
    pub triggers: Vec<TriggerFacts>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ColumnFacts {
    pub name: String,
    /// `attnum`
    #[serde(default)]
    pub number: i16,
    #[serde(rename = "type")]
    pub type_oid: u32,
    pub type_name: String,
    /// OID in `pg_collation`, 0 for none, 100 for the database's default.
    pub collation: u32,
    pub not_null: bool,
    pub default: Option<String>,
    pub generated: bool,
    pub identity: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct TriggerFacts {
    pub name: String,
    pub function_schema: String,
    pub function: String,
    pub events: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct FunctionFacts {
    pub schema: String,
    pub name: String,
    /// `provolatile`: i s v
    pub volatility: String,
    pub language: String,
    /// `prokind`: f p a w
    pub kind: String,
    pub returns_set: bool,
    pub extension: bool,
}

/// What [`BUILTINS_QUERY`] says of a name.
#[derive(Clone, Debug, Deserialize)]
pub struct BuiltinFacts {
    pub volatility: String,
    pub aggregate: bool,
    pub window: bool,
    pub returns_set: bool,
}

/// Reads the answer of [`QUERY`].
///
/// # Errors
/// What is wrong with the document, in serde's words.
pub fn parse(json: &str) -> Result<ShardSchema, String> {
    serde_json::from_str(json).map_err(|e| format!("the shard's schema cannot be read: {e}"))
}

/// Reads the answer of [`BUILTINS_QUERY`].
///
/// # Errors
/// What is wrong with the document, in serde's words.
pub fn parse_builtins(json: &str) -> Result<std::collections::HashMap<String, super::BuiltinFunction>, String> {
    let facts: BTreeMap<String, BuiltinFacts> =
        serde_json::from_str(json).map_err(|e| format!("the shard's functions cannot be read: {e}"))?;
    Ok(facts
        .into_iter()
        .map(|(name, f)| {
            let volatility = volatility(&f.volatility);
            let fact = super::BuiltinFunction {
                volatility,
                is_aggregate: f.aggregate,
                is_window: f.window,
                returns_set: f.returns_set,
            };
            (name, fact)
        })
        .collect())
}

/// `provolatile` → [`super::Volatility`]; what is not known is volatile.
pub fn volatility(letter: &str) -> super::Volatility {
    match letter {
        "i" => super::Volatility::Immutable,
        "s" => super::Volatility::Stable,
        _ => super::Volatility::Volatile,
    }
}
