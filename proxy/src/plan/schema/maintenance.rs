//! TRUNCATE, LOCK, VACUUM, ANALYZE, REINDEX, CLUSTER, REFRESH MATERIALIZED VIEW.

use super::Decided;
use super::Decision;
use super::Job;
use super::cursor::Cursor;
use super::decided;
use super::decided_list;
use super::place;
use super::place::Use;
use super::reads;
use super::triggers;
use crate::error::Error;
use crate::plan::OnShards;
use crate::plan::names;
use crate::plan::names::Named;
use crate::sql::Statement;
use crate::sql::lexer::TokenKind;
use std::sync::Arc;

/// TRUNCATE [TABLE] [ONLY] name [*], … [RESTART IDENTITY | CONTINUE IDENTITY] [CASCADE | RESTRICT]
pub fn truncate(job: &Job<'_>, mut rest: Cursor<'_>) -> Decided {
    rest.word("table");
    let end = ["restart", "continue", "cascade", "restrict"].iter().filter_map(|word| end_word(&rest, word)).min();
    let list = rest.part(0, end.unwrap_or(rest.tokens.len()));
    let names = place::name_list(&list, |_| {}).ok_or_else(|| job.unread())?;
    let decided = decided_list(job, &list, &names, Use::Change)?;
    if !matches!(decided, Decision::Rows(_)) {
        for parts in &names {
            let Named::Relation(relation) = names::relation(job.context, parts) else { continue };
            if let Some(trigger) = triggers::opaque(&relation, "TRUNCATE", job.context) {
                return Err(triggers::refused(&trigger).into());
            }
        }
    }
    Ok(decided)
}

/// The place of a word that ends a list of names: behind a name, and not as one.
fn end_word(list: &Cursor<'_>, word: &str) -> Option<usize> {
    let is_end = |index: usize| {
        let before = index.checked_sub(1).and_then(|n| list.tokens.get(n));
        before.is_some_and(|token| {
            !token.is_symbol(list.text, ",") && !token.is_symbol(list.text, ".") && !token.is_word(list.text, "only")
        })
    };
    list.top_level().find(|(index, token)| token.is_word(list.text, word) && is_end(*index)).map(|(index, _)| index)
}

/// LOCK [TABLE] [ONLY] name [*], … [IN mode MODE] [NOWAIT]
pub fn lock(job: &Job<'_>, mut rest: Cursor<'_>) -> Decided {
    rest.word("table");
    let end = ["in", "nowait"].iter().filter_map(|word| end_word(&rest, word)).min();
    let list = rest.part(0, end.unwrap_or(rest.tokens.len()));
    let names = place::name_list(&list, |_| {}).ok_or_else(|| job.unread())?;
    decided_list(job, &list, &names, Use::Change)
}

/// VACUUM or ANALYZE [(options)] [FULL] [FREEZE] [VERBOSE] [ANALYZE] [table [(columns)], …]
pub fn vacuum(job: &Job<'_>, mut rest: Cursor<'_>) -> Decided {
    rest.parens();
    while rest.one_of(&["full", "freeze", "verbose", "analyze", "analyse"]).is_some() {}
    if rest.is_done() {
        return Ok(Decision::Everywhere(OnShards::All));
    }
    let columns = |item: &mut Cursor<'_>| {
        item.parens();
    };
    let names = place::name_list(&rest, columns).ok_or_else(|| job.unread())?;
    decided_list(job, &rest, &names, Use::Maintain)
}

/// REINDEX [(options)] {INDEX | TABLE | SCHEMA | DATABASE | SYSTEM} [CONCURRENTLY] [name]
pub fn reindex(job: &Job<'_>, mut rest: Cursor<'_>) -> Decided {
    rest.parens();
    let kind = rest.one_of(&["index", "table", "schema", "database", "system"]).ok_or_else(|| job.unread())?;
    rest.word("concurrently");
    match kind {
        "index" | "table" => {
            let name = rest.qualified().filter(|_| rest.is_done()).ok_or_else(|| job.unread())?;
            decided(job, &[name], Use::Maintain)
        }
        _ if rest.tokens.len() <= 1 => Ok(Decision::Everywhere(OnShards::All)),
        _ => Err(job.unread()),
    }
}

/// CLUSTER [(options)] [VERBOSE] [table [USING index]], or CLUSTER index ON table
pub fn cluster(job: &Job<'_>, mut rest: Cursor<'_>) -> Decided {
    rest.parens();
    rest.word("verbose");
    if rest.is_done() {
        return Ok(Decision::Everywhere(OnShards::All));
    }
    let mut name = rest.qualified().ok_or_else(|| job.unread())?;
    if rest.word("on") {
        name = rest.qualified().ok_or_else(|| job.unread())?;
    }
    if rest.word("using") {
        rest.name().ok_or_else(|| job.unread())?;
    }
    if !rest.is_done() {
        return Err(job.unread());
    }
    decided(job, &[name], Use::Maintain)
}

/// REFRESH MATERIALIZED VIEW [CONCURRENTLY] name [WITH [NO] DATA]
pub fn refresh(job: &Job<'_>, mut rest: Cursor<'_>) -> Decided {
    if !rest.words(&["materialized", "view"]) {
        return Err(job.unread());
    }
    rest.word("concurrently");
    let name = rest.qualified().ok_or_else(|| job.unread())?;
    if rest.tokens.iter().any(|token| token.kind != TokenKind::Word) {
        return Err(job.unread());
    }
    if let Named::Relation(relation) = names::relation(job.context, &name)
        && let Some(definition) = &relation.definition
    {
        let query = Statement::new(Arc::from(definition.as_str()), true)?;
        let qualified = crate::plan::Context { search_path: &[], temporary: &[], ..*job.context };
        let reads = reads::of_query(&query, &qualified);
        let what = format!("materialized view {}", relation.name);
        let needed = reads::one_shard(&reads, &what, &qualified)?;
        let place = place::of_relation(&relation, job.context)?;
        if let Some(shard) = needed
            && place != place::at(shard)
        {
            return Err(Error::unsupported(format!("{what} reads tables that are not on its shard")).into());
        }
    }
    decided(job, &[name], Use::Change)
}
