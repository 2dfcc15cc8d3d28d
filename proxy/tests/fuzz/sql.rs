//! Statements: tokens, the normalised form, commands, clauses, hints, trees, and whole plans.

use crate::engine::Target;
use crate::engine::hold;
use crate::engine::kind_of;
use crate::fixture;
use shardway::catalog::Catalog;
use shardway::catalog::ShardId;
use shardway::plan;
use shardway::plan::Context;
use shardway::route;
use shardway::route::Values;
use shardway::sql::Statement;
use shardway::sql::clauses;
use shardway::sql::command;
use shardway::sql::hint;
use shardway::sql::lexer;
use shardway::sql::names;
use shardway::sql::normalize;
use shardway::sql::normalize::LiteralKind;
use shardway::sql::normalize::Normalized;
use shardway::sql::splice::Splice;
use shardway::sql::template::Template;
use std::sync::Arc;
use std::time::Duration;

const WORDS: &[&[u8]] = &[
    b"SELECT ",
    b" FROM ",
    b" WHERE ",
    b" tenant_id = 1",
    b" = $1",
    b" GROUP BY ",
    b" ORDER BY 1",
    b" LIMIT 1",
    b" OFFSET ",
    b" UNION ALL ",
    b" JOIN ",
    b" USING (tenant_id)",
    b" ON ",
    b" IN (1, 2)",
    b" = ANY ($1)",
    b" IS NULL",
    b" AND ",
    b" OR ",
    b" NOT ",
    b" EXISTS ",
    b"(",
    b")",
    b"((((((((",
    b"))))))))",
    b"[",
    b"]",
    b",",
    b";",
    b"'",
    b"''",
    b"E'",
    b"U&'",
    b"$$",
    b"$a$",
    b"\"",
    b"--",
    b"\n",
    b"/*",
    b"*/",
    b"/* shardway.shard = s1 */",
    b"\\",
    b"::bigint",
    b"::",
    b" AS ",
    b".",
    b"*",
    b"count(*)",
    b"sum(",
    b"now()",
    b"nextval('s')",
    b" OVER ()",
    b" FILTER (WHERE ",
    b"CASE WHEN ",
    b" END",
    b"INSERT INTO ",
    b" VALUES ",
    b" RETURNING *",
    b" ON CONFLICT DO NOTHING",
    b"UPDATE ",
    b" SET ",
    b"DELETE FROM ",
    b"WITH x AS (",
    b"COPY ",
    b" FROM STDIN",
    b" TO STDOUT",
    b"CREATE TABLE ",
    b"ALTER TABLE ",
    b"DROP ",
    b"EXPLAIN ",
    b"DECLARE c CURSOR FOR ",
    b"PREPARE p AS ",
    b"EXECUTE p",
    b"DO $$BEGIN ",
    b" FOR UPDATE",
    b" DISTINCT ",
    b" LATERAL ",
    b" BETWEEN ",
    b"-",
    b"+",
    b"||",
    b"->>",
    b" COLLATE \"C\"",
    b" INTERVAL '1 day'",
    b"1e400",
    b"0x1F",
    b"99999999999999999999",
    b"NULL",
    b"DEFAULT",
    b"\xc3\xa9",
    b"\xe2\x82\xac",
    b"\xf0\x9f\x98\x80",
    b"orders",
    b"users",
    b"tenants",
    b"countries",
    b"order_items",
];

fn corpus() -> Vec<Vec<u8>> {
    let texts = fixture::files().into_iter().map(|file| std::fs::read_to_string(file).unwrap());
    let cases = texts.flat_map(|text| fixture::read_cases(&text));
    let mut corpus: Vec<Vec<u8>> =
        cases.filter(|case| !case.expected.is_empty()).map(|case| case.sql.into_bytes()).collect();
    // What is deep, as far as it is read.
    corpus.push(format!("SELECT o.note FROM orders o{}", " JOIN orders".repeat(100)).into_bytes());
    corpus.push(format!("SELECT {}1{}", "(SELECT ".repeat(60), ")".repeat(60)).into_bytes());
    corpus.push(format!("SELECT 1{}", " + 1".repeat(900)).into_bytes());
    corpus
}

