//! DROP, COMMENT, SECURITY LABEL, GRANT and REVOKE: where the things are that they name.

use super::Decided;
use super::Decision;
use super::Job;
use super::cursor::Cursor;
use super::decided;
use super::decided_list;
use super::place;
use super::place::Use;
use super::refused;
use crate::catalog::Placement;
use crate::error::Error;
use crate::plan::OnShards;
use crate::plan::rows::CHOOSE;

/// Kinds of things that are one for a server or a database, and not spread.
pub const SERVER_KINDS: [&[&str]; 9] = [
    &["database"],
    &["tablespace"],
    &["publication"],
    &["subscription"],
    &["server"],
    &["foreign", "data", "wrapper"],
    &["user", "mapping"],
    &["system"],
    &["foreign", "table"],
];

/// Kinds of things that are on every shard.
pub const EVERYWHERE_KINDS: [&[&str]; 27] = [
    &["schema"],
    &["type"],
    &["domain"],
    &["function"],
    &["procedure"],
    &["routine"],
    &["aggregate"],
    &["extension"],
    &["collation"],
    &["conversion"],
    &["cast"],
    &["operator"],
    &["text", "search"],
    &["access", "method"],
    &["language"],
    &["procedural", "language"],
    &["trusted", "language"],
    &["trusted", "procedural", "language"],
    &["transform"],
    &["event", "trigger"],
    &["role"],
    &["user"],
    &["group"],
    &["default", "privileges"],
    &["owned"],
    &["large", "object"],
    &["parameter"],
];

/// Those of them that are in a schema and have a name of words.
pub const IN_SCHEMA_KINDS: [&[&str]; 12] = [
    &["type"],
    &["domain"],
    &["function"],
    &["procedure"],
    &["routine"],
    &["aggregate"],
    &["collation"],
    &["conversion"],
    &["text", "search", "configuration"],
    &["text", "search", "dictionary"],
    &["text", "search", "parser"],
    &["text", "search", "template"],
];

/// DROP, ALTER and COMMENT of such things where their names say that they are in pg_temp: on the home connection.
pub fn temporary(job: &Job<'_>) -> Option<Decided> {
    let mut rest = job.cursor;
    let verb = rest.one_of(&["drop", "alter", "comment"])?;
    if verb == "comment" && !rest.word("on") {
        return None;
    }
    kind(&mut rest, &IN_SCHEMA_KINDS)?;
    rest.words(&["if", "exists"]);
    let list = if verb == "drop" { rest.items() } else { vec![rest] };
    let is_temporary = |item: &Cursor<'_>| item.word_at(0, "pg_temp") && item.symbol_at(1, ".");
    match list.iter().filter(|item| is_temporary(item)).count() {
        0 => None,
        n if n == list.len() => Some(Ok(Decision::Rows(Box::new(super::at_home(job))))),
        _ => Some(Err(Error::unsupported("one statement for temporary things and others")
            .hint("Write one statement for each of them.")
            .into())),
    }
}

/// Steps over the first of these kinds that is next, written as one name.
pub fn kind(rest: &mut Cursor<'_>, kinds: &[&[&'static str]]) -> Option<String> {
    let found = kinds.iter().find(|words| rest.words(words))?;
    Some(found.join(" ").to_ascii_uppercase())
}

/// Steps over the kind of a relation.
pub fn relation_kind(rest: &mut Cursor<'_>) -> bool {
    const KINDS: [&[&str]; 6] =
        [&["materialized", "view"], &["foreign", "table"], &["table"], &["view"], &["sequence"], &["index"]];
    kind(rest, &KINDS).is_some()
}

/// DROP kind [CONCURRENTLY] [IF EXISTS] name, … [CASCADE | RESTRICT]
pub fn drop(job: &Job<'_>) -> Decided {
    let mut rest = job.cursor;
    rest.skip(1);
    if rest.one_of(&["trigger", "rule", "policy"]).is_some() {
        return drop_on_table(job, rest);
    }
    if rest.word("statistics") {
        return statistics(job, rest);
    }
    if relation_kind(&mut rest) {
        rest.word("concurrently");
        let if_exists = rest.words(&["if", "exists"]);
        let list = without_behavior(rest);
        let names = place::name_list(&list, |_| {}).ok_or_else(|| job.unread())?;
        let usage = Use::Drop { if_exists };
        return if if_exists { decided(job, &names, usage) } else { decided_list(job, &list, &names, usage) };
    }
    if let Some(kind) = kind(&mut rest, &SERVER_KINDS) {
        return Err(refused(job, &format!("DROP {kind}")));
    }
    if rest.word_at(0, "schema") {
        rest.skip(1);
        return drop_schema(job, rest);
    }
    match kind(&mut rest, &EVERYWHERE_KINDS) {
        Some(_) => Ok(Decision::Everywhere(OnShards::All)),
        None => Err(job.unread()),
    }
}

