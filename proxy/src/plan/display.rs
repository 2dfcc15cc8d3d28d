//! Plans as text: for EXPLAIN, `shardway route`, and tests.

use super::Aggregate;
use super::CompareOp;
use super::CopyKey;
use super::CopyPlan;
use super::Count;
use super::Effect;
use super::EveryonePlan;
use super::HiddenColumn;
use super::KeyCondition;
use super::KeyExpr;
use super::Layout;
use super::MergeSpec;
use super::OnShards;
use super::Output;
use super::Plan;
use super::RowsPlan;
use super::ScatterPlan;
use super::ShardColumn;
use super::SortBy;
use super::Source;
use super::Target;
use super::writes::Part;
use super::writes::Shape;
use super::writes::When;
use super::writes::WritePlan;
use super::writes::between;
use crate::catalog::Catalog;
use crate::catalog::ShardId;
use crate::error::Error;
use crate::sql::Statement;
use crate::value::Datum;
use std::fmt;

/// A plan with what its numbers stand for.
pub struct Printed<'a> {
    plan: &'a Plan,
    names: Names<'a>,
}

/// What numbers stand for; without them the numbers are printed.
#[derive(Clone, Copy, Default)]
struct Names<'a> {
    catalog: Option<&'a Catalog>,
    statement: Option<&'a Statement>,
}

impl Plan {
    /// The plan as text, with the names of shards and maps and the literals of the statement that it was made for.
    pub fn display<'a>(&'a self, catalog: &'a Catalog, statement: Option<&'a Statement>) -> Printed<'a> {
        Printed { plan: self, names: Names { catalog: Some(catalog), statement } }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printed { plan: self, names: Names::default() }.fmt(f)
    }
}

/// A plan for rows, line by line.
pub fn lines(rows: &RowsPlan, catalog: &Catalog, statement: Option<&Statement>) -> Vec<String> {
    Names { catalog: Some(catalog), statement }.rows(rows)
}

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = match self.plan {
            Plan::Session => vec!["session".to_owned()],
            Plan::Rows(rows) => self.names.rows(rows),
            Plan::Everywhere(plan) => {
                let mut line = match &plan.shards {
                    OnShards::All => "on every shard".to_owned(),
                    OnShards::Some(shards) => format!("on {}", self.names.shards(shards)),
                };
                if plan.outside_transaction {
                    line.push_str(", outside a transaction");
                }
                if plan.changes_schema {
                    line.push_str(", changes the schema");
                }
                vec![line]
            }
            Plan::Explain(plan) => {
                let run = if plan.analyze { "explain and run" } else { "explain" };
                let lines = self.names.rows(&plan.inner);
                // the inner statement's literals are not those of the whole text
                let lines = if plan.lines.is_empty() { lines } else { plan.lines.clone() };
                std::iter::once(run.to_owned()).chain(lines.into_iter().map(|l| format!("  {l}"))).collect()
            }
            Plan::Unknown(unknown) => {
                let names: Vec<String> = unknown.names.iter().map(ToString::to_string).collect();
                vec![format!("unknown {}", names.join(", "))]
            }
            Plan::AskFirst(error) => {
                vec!["ask the home shard, then refuse".to_owned()].into_iter().chain(error_lines(error)).collect()
            }
            Plan::Refuse(error) => error_lines(error),
        };
        f.write_str(&lines.join("\n"))
    }
}

fn error_lines(error: &Error) -> Vec<String> {
    let mut lines = vec![format!("error {}: {}", error.code.as_str(), error.message)];
    lines.extend(error.detail.iter().map(|d| format!("  detail: {d}")));
    lines.extend(error.hint.iter().map(|h| format!("  hint: {h}")));
    lines
}