fn text_of(input: &[u8]) -> String {
    String::from_utf8_lossy(input).replace('\0', " ")
}

fn is_within(text: &str, start: usize, end: usize) -> bool {
    start < end && text.get(start..end).is_some()
}

/// Literals that only their values tell from others, replaced by others.
fn other_literals(text: &str, scanned: &Normalized) -> String {
    let mut other = text.to_owned();
    for literal in scanned.literals.iter().rev() {
        match literal.kind {
            // Up to nine digits are an integer; what is longer, or of another base, may have another form.
            LiteralKind::Integer
                if literal.range().len() < 10 && text[literal.range()].bytes().all(|b| b.is_ascii_digit()) =>
            {
                other.replace_range(literal.range(), "7");
            }
            LiteralKind::PlainString => other.replace_range(literal.range(), "'another'"),
            _ => {}
        }
    }
    other
}

#[test]
fn tokens() {
    let run = |input: &[u8]| {
        let text = text_of(input);
        let mut outcome = String::new();
        for conforming in [true, false] {
            let tokens = lexer::tokenize(&text, conforming);
            let mut scanned = Normalized::default();
            let scan = normalize::scan(&text, conforming, &mut scanned);
            let statements = lexer::split(&text, conforming);
            hold(tokens.is_ok() == scan.is_ok(), || format!("{tokens:?} but {scan:?}"))?;
            hold(tokens.is_ok() == statements.is_ok(), || format!("{tokens:?} but {statements:?}"))?;
            let (Ok(tokens), Ok(statements)) = (tokens, statements) else {
                outcome.push_str(&kind_of(&scan.err().map(|e| e.to_string()).unwrap_or_default()));
                continue;
            };
            let mut at = 0;
            for token in &tokens {
                let range = token.range();
                hold(range.start >= at && is_within(&text, range.start, range.end), || format!("{token:?}"))?;
                at = range.end;
                let _ = (names::identifier(&text, token), names::unquote(token.text(&text)));
                if token.is_literal() {
                    let _ = normalize::string_value(&text, range, conforming);
                }
            }
            let ordinals = normalize::literal_ordinals(&tokens);
            let same = ordinals.count() == scanned.literals.len()
                && scanned.literals.iter().enumerate().all(|(n, l)| ordinals.at(l.start as usize) == Some(n));
            hold(same, || format!("{:?} of {tokens:?}", scanned.literals))?;
            let mut at = 0;
            for range in &statements {
                hold(range.start >= at && is_within(&text, range.start, range.end), || format!("{statements:?}"))?;
                at = range.end;
                let alone = lexer::tokenize(&text[range.clone()], conforming);
                hold(alone.is_ok(), || format!("{:?} alone is {alone:?}", &text[range.clone()]))?;
            }
            // Scanned into used buffers: nothing of the one before stays. Other values: the same form.
            let (key, count) = (scanned.key.clone(), scanned.literals.len());
            normalize::scan(&text, conforming, &mut scanned).map_err(|error| error.to_string())?;
            hold(scanned.key == key && scanned.literals.len() == count, || "a second scan differs".to_owned())?;
            let other = other_literals(&text, &scanned);
            let mut again = Normalized::default();
            let result = normalize::scan(&other, conforming, &mut again);
            hold(result.is_ok() && again.key == key, || {
                format!(
                    "{other:?} has another form: {:?} and {:?}",
                    again.key.escape_ascii().to_string(),
                    key.escape_ascii().to_string()
                )
            })?;
            outcome.push_str(&format!("{} {}", tokens.len().min(30), statements.len().min(3)));
        }
        Ok(outcome)
    };
    Target {
        name: "tokens",
        corpus: corpus(),
        dictionary: WORDS,
        memory: (1 << 20, 2_000),
        time: Duration::from_secs(2),
        run: &run,
    }
    .fuzz();
}

