//! The catalog, and plans as one line of text.

use crate::catalog::BuiltinFunction;
use crate::catalog::Catalog;
use crate::catalog::Collation;
use crate::catalog::Column;
use crate::catalog::FunctionKind;
use crate::catalog::Functions;
use crate::catalog::ListedTable;
use crate::catalog::MapId;
use crate::catalog::Placement;
use crate::catalog::QualifiedName;
use crate::catalog::Relation;
use crate::catalog::RelationKind;
use crate::catalog::ShardFunction;
use crate::catalog::ShardId;
use crate::catalog::ShardMap;
use crate::catalog::Trigger;
use crate::catalog::Unlisted;
use crate::catalog::UserFunction;
use crate::catalog::Volatility;
use crate::plan::Context;
use crate::plan::OnShards;
use crate::plan::Plan;
use crate::plan::RowsPlan;
use crate::plan::Target;
use crate::sql::Statement;
use crate::value::KeyType;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;

pub fn name(text: &str) -> QualifiedName {
    let (schema, name) = text.split_once('.').unwrap_or(("public", text));
    QualifiedName { schema: schema.to_owned(), name: name.to_owned() }
}

fn column(text: &str) -> Column {
    let (name, type_name) = text.split_once(' ').unwrap();
    Column {
        name: name.to_owned(),
        type_oid: KeyType::parse_name(type_name).map_or(0, KeyType::oid),
        type_name: type_name.to_owned(),
        collation: if type_name == "text" { Collation::Linguistic } else { Collation::None },
        collation_name: None,
        not_null: false,
        default: None,
        generated: false,
        identity: false,
    }
}

/// `columns`: `a bigint, b text`
pub fn relation(table: &str, kind: RelationKind, placement: Placement, columns: &str) -> Relation {
    let found_on = match &placement {
        Placement::Single(shard) => vec![*shard],
        Placement::Ambiguous(shards) => shards.clone(),
        _ => (0..3).map(ShardId).collect(),
    };
    Relation {
        name: name(table),
        kind,
        placement,
        found_on,
        columns: columns.split(", ").filter(|c| !c.is_empty()).map(column).collect(),
        unique: Vec::new(),
        definition: None,
        triggers: Vec::new(),
        has_rules: false,
        has_policies: false,
        parent: None,
        has_children: false,
    }
}

fn view(view: &str, kind: RelationKind, placement: Placement, columns: &str, definition: &str) -> Relation {
    Relation { definition: Some(definition.to_owned()), ..relation(view, kind, placement, columns) }
}

fn sharded(key: usize) -> Placement {
    Placement::Sharded { map: MapId(0), key: vec![key] }
}

fn map(name: &str, shards: &[u16]) -> ShardMap {
    let placement = (0..12).map(|bucket| ShardId(shards[bucket % shards.len()])).collect();
    ShardMap {
        name: name.to_owned(),
        key: vec![KeyType::BigInt],
        function: ShardFunction::Hash { placement },
        pins: HashMap::new(),
    }
}