impl Names<'_> {
    fn shard(&self, shard: ShardId) -> String {
        match self.catalog {
            Some(catalog) => catalog.shard_name(shard).to_owned(),
            None => format!("#{}", shard.0),
        }
    }

    fn shards(&self, shards: &[ShardId]) -> String {
        let all = self.catalog.is_some_and(|c| c.shards.len() > 1 && c.all_shards() == shards);
        if all {
            return "every shard".to_owned();
        }
        shards.iter().map(|s| self.shard(*s)).collect::<Vec<_>>().join(", ")
    }

    fn rows(&self, rows: &RowsPlan) -> Vec<String> {
        let mut lines = match &rows.target {
            Target::Any => vec!["any shard".to_owned()],
            Target::Home => vec!["home shard".to_owned()],
            Target::Shard(shard) => vec![format!("shard {}", self.shard(*shard))],
            Target::All => vec!["every shard".to_owned()],
            Target::Keys { conditions, also } => self.keys(conditions, also),
        };
        match (&rows.target, &rows.scatter) {
            _ if rows.writes.is_some() => lines.extend(rows.writes.iter().flat_map(|w| self.writes(w))),
            (Target::Keys { .. }, Ok(scatter)) => {
                lines.push("else scatter".to_owned());
                lines.extend(self.scatter(scatter).into_iter().map(|l| format!("  {l}")));
            }
            (Target::Keys { .. }, Err(_)) if rows.copies.is_some() => {}
            (Target::Keys { .. }, Err(error)) => {
                lines.push("else refuse".to_owned());
                lines.extend(error_lines(error).into_iter().map(|l| format!("  {l}")));
            }
            _ => {}
        }
        if let Some(everyone) = &rows.everyone {
            lines.extend(self.everyone(everyone));
        }
        match rows.effect {
            Effect::Read => {}
            Effect::Lock => lines.push("locks".to_owned()),
            Effect::Write => lines.push("writes".to_owned()),
        }
        if rows.opaque {
            lines.push("opaque".to_owned());
        }
        lines.extend(
            rows.set_config
                .iter()
                .map(|s| format!("sets {}{}", s.name, if s.local { " for the transaction" } else { "" })),
        );
        lines.extend(rows.pins.map(|reason| format!("pins: {reason:?}")));
        lines.extend(rows.copies.as_deref().map(copied));
        lines.extend(rows.copy.map(|direction| format!("copy {direction:?}").to_lowercase()));
        if rows.makes.changes_schema {
            lines.push("changes the schema".to_owned());
        }
        lines.extend(rows.makes.temporary.iter().map(|t| format!("makes temporary table {t}")));
        lines
    }

    fn everyone(&self, plan: &EveryonePlan) -> Vec<String> {
        let mut lines: Vec<String> = plan.locks.iter().map(|table| format!("lock {table}")).collect();
        match (&plan.varies, &plan.images) {
            (None, _) => lines.push("the same text".to_owned()),
            (Some(what), Ok(images)) => {
                lines.push(format!("the lead's rows: {what} may differ"));
                lines.push(format!("  lead: …{}", images.returning));
                lines.push(format!("  others: {}", images.apply));
            }
            (Some(_), Err(error)) => lines.extend(error_lines(error)),
        }
        lines
    }

    fn keys(&self, conditions: &[KeyCondition], also: &[ShardId]) -> Vec<String> {
        let mut lines: Vec<String> = conditions
            .iter()
            .map(|c| {
                let map = self.catalog.and_then(|catalog| catalog.map(c.map));
                let map = map.map_or_else(|| format!("#{}", c.map.0), |m| m.name.clone());
                match &c.expr {
                    KeyExpr::True => format!("route {map}: all of {}", c.names.join(", ")),
                    expr => format!("route {map}: {}", self.expr(expr, c, false)),
                }
            })
            .collect();
        lines.extend(also.iter().map(|s| format!("and shard {}", self.shard(*s))));
        lines
    }

    fn expr(&self, expr: &KeyExpr, condition: &KeyCondition, nested: bool) -> String {
        let name = |column: &usize| condition.names.get(*column).map_or("?", String::as_str);
        let list = |parts: &[KeyExpr], word: &str| {
            let parts: Vec<String> = parts.iter().map(|p| self.expr(p, condition, true)).collect();
            let text = parts.join(word);
            if nested { format!("({text})") } else { text }
        };
        match expr {
            KeyExpr::True => "anything".to_owned(),
            KeyExpr::False => "nothing".to_owned(),
            KeyExpr::Equals { column, value } => format!("{} = {}", name(column), self.source(value)),
            KeyExpr::EqualsAny { column, array } => format!("{} = any {}", name(column), self.source(array)),
            KeyExpr::IsNull { column } => format!("{} is null", name(column)),
            KeyExpr::Row(sources) => {
                let values: Vec<String> = sources.iter().map(|s| self.source(s)).collect();
                format!("row ({})", values.join(", "))
            }
            KeyExpr::Compare { column, op, value } => {
                let op = match op {
                    CompareOp::Less => "<",
                    CompareOp::LessOrEqual => "<=",
                    CompareOp::Greater => ">",
                    CompareOp::GreaterOrEqual => ">=",
                };
                format!("{} {op} {}", name(column), self.source(value))
            }
            KeyExpr::And(parts) => list(parts, " and "),
            KeyExpr::Or(parts) => list(parts, " or "),
        }
    }

    fn source(&self, source: &Source) -> String {
        match source {
            Source::Param(n) => format!("${n}"),
            Source::Const(value) => datum(value),
            Source::Drawn(n) => format!("drawn {}", n + 1),
            Source::Literal { ordinal, negative } => {
                let sign = if *negative { "-" } else { "" };
                let token = self.statement.and_then(|s| s.tokens.iter().filter(|t| t.is_literal()).nth(*ordinal));
                match (token, self.statement) {
                    (Some(token), Some(statement)) => format!("{sign}{}", token.text(&statement.text)),
                    _ => format!("{sign}literal {ordinal}"),
                }
            }
        }
    }

    fn writes(&self, plan: &WritePlan) -> Vec<String> {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Tokens { first, last } => match self.statement {
                Some(statement) => between(&statement.text, &statement.tokens, *first, *last).to_owned(),
                None => format!("[tokens {first} to {last}]"),
            },
            Part::Drawn { value, .. } => format!("[drawn {}]", value + 1),
        };
        let text = |parts: &[Part]| parts.iter().map(part).collect::<String>();
        let mut lines = Vec::new();
        let mut next = 1;
        for draw in &plan.draws {
            let last = next + draw.count - 1;
            let range = if draw.count == 1 { next.to_string() } else { format!("{next} to {last}") };
            let when = match draw.when {
                When::Always => "",
                When::Several => " for several shards",
            };
            lines.push(format!("draw {range}{when}: {}", text(&draw.expr)));
            next = last + 1;
        }
        if let Shape::Rows(split) = &plan.shape {
            lines.push(format!("head: {}", text(&split.head).trim_end()));
            lines.extend(split.rows.iter().map(|row| format!("  row: {}", text(&row.parts))));
            if !split.tail.is_empty() {
                lines.push(format!("tail: {}", text(&split.tail).trim_start()));
            }
        }
        if let Shape::Gathered(gathered) = &plan.shape {
            lines.push(format!("gather: {}", text(&gathered.read)));
            lines.push(format!("write: {}", text(&gathered.write)));
        }
        match (&plan.several, &plan.shape) {
            (Err(error), _) => {
                lines.push("else refuse".to_owned());
                lines.extend(error_lines(error).into_iter().map(|l| format!("  {l}")));
            }
            (Ok(()), Shape::Rows(_) | Shape::Gathered(_)) => lines.push("else split by row".to_owned()),
            (Ok(()), Shape::Same(parts)) => {
                lines.push("else on each shard".to_owned());
                lines.push(format!("  shard: {}", text(parts)));
            }
        }
        lines
    }

    fn scatter(&self, plan: &ScatterPlan) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(statement) = self.statement {
            lines.push(format!("shard: {}", plan.sql.render(&statement.text, &statement.tokens)));
        }
        let mut steps = Vec::new();
        match &plan.layout {
            Layout::Rows { copies, extra, distinct, order } => {
                if *copies {
                    steps.push("hidden: a copy of each column".to_owned());
                }
                if *extra > 0 {
                    steps.push(format!("hidden: {extra} more"));
                }
                if *distinct {
                    steps.push("distinct".to_owned());
                }
                let keys = order.iter().map(|key| {
                    let by = match key.by {
                        HiddenColumn::Copy(n) => format!("copy {}", n + 1),
                        HiddenColumn::Extra(n) => format!("hidden {}", n + 1),
                    };
                    sort_key(&by, key.descending, key.nulls_first)
                });
                let keys: Vec<String> = keys.collect();
                if !keys.is_empty() {
                    steps.push(format!("order by {}", keys.join(", ")));
                }
            }
            Layout::Grouped { columns, merge } => steps.extend(grouped(columns, merge)),
            Layout::Final(last) => {
                if let Some(statement) = self.statement {
                    let params = crate::plan::moment::parameters(&statement.text, &statement.tokens)
                        + 2 * usize::from(plan.moment.is_some());
                    let sql = last.render(&statement.text, &statement.tokens, params, &[]);
                    lines.push(format!("final: {}", sql.unwrap_or_else(|e| e.to_string())));
                }
                return lines;
            }
        }
        steps.extend(plan.offset.map(|c| format!("offset {}", count(c))));
        steps.extend(plan.limit.map(|c| format!("limit {}", count(c))));
        if plan.in_turn {
            steps.push("shards in turn".to_owned());
        }
        let steps = if steps.is_empty() { "concatenate".to_owned() } else { steps.join("; ") };
        lines.push(format!("merge: {steps}"));
        lines
    }
}

