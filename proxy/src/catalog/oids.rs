//! Which numbers users' types and tables have on a shard, against those of the home shard, which are the clients'.
//!
//! A type is the same by its qualified name, an array type by that of its elements (PostgreSQL names array types as
//! it likes). Types of `pg_catalog` have the same numbers everywhere.

use super::schema::RelationFacts;
use super::schema::ShardSchema;
use super::schema::TypeFacts;
use crate::value::Oid;
use crate::value::oid;
use crate::wire::oids::Holds;
use crate::wire::oids::Numbers;
use crate::wire::oids::RelationNumbers;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;

/// One shard's numbers against the home shard's.
#[derive(Clone, Debug, Default)]
pub struct ShardOids {
    pub to_home: Numbers,
    pub to_shard: Numbers,
    /// Some type or table has another number here, or is not on both: what passes has to be looked into.
    pub differs: bool,
}

impl ShardOids {
    /// Compares a shard with the home shard.
    pub fn compare(home: &ShardSchema, shard: &ShardSchema) -> ShardOids {
        let (mut to_home, mut to_shard) = (Numbers::default(), Numbers::default());
        let (home_types, shard_types) = (by_key(&home.user_types), by_key(&shard.user_types));
        for (key, here) in &shard_types {
            if let Some(there) = home_types.get(key) {
                to_home.types.insert(here.oid, there.oid);
                to_shard.types.insert(there.oid, here.oid);
            }
        }
        let home_relations = relations(home);
        for (name, here) in relations(shard) {
            if let Some(there) = home_relations.get(&name) {
                to_home.relations.insert(here.oid, numbers(here, there));
                to_shard.relations.insert(there.oid, numbers(there, here));
            }
        }
        to_home.holders = holders(&shard.user_types, &to_home);
        to_shard.holders = holders(&home.user_types, &to_shard);
        let differs = !is_same(&to_home, shard) || !is_same(&to_shard, home);
        ShardOids { to_home, to_shard, differs }
    }

    /// Of a shard that has told nothing: no type of a user is known on it.
    pub fn unknown() -> ShardOids {
        ShardOids { differs: true, ..ShardOids::default() }
    }
}

/// Types (the home shard's numbers) that are not the same on every shard: absent, or enums with other labels or another
/// order of them, or composite types with other fields.
pub fn unequal_types(home: &ShardSchema, others: &[&ShardSchema]) -> HashSet<Oid> {
    let mut unequal = HashSet::new();
    let here = by_key(&home.user_types);
    let names = keys(&home.user_types);
    for other in others {
        let there = by_key(&other.user_types);
        let other_names = keys(&other.user_types);
        let name = |names: &HashMap<Oid, String>, oid: &Oid| names.get(oid).cloned().unwrap_or_else(|| oid.to_string());
        let fields =
            |t: &TypeFacts, names: &HashMap<Oid, String>| t.fields.iter().map(|f| name(names, f)).collect::<Vec<_>>();
        for (key, t) in &here {
            let same = there.get(key).is_some_and(|o| {
                o.kind == t.kind && o.labels == t.labels && fields(o, &other_names) == fields(t, &names)
            });
            if !same {
                unequal.insert(t.oid);
            }
        }
    }
    // What is made of such types is no more equal.
    spread(&home.user_types, unequal)
}