fn relations() -> Vec<Relation> {
    use RelationKind::MaterializedView;
    use RelationKind::Partitioned;
    use RelationKind::Sequence;
    use RelationKind::Table;
    use RelationKind::View;
    let single = |shard| Placement::Single(ShardId(shard));
    let mut orders = relation("orders", Table, sharded(0), "tenant_id bigint, id bigint, note text");
    orders.unique = vec![vec![0, 1]];
    let mut loud = relation("loud", Table, sharded(0), "tenant_id bigint, id bigint");
    let function = name("audit");
    let events = "CREATE TRIGGER t AFTER INSERT OR TRUNCATE ON public.loud EXECUTE FUNCTION audit()".to_owned();
    loud.triggers = vec![Trigger { name: "t".into(), function, events }];
    let mut countries = relation("countries", Table, Placement::Reference, "code text, name text");
    countries.unique = vec![vec![0]];
    let mut settings = relation("settings", Table, single(0), "id integer, value text");
    settings.unique = vec![vec![0]];
    let mut part = relation("events_1", Table, sharded(0), "tenant_id bigint, at date");
    part.parent = Some(name("events"));
    vec![
        orders,
        loud,
        countries,
        settings,
        part,
        relation("users", Table, sharded(0), "tenant_id bigint, id bigint"),
        relation("places", Table, Placement::Sharded { map: MapId(1), key: vec![0] }, "place_id bigint, id bigint"),
        relation("events", Partitioned, sharded(0), "tenant_id bigint, at date"),
        relation("plans", Table, Placement::Reference, "id integer"),
        relation("notes", Table, single(0), "id integer"),
        relation("logs", Table, single(1), "id integer, line text"),
        relation("twice", Table, Placement::Ambiguous(vec![ShardId(0), ShardId(2)]), "id integer"),
        relation(
            "wrong",
            Table,
            Placement::Refused("has no column tenant_id, which is its shard key".into()),
            "id integer",
        ),
        relation("orders_id_seq", Sequence, Placement::Sharded { map: MapId(0), key: vec![] }, ""),
        relation("free_seq", Sequence, single(0), ""),
        relation("spread_seq", Sequence, Placement::Ambiguous(vec![ShardId(0), ShardId(1), ShardId(2)]), ""),
        view("v_orders", View, Placement::Derived, "id bigint", "SELECT orders.id FROM public.orders"),
        view("v_countries", View, Placement::Derived, "code text", "SELECT countries.code FROM public.countries"),
        view("v_logs", View, Placement::Derived, "id integer", "SELECT logs.id FROM public.logs"),
        view("m_logs", MaterializedView, single(1), "id integer", "SELECT logs.id FROM public.logs"),
        view("m_orders", MaterializedView, single(0), "id bigint", "SELECT orders.id FROM public.orders"),
    ]
}

fn functions() -> Functions {
    let builtin =
        |volatility, is_aggregate| BuiltinFunction { volatility, is_aggregate, is_window: false, returns_set: false };
    let builtins = [
        ("now", builtin(Volatility::Stable, false)),
        ("lower", builtin(Volatility::Immutable, false)),
        ("nextval", builtin(Volatility::Volatile, false)),
        ("gen_random_uuid", builtin(Volatility::Volatile, false)),
        ("count", builtin(Volatility::Immutable, true)),
        ("set_config", builtin(Volatility::Volatile, false)),
    ];
    let audit = UserFunction {
        name: name("audit"),
        volatility: Volatility::Volatile,
        language: "plpgsql".into(),
        kind: FunctionKind::Function,
        from_extension: false,
        returns_set: false,
    };
    Functions {
        user: [("audit".to_owned(), vec![audit])].into(),
        builtin: Arc::new(builtins.into_iter().map(|(name, facts)| (name.to_owned(), facts)).collect()),
        declared: Vec::new(),
        operators: HashSet::new(),
    }
}

pub fn catalog() -> Catalog {
    let tenant = |key: &str| ListedTable::Sharded { map: MapId(0), key: vec![key.to_owned()] };
    let listed = [
        ("orders", tenant("tenant_id")),
        ("users", tenant("tenant_id")),
        ("items", tenant("tenant_id")),
        ("events", tenant("tenant_id")),
        ("countries", ListedTable::Reference),
        ("currencies", ListedTable::Reference),
        ("journal", ListedTable::Single(ShardId(2))),
    ];
    Catalog {
        version: 1,
        database: "shop".into(),
        shards: vec!["s0".into(), "s1".into(), "s2".into()],
        maps: vec![map("tenants", &[0, 1, 2]), map("places", &[1, 2])],
        relations: relations().into_iter().map(|r| (r.name.clone(), Arc::new(r))).collect(),
        functions: functions(),
        unlisted: Unlisted::Single,
        column_rules: BTreeMap::from([("org_id".to_owned(), MapId(0))]),
        listed: listed.into_iter().map(|(table, place)| (name(table), place)).collect(),
        default_collation: Collation::Linguistic,
        schemas: vec!["public".into()],
        indexes: HashMap::from([(name("orders_pkey"), name("orders")), (name("logs_pkey"), name("logs"))]),
        system: ["pg_class".to_owned()].into(),
        oids: Vec::new(),
        user_types: HashSet::new(),
        unequal_types: HashSet::new(),
        problems: Vec::new(),
    }
}