fn copied(plan: &CopyPlan) -> String {
    match plan {
        CopyPlan::Out { .. } => "else the rows of each shard in turn".to_owned(),
        CopyPlan::Everyone { table } => format!("lock {table}, the same data"),
        CopyPlan::Split(split) => {
            let key = |key: &CopyKey| match key.field {
                Some(field) => format!("{} in field {}", key.name, field + 1),
                None => format!("{} null", key.name),
            };
            format!("split by {}", split.keys.iter().map(key).collect::<Vec<_>>().join(", "))
        }
    }
}

fn grouped(columns: &[ShardColumn], merge: &MergeSpec) -> Vec<String> {
    let mut steps = Vec::new();
    let kinds: Vec<String> = columns
        .iter()
        .map(|c| match c {
            ShardColumn::Client(n) => format!("client {}", n + 1),
            ShardColumn::Hidden => "hidden".to_owned(),
        })
        .collect();
    steps.push(format!("columns ({})", kinds.join(", ")));
    match &merge.group {
        Some(keys) if keys.is_empty() => steps.push("one group".to_owned()),
        Some(keys) => {
            let keys: Vec<String> = keys.iter().map(|k| (k + 1).to_string()).collect();
            steps.push(format!("group by {}", keys.join(", ")));
        }
        None => {}
    }
    let outputs: Vec<String> = merge.output.iter().map(output).collect();
    steps.push(format!("output ({})", outputs.join(", ")));
    let keys: Vec<String> = merge
        .order
        .iter()
        .map(|key| {
            let by = match key.by {
                SortBy::Column(n) => format!("column {}", n + 1),
                SortBy::Output(n) => format!("output {}", n + 1),
            };
            sort_key(&by, key.descending, key.nulls_first)
        })
        .collect();
    if !keys.is_empty() {
        steps.push(format!("order by {}", keys.join(", ")));
    }
    steps
}