fn without_behavior(rest: Cursor<'_>) -> Cursor<'_> {
    let behavior = rest.ends_with(&["cascade"]) || rest.ends_with(&["restrict"]);
    let alone = rest.tokens.len() <= 1
        || rest.symbol_at(rest.tokens.len().saturating_sub(2), ",")
        || rest.symbol_at(rest.tokens.len().saturating_sub(2), ".");
    rest.part(0, rest.tokens.len() - usize::from(behavior && !alone))
}

/// DROP {TRIGGER | RULE | POLICY} [IF EXISTS] name ON table
fn drop_on_table(job: &Job<'_>, mut rest: Cursor<'_>) -> Decided {
    let if_exists = rest.words(&["if", "exists"]);
    rest.name().filter(|_| rest.word("on")).ok_or_else(|| job.unread())?;
    let table = rest.qualified().ok_or_else(|| job.unread())?;
    let usage = if if_exists { Use::Drop { if_exists } } else { Use::Change };
    decided(job, &[table], usage)
}

/// Nobody here knows the tables of extended statistics.
pub fn statistics(job: &Job<'_>, mut rest: Cursor<'_>) -> Decided {
    if rest.words(&["if", "exists"]) {
        return Ok(Decision::Everywhere(OnShards::All));
    }
    Err(Error::unsupported(format!("{} STATISTICS, of which the table is not known", job.cursor.heading(1)))
        .hint(format!("Use IF EXISTS, which goes to all shards. {CHOOSE}"))
        .into())
}

/// A schema that is not empty is refused by the shards that have something in it, so one of them is asked alone.
fn drop_schema(job: &Job<'_>, mut rest: Cursor<'_>) -> Decided {
    rest.words(&["if", "exists"]);
    let cascade = rest.ends_with(&["cascade"]) && rest.tokens.len() > 1;
    let names = place::name_list(&without_behavior(rest), |_| {}).ok_or_else(|| job.unread())?;
    let schemas: Vec<&String> = names.iter().filter_map(|parts| parts.last()).collect();
    let inside = job.context.catalog.relations.values().filter(|relation| schemas.contains(&&relation.name.schema));
    let singles = inside.filter_map(|relation| match relation.placement {
        Placement::Single(shard) => Some(shard),
        _ => None,
    });
    let single = singles.min();
    Ok(Decision::Everywhere(match single {
        Some(shard) if !cascade => place::at(shard),
        _ => OnShards::All,
    }))
}

/// COMMENT ON kind name IS …, SECURITY LABEL [FOR provider] ON kind name IS …
pub fn comment(job: &Job<'_>) -> Decided {
    let mut rest = job.cursor;
    let on = rest.find("on").ok_or_else(|| job.unread())?;
    rest.skip(on + 1);
    if rest.word("column") {
        let mut name = rest.qualified().filter(|_| rest.word_at(0, "is")).ok_or_else(|| job.unread())?;
        name.pop();
        return if name.is_empty() { Err(job.unread()) } else { decided(job, &[name], Use::Maintain) };
    }
    if rest.one_of(&["constraint", "policy", "rule", "trigger"]).is_some() {
        rest.name().filter(|_| rest.word("on")).ok_or_else(|| job.unread())?;
        if rest.word("domain") {
            return Ok(Decision::Everywhere(OnShards::All));
        }
        let table = rest.qualified().filter(|_| rest.word_at(0, "is")).ok_or_else(|| job.unread())?;
        return decided(job, &[table], Use::Maintain);
    }
    if rest.word("statistics") {
        return statistics(job, rest);
    }
    if relation_kind(&mut rest) {
        let name = rest.qualified().filter(|_| rest.word_at(0, "is")).ok_or_else(|| job.unread())?;
        return decided(job, &[name], Use::Maintain);
    }
    if let Some(kind) = kind(&mut rest, &SERVER_KINDS) {
        return Err(refused(job, &format!("{} ON {kind}", job.cursor.heading(1))));
    }
    match kind(&mut rest, &EVERYWHERE_KINDS) {
        Some(kind) if kind == "LARGE OBJECT" => Err(refused(job, "COMMENT ON LARGE OBJECT")),
        Some(_) => Ok(Decision::Everywhere(OnShards::All)),
        None => Err(job.unread()),
    }
}

/// GRANT … ON [TABLE | SEQUENCE] name, … TO …, GRANT … ON other things, and GRANT role TO role
pub fn grant(job: &Job<'_>) -> Decided {
    let mut rest = job.cursor;
    let Some(on) = rest.find("on") else { return Ok(Decision::Everywhere(OnShards::All)) };
    rest.skip(on + 1);
    if rest.word_at(0, "all") {
        return Ok(Decision::Everywhere(OnShards::All));
    }
    let end = ["to", "from"].iter().filter_map(|word| rest.find(word)).min().ok_or_else(|| job.unread())?;
    let mut list = rest.part(0, end);
    if list.word_at(0, "large") && list.word_at(1, "object") {
        return Err(refused(job, "GRANT ON LARGE OBJECT"));
    }
    if list.tokens.len() > 1 && !list.symbol_at(1, ",") && !list.symbol_at(1, ".") {
        const OTHERS: [&[&str]; 12] = [
            &["schema"],
            &["function"],
            &["procedure"],
            &["routine"],
            &["type"],
            &["domain"],
            &["language"],
            &["database"],
            &["parameter"],
            &["tablespace"],
            &["foreign", "server"],
            &["foreign", "data"],
        ];
        match kind(&mut list, &OTHERS).as_deref() {
            Some(kind @ ("DATABASE" | "TABLESPACE" | "FOREIGN SERVER" | "FOREIGN DATA")) => {
                return Err(refused(job, &format!("{} ON {kind}", job.cursor.heading(1))));
            }
            Some(_) => return Ok(Decision::Everywhere(OnShards::All)),
            None => {
                let _ = list.word("table") || list.word("sequence");
            }
        }
    }
    let names = place::name_list(&list, |_| {}).ok_or_else(|| job.unread())?;
    decided_list(job, &list, &names, Use::Maintain)
}