/// The same database with one shard only.
pub fn one_shard() -> Catalog {
    let mut catalog = catalog();
    catalog.shards.truncate(1);
    catalog
}

pub fn planned(sql: &str, catalog: &Catalog, forced: Option<u16>) -> Plan {
    let search_path = ["public".to_owned()];
    let temporary = ["scratch".to_owned(), "users".to_owned()];
    let context = Context {
        catalog,
        search_path: &search_path,
        temporary: &temporary[..1],
        param_types: &[],
        standard_conforming_strings: true,
        forced_shard: forced.map(ShardId),
    };
    let statement = Statement::new(Arc::from(sql), true).unwrap();
    crate::plan::plan(&statement, &context)
}

/// `all`, `s1` or `s0+s2`, with `outside` and `schema` where they apply.
pub fn told(plan: &Plan) -> String {
    match plan {
        Plan::Everywhere(plan) => {
            let shards = match &plan.shards {
                OnShards::All => "all".to_owned(),
                OnShards::Some(some) => some.iter().map(|s| format!("s{}", s.0)).collect::<Vec<_>>().join("+"),
            };
            let outside = if plan.outside_transaction { " outside" } else { "" };
            let schema = if plan.changes_schema { " schema" } else { "" };
            let texts: String = plan.texts.iter().map(|(shard, text)| format!(" s{}: {text};", shard.0)).collect();
            format!("{shards}{outside}{schema}{texts}")
        }
        Plan::Rows(plan) => rows(plan),
        Plan::Refuse(error) => format!("refuse {} {}", error.code.as_str(), error.message),
        Plan::AskFirst(error) => format!("ask {}", error.message),
        Plan::Unknown(names) => {
            format!("unknown {}", names.names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
        Plan::Session => "session".into(),
        Plan::Explain(_) => "explain".into(),
    }
}

fn rows(plan: &RowsPlan) -> String {
    let target = match &plan.target {
        Target::Any => "any".to_owned(),
        Target::Home => "home".to_owned(),
        Target::Shard(shard) => format!("s{}", shard.0),
        Target::All => "everywhere".to_owned(),
        Target::Keys { conditions, .. } => format!("keys {:?}", conditions[0].expr),
    };
    let mut told = format!("rows {target} {:?}", plan.effect).to_lowercase();
    if let Some(direction) = plan.copy {
        told += &format!(" copy {direction:?}").to_lowercase();
    }
    if let Some(pin) = plan.pins {
        told += &format!(" pin {pin:?}");
    }
    if plan.makes.changes_schema {
        told += " schema";
    }
    if !plan.makes.temporary.is_empty() {
        told += &format!(" temporary {}", plan.makes.temporary.join(","));
    }
    told
}

/// Each statement with what is told of it; for refusals a part of the message is enough.
pub fn expect(cases: &[(&str, &str)]) {
    expect_on(&catalog(), None, cases);
}

pub fn expect_on(catalog: &Catalog, forced: Option<u16>, cases: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (sql, expected) in cases {
        let plan = planned(sql, catalog, forced);
        let told = told(&plan);
        let refusal = expected.split_once(": ").filter(|(kind, _)| kind.starts_with("refuse") || *kind == "ask");
        let right = match refusal {
            Some((kind, part)) => told.starts_with(kind) && told.contains(part),
            None => told == *expected,
        };
        if !right {
            wrong.push(format!("{sql}\n  is       {told}\n  expected {expected}"));
        }
        if let Plan::Refuse(error) | Plan::AskFirst(error) = &plan {
            assert!(!error.message.is_empty() && !error.message.ends_with('.'), "{sql}: {}", error.message);
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