fn output(output: &Output) -> String {
    let aggregate = match output {
        Output::Column(n) => return (n + 1).to_string(),
        Output::Aggregate(aggregate) => aggregate,
    };
    match aggregate {
        Aggregate::Count { partial } => format!("count {}", partial + 1),
        Aggregate::Sum { partial } => format!("sum {}", partial + 1),
        Aggregate::Avg { sum, count } => format!("avg {} / {}", sum + 1, count + 1),
        Aggregate::Min { value, sort } => format!("min {} by {}", value + 1, sort + 1),
        Aggregate::Max { value, sort } => format!("max {} by {}", value + 1, sort + 1),
        Aggregate::BoolAnd { partial } => format!("bool_and {}", partial + 1),
        Aggregate::BoolOr { partial } => format!("bool_or {}", partial + 1),
        Aggregate::BitAnd { partial } => format!("bit_and {}", partial + 1),
        Aggregate::BitOr { partial } => format!("bit_or {}", partial + 1),
    }
}

fn sort_key(by: &str, descending: bool, nulls_first: bool) -> String {
    let direction = if descending { " desc" } else { "" };
    let nulls = if nulls_first == descending {
        ""
    } else if nulls_first {
        " nulls first"
    } else {
        " nulls last"
    };
    format!("{by}{direction}{nulls}")
}

fn count(count: Count) -> String {
    match count {
        Count::Rows(n) => n.to_string(),
        Count::Param(n) => format!("${n}"),
    }
}

fn datum(value: &Datum) -> String {
    match value {
        Datum::Null => "null".to_owned(),
        Datum::Int(n) => n.to_string(),
        Datum::Text(bytes) => format!("'{}'", String::from_utf8_lossy(bytes)),
        other => format!("{other:?}"),
    }
}