#[test]
fn clauses_and_commands() {
    let run = |input: &[u8]| {
        let text = text_of(input);
        let hint = hint::hint(&text);
        let Ok(tokens) = lexer::tokenize(&text, true) else { return Ok("no tokens".to_owned()) };
        let command = command::classify(&text, &tokens);
        let whole = 0..text.len();
        if let Some(found) = clauses::clause_ranges(&tokens, &text, whole.clone()) {
            let parts = [&found.from, &found.where_, &found.group_by, &found.having, &found.order_by, &found.limit];
            for clause in parts.into_iter().flatten().chain(&found.locking) {
                hold(text.get(clause.range.clone()).is_some(), || format!("{clause:?}"))?;
                hold(text.get(clause.body.clone()).is_some(), || format!("{clause:?}"))?;
            }
            hold(text.get(found.select_list.clone()).is_some(), || format!("{:?}", found.select_list))?;
            for item in clauses::split_items(&tokens, &text, found.select_list.clone()) {
                hold(text.get(item.clone()).is_some(), || format!("{item:?}"))?;
                let _ = clauses::split_alias(&tokens, &text, item.clone());
                let _ = clauses::order_item(&tokens, &text, item);
            }
        }
        let _ = clauses::has_set_operation(&tokens, &text, whole);
        let _ = clauses::after_with(&tokens, &text, 0);
        for index in 0..tokens.len().min(50) {
            let _ = clauses::closing(&tokens, &text, index);
        }
        // Changes at borders of tokens are found again in the same text.
        let mut splice = Splice::new(&text);
        for token in tokens.iter().step_by(3) {
            splice.insert(token.range().start, "x ");
        }
        if let (Some(template), Ok(changed)) = (Template::new(&splice, &tokens), splice.finish()) {
            let again = template.apply(&text, &tokens).and_then(|s| s.finish().ok());
            hold(again.as_ref() == Some(&changed), || format!("{changed:?}, but {again:?}"))?;
            for position in 1..40 {
                let _ = splice.map_back(position);
            }
        }
        let kind = format!("{command:?}");
        let kind = kind.split(['(', '{', ' ']).next().unwrap_or_default();
        Ok(format!("{kind} {}", hint.is_some()))
    };
    Target {
        name: "clauses",
        corpus: corpus(),
        dictionary: WORDS,
        memory: (4 << 20, 20_000),
        time: Duration::from_secs(2),
        run: &run,
    }
    .fuzz();
}

fn planned(text: &str, catalog: &Catalog, forced_shard: Option<ShardId>) -> String {
    let path = ["public".to_owned()];
    let Ok(statement) = Statement::new(Arc::from(text), true) else { return "no tokens".to_owned() };
    let context = Context {
        catalog,
        search_path: &path,
        temporary: &[],
        param_types: &[20, 25],
        standard_conforming_strings: true,
        forced_shard,
    };
    let plan = plan::plan(&statement, &context);
    if let plan::Plan::Rows(rows) = &plan {
        let mut scanned = Normalized::default();
        if normalize::scan(text, true, &mut scanned).is_ok() {
            let params = [];
            let values = Values {
                text,
                literals: &scanned.literals,
                params: &params,
                standard_conforming_strings: true,
                drawn: &[],
            };
            let _ = route::shards(&rows.target, &values, catalog, rows.effect == plan::Effect::Write);
        }
    }
    plan.display(catalog, Some(&statement)).to_string()
}

/// Without literals, names and numbers, so that plans of one kind look alike.
fn plan_kind(printed: &str) -> String {
    let first: String =
        printed.lines().map(|line| line.split_whitespace().next().unwrap_or_default()).take(8).collect();
    if printed.contains("error") || printed.contains("refuse") { kind_of(printed) } else { kind_of(&first) }
}

#[test]
fn sql_plan() {
    let several = fixture::catalog();
    let run = |input: &[u8]| {
        let text = text_of(input);
        let printed = planned(&text, &several, None);
        let again = planned(&text, &several, None);
        hold(printed == again, || format!("{printed}\nbut again\n{again}"))?;
        let _ = planned(&text, &several, Some(ShardId(1)));
        Ok(plan_kind(&printed))
    };
    Target {
        name: "plan",
        corpus: corpus(),
        dictionary: WORDS,
        memory: (64 << 20, 200_000),
        time: Duration::from_secs(5),
        run: &run,
    }
    .fuzz();
}