/// Adds the types whose values hold values of these.
fn spread(types: &[TypeFacts], mut found: HashSet<Oid>) -> HashSet<Oid> {
    loop {
        let before = found.len();
        for t in types {
            let parts = [t.base, t.element, t.subtype, t.range];
            if parts.iter().chain(&t.fields).any(|part| found.contains(part)) {
                found.insert(t.oid);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn is_same(numbers: &Numbers, schema: &ShardSchema) -> bool {
    schema.user_types.iter().all(|t| numbers.types.get(&t.oid) == Some(&t.oid))
        && schema
            .relations
            .iter()
            .filter(|r| has_columns(r))
            .all(|r| numbers.relations.get(&r.oid).is_some_and(|there| there.oid == r.oid && there.columns.is_empty()))
}

fn has_columns(facts: &RelationFacts) -> bool {
    !matches!(facts.kind.as_str(), "i" | "I")
}

fn relations(schema: &ShardSchema) -> BTreeMap<(&str, &str), &RelationFacts> {
    let columned = schema.relations.iter().filter(|r| has_columns(r));
    columned.map(|r| ((r.schema.as_str(), r.name.as_str()), r)).collect()
}

/// The numbers of a relation `here` as they are `there`.
fn numbers(here: &RelationFacts, there: &RelationFacts) -> RelationNumbers {
    let other: HashMap<&str, i16> = there.columns.iter().map(|c| (c.name.as_str(), c.number)).collect();
    let column = |c: &super::schema::ColumnFacts| (c.number, other.get(c.name.as_str()).copied().unwrap_or(0));
    let columns = here.columns.iter().map(column).filter(|(a, b)| a != b).collect();
    RelationNumbers { oid: there.oid, columns }
}

/// What a type is the same by on every shard.
fn keys(types: &[TypeFacts]) -> HashMap<Oid, String> {
    let names: HashMap<Oid, &str> = types.iter().map(|t| (t.oid, t.name.as_str())).collect();
    let key = |t: &TypeFacts| match names.get(&t.element) {
        Some(element) => format!("{element}[]"),
        None => t.name.clone(),
    };
    types.iter().map(|t| (t.oid, key(t))).collect()
}

fn by_key(types: &[TypeFacts]) -> BTreeMap<String, &TypeFacts> {
    let mut keys = keys(types);
    types.iter().filter_map(|t| Some((keys.remove(&t.oid)?, t))).collect()
}

/// The types of one side whose binary values hold numbers that are others on the other side.
fn holders(types: &[TypeFacts], numbers: &Numbers) -> HashMap<Oid, Holds> {
    let mut found = HashMap::new();
    let differing: HashSet<Oid> =
        types.iter().map(|t| t.oid).filter(|oid| numbers.types.get(oid) != Some(oid)).collect();
    if !differing.is_empty() {
        found.extend([
            (oid::RECORD, Holds::Record),
            (oid::RECORD_ARRAY, Holds::Array),
            (oid::REGTYPE, Holds::Type),
            (oid::REGTYPE_ARRAY, Holds::Array),
        ]);
    }
    if numbers.relations.iter().any(|(oid, there)| *oid != there.oid) {
        found.extend([(oid::REGCLASS, Holds::Relation), (oid::REGCLASS_ARRAY, Holds::Array)]);
    }
    loop {
        let before = found.len();
        for t in types {
            if let Some(holds) = holds(t, &differing, &found) {
                found.insert(t.oid, holds);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn holds(t: &TypeFacts, differing: &HashSet<Oid>, found: &HashMap<Oid, Holds>) -> Option<Holds> {
    let told = |oid: &Oid| differing.contains(oid) || found.contains_key(oid);
    match t.kind.as_str() {
        "c" if t.fields.iter().any(told) => Some(Holds::Record),
        "d" if found.contains_key(&t.base) => Some(Holds::Domain(t.base)),
        "r" if found.contains_key(&t.subtype) => Some(Holds::Range(t.subtype)),
        "m" if found.contains_key(&t.range) => Some(Holds::Multirange(t.range)),
        "b" if t.element != 0 && told(&t.element) => Some(Holds::Array),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::Holds;
    use super::ShardOids;
    use super::ShardSchema;
    use super::unequal_types;
    use crate::value::oid;
    use serde_json::Value;
    use serde_json::json;

    /// Types and one table, whose numbers begin at `first`; the array of the enum has a name of its own.
    fn schema(first: u32, array: &str, labels: &[&str]) -> ShardSchema {
        let kind = |name: &str, n: u32, kind: &str, more: Value| {
            let mut facts = json!({
                "name": name, "oid": first + n, "kind": kind, "base": 0, "element": 0, "subtype": 0, "range": 0,
                "fields": [], "labels": [],
            });
            facts.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            facts
        };
        let types = vec![
            kind("public.mood", 0, "e", json!({ "labels": labels })),
            kind(array, 1, "b", json!({ "element": first })),
            kind("public.point3", 2, "c", json!({ "fields": [oid::INT4, oid::INT4] })),
            kind("public.felt", 3, "c", json!({ "fields": [oid::INT4, first] })),
            kind("public.calm", 4, "d", json!({ "base": first + 3 })),
            kind("public.percent", 5, "d", json!({ "base": oid::INT4 })),
            kind("public.span", 6, "r", json!({ "subtype": oid::INT4 })),
            kind("public.feltspan", 7, "r", json!({ "subtype": first + 3 })),
            kind("public.feltspans", 8, "m", json!({ "range": first + 7 })),
        ];
        let column = |name: &str, number: u32| {
            json!({ "name": name, "number": number, "type": oid::INT4, "type_name": "integer", "collation": 0,
                "not_null": false, "default": null, "generated": false, "identity": false })
        };
        // a column was dropped where the numbers are large
        let second = if first > 20_000 { 3 } else { 2 };
        serde_json::from_value(json!({
            "version": 150_000, "schemas": ["public"], "system": [], "collations": [], "functions": [],
            "operators": [], "user_types": types,
            "database": { "encoding": "UTF8", "provider": "c", "collate": "C", "locale": null },
            "relations": [{ "schema": "public", "name": "t", "oid": first + 50, "kind": "r", "row_security": false,
                "has_children": false, "parent": null, "table": null, "definition": null, "rules": false,
                "columns": [column("a", 1), column("b", second)], "unique": [], "triggers": [] }],
        }))
        .unwrap()
    }

    #[test]
    fn equal_numbers_differ_in_nothing() {
        let home = schema(17_000, "public._mood", &["sad", "happy"]);
        let oids = ShardOids::compare(&home, &home.clone());
        assert!(!oids.differs);
        assert!(oids.to_home.holders.is_empty());
        assert!(unequal_types(&home, &[&home]).is_empty());
    }

    #[test]
    fn types_are_found_by_name_and_arrays_by_their_elements() {
        let home = schema(17_000, "public._mood", &["sad", "happy"]);
        let shard = schema(30_000, "public.___mood", &["sad", "happy"]);
        let oids = ShardOids::compare(&home, &shard);
        assert!(oids.differs);
        assert_eq!(oids.to_home.type_oid(30_001), Some(17_001));
        assert_eq!(oids.to_shard.type_oid(17_008), Some(30_008));
        assert_eq!(oids.to_home.type_oid(30_009), None);
        let table = oids.to_home.relations.get(&30_050).unwrap();
        assert_eq!((table.oid, table.columns.get(&3)), (17_050, Some(&2)));
        assert!(unequal_types(&home, &[&shard]).is_empty());
    }

    #[test]
    fn only_values_that_hold_differing_numbers_are_looked_into() {
        let home = schema(17_000, "public._mood", &["sad", "happy"]);
        let oids = ShardOids::compare(&home, &schema(30_000, "public._mood", &["sad", "happy"]));
        let holders = &oids.to_home.holders;
        let expected = [
            (30_001, Some(Holds::Array)),
            (30_002, None),
            (30_003, Some(Holds::Record)),
            (30_004, Some(Holds::Domain(30_003))),
            (30_005, None),
            (30_006, None),
            (30_007, Some(Holds::Range(30_003))),
            (30_008, Some(Holds::Multirange(30_007))),
            (oid::RECORD, Some(Holds::Record)),
            (oid::REGCLASS, Some(Holds::Relation)),
            (oid::INT4_ARRAY, None),
        ];
        for (oid, holds) in expected {
            assert_eq!(holders.get(&oid).copied(), holds, "{oid}");
        }
    }

    #[test]
    fn labels_in_another_order_make_unequal_what_holds_them() {
        let home = schema(17_000, "public._mood", &["sad", "happy"]);
        let shard = schema(17_000, "public._mood", &["happy", "sad"]);
        let mut unequal: Vec<u32> = unequal_types(&home, &[&shard]).into_iter().collect();
        unequal.sort_unstable();
        assert_eq!(unequal, [17_000, 17_001, 17_003, 17_004, 17_007, 17_008]);
        assert!(!ShardOids::compare(&home, &shard).differs);
    }
}
