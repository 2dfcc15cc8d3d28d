//! Where the clauses and list items of a SELECT stand: byte ranges, found by tokens outside parentheses.
//!
//! All clause words are reserved in PostgreSQL (src/include/parser/kwlist.h), so outside parentheses they are what
//! they seem to be unless they are labels (`AS order`, `t.limit`) or part of another construct (IS DISTINCT FROM,
//! WITHIN GROUP).

use crate::sql::lexer::Token;
use crate::sql::lexer::TokenKind;
use std::ops::Range;

/// One clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    /// Key words and all.
    pub range: Range<usize>,
    /// Without the key words (GROUP BY …, ORDER BY …, LIMIT …); for FETCH and FOR what follows that word.
    pub body: Range<usize>,
}

/// The clauses of one SELECT (no set operation), as byte ranges that start and end at tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectClauses {
    /// The byte range of `SELECT [ALL | DISTINCT [ON (…)]]`.
    pub head: Range<usize>,
    /// `DISTINCT` or `DISTINCT ON (…)`.
    pub distinct: Option<Range<usize>>,
    /// Empty (at the end of `head`) for a SELECT without columns.
    pub select_list: Range<usize>,
    pub into: Option<Clause>,
    pub from: Option<Clause>,
    pub where_: Option<Clause>,
    pub group_by: Option<Clause>,
    pub having: Option<Clause>,
    pub window: Option<Clause>,
    pub order_by: Option<Clause>,
    pub limit: Option<Clause>,
    /// With its ROW or ROWS.
    pub offset: Option<Clause>,
    /// `FETCH FIRST …`
    pub fetch: Option<Clause>,
    /// FOR UPDATE and the like, of which there may be several.
    pub locking: Vec<Clause>,
    /// Where the last token ends.
    pub end: usize,
}

/// Tokens within a byte range, with their depth in parentheses and brackets relative to it.
pub fn tokens_in<'t>(tokens: &'t [Token], range: &Range<usize>) -> &'t [Token] {
    let first = tokens.partition_point(|token| (token.start as usize) < range.start);
    let last = tokens.partition_point(|token| token.end as usize <= range.end);
    tokens.get(first..last).unwrap_or_default()
}

/// The index (in `tokens`) of the token that starts at a byte offset.
pub fn token_at(tokens: &[Token], start: usize) -> Option<usize> {
    tokens.binary_search_by_key(&start, |token| token.start as usize).ok()
}

/// The index (in `tokens`) of the first place in a byte range, outside parentheses, where these key words follow each
/// other, as a clause's words and not as labels or as part of IS DISTINCT FROM.
pub fn find_clause(tokens: &[Token], text: &str, range: Range<usize>, words: &[&str]) -> Option<usize> {
    let within = tokens_in(tokens, &range);
    let base = within.first().and_then(|first| token_at(tokens, first.start as usize))?;
    top_level(text, within).find(|index| has_words(text, within, *index, words)).map(|index| base + index)
}

/// The index of the bracket that closes the one at `open`; indices in `tokens`.
pub fn closing(tokens: &[Token], text: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match bracket(text, token) {
            Bracket::Open => depth += 1,
            Bracket::Close => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(index);
                }
            }
            Bracket::None if depth == 0 => return None,
            Bracket::None => {}
        }
    }
    None
}

/// The items of a comma-separated list, as byte ranges; commas in parentheses and brackets do not count. An empty
/// range has no items; an empty item is an empty range.
pub fn split_items(tokens: &[Token], text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let within = tokens_in(tokens, &range);
    let mut items = Vec::new();
    let Some(last) = within.last() else { return items };
    let mut first = 0;
    for index in top_level(text, within).filter(|index| is_comma(text, within, *index)) {
        items.push(cover(within.get(first..index)).unwrap_or(range.start..range.start));
        first = index + 1;
    }
    let end = last.range().end;
    items.push(cover(within.get(first..)).unwrap_or(end..end));
    items
}

fn is_comma(text: &str, tokens: &[Token], index: usize) -> bool {
    tokens.get(index).is_some_and(|token| token.is_symbol(text, ","))
}

/// From the first to the last of some tokens.
fn cover(tokens: Option<&[Token]>) -> Option<Range<usize>> {
    let tokens = tokens?;
    Some(tokens.first()?.range().start..tokens.last()?.range().end)
}

/// Cuts a select item that has an alias (which the tree tells) into expression and alias: `a + 1 AS x`, `a x`.
/// `None` if the last token cannot be one.
pub fn split_alias(tokens: &[Token], text: &str, item: Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
    let (alias, rest) = tokens_in(tokens, &item).split_last()?;
    let rest = match rest.split_last() {
        Some((word, before)) if word.is_word(text, "as") => before,
        _ => rest,
    };
    let name = matches!(alias.kind, TokenKind::Word | TokenKind::QuotedIdent);
    name.then_some((cover(Some(rest))?, alias.range()))
}

/// An item of ORDER BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderItem {
    pub expression: Range<usize>,
    pub descending: bool,
    pub nulls_first: Option<bool>,
    /// `USING operator`: no direction that we know.
    pub using: bool,
}

/// Reads an item of ORDER BY from its end: `expression [ASC | DESC | USING operator] [NULLS FIRST | NULLS LAST]`.
pub fn order_item(tokens: &[Token], text: &str, item: Range<usize>) -> Option<OrderItem> {
    let mut rest = tokens_in(tokens, &item);
    let mut nulls_first = None;
    if let [before @ .., nulls, order] = rest
        && nulls.is_word(text, "nulls")
        && (order.is_word(text, "first") || order.is_word(text, "last"))
        && !before.is_empty()
    {
        nulls_first = Some(order.is_word(text, "first"));
        rest = before;
    }
    let mut descending = false;
    if let [before @ .., direction] = rest
        && (direction.is_word(text, "asc") || direction.is_word(text, "desc"))
        && !before.is_empty()
    {
        descending = direction.is_word(text, "desc");
        rest = before;
    }
    let using = top_level(text, rest)
        .find(|index| *index > 0 && rest.get(*index).is_some_and(|token| token.is_word(text, "using")));
    let expression = cover(rest.get(..using.unwrap_or(rest.len())))?;
    Some(OrderItem { expression, descending, nulls_first, using: using.is_some() })
}

/// Whether UNION, INTERSECT or EXCEPT stands in a byte range, outside parentheses.
pub fn has_set_operation(tokens: &[Token], text: &str, range: Range<usize>) -> bool {
    ["union", "intersect", "except"].iter().any(|word| find_clause(tokens, text, range.clone(), &[word]).is_some())
}

/// Behind a WITH clause: the index (in `tokens`) of the main verb, or of the parenthesis that opens the main query.
/// `index` is that of WITH; when there is no WITH it is the answer itself.
pub fn after_with(tokens: &[Token], text: &str, index: usize) -> Option<usize> {
    let word = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is_word(text, word));
    let opens = |at: usize| tokens.get(at).is_some_and(|token| token.is_symbol(text, "("));
    if !word(index, "with") {
        return (index < tokens.len()).then_some(index);
    }
    let mut at = index + 1 + usize::from(word(index + 1, "recursive") && !is_cte_name(tokens, text, index + 1));
    loop {
        at += 1; // the name
        if opens(at) {
            at = closing(tokens, text, at)? + 1;
        }
        if !word(at, "as") {
            return None;
        }
        at += 1;
        at += usize::from(word(at, "not"));
        at += usize::from(word(at, "materialized"));
        if !opens(at) {
            return None;
        }
        at = closing(tokens, text, at)? + 1;
        at = after_search_and_cycle(tokens, text, at);
        if !tokens.get(at)?.is_symbol(text, ",") {
            return Some(at);
        }
        at += 1;
    }
}

/// RECURSIVE is no reserved word: `WITH recursive AS (…)` names a CTE.
fn is_cte_name(tokens: &[Token], text: &str, at: usize) -> bool {
    tokens.get(at + 1).is_some_and(|next| next.is_word(text, "as") || next.is_symbol(text, "("))
}

/// SEARCH … SET name and CYCLE … SET name [TO … DEFAULT …] USING name, up to the comma or the main verb.
fn after_search_and_cycle(tokens: &[Token], text: &str, mut at: usize) -> usize {
    let word = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is_word(text, word));
    if word(at, "search") {
        while at < tokens.len() && !word(at, "set") {
            at += 1;
        }
        at += 2;
    }
    if word(at, "cycle") {
        while at < tokens.len() && !word(at, "using") {
            at += 1;
        }
        at += 2;
    }
    at
}

/// The clauses of the SELECT that fills a byte range, which starts at the word SELECT. `None` if it does not, if it
/// holds a set operation outside parentheses, or if its clauses do not come in PostgreSQL's order.
pub fn clause_ranges(tokens: &[Token], text: &str, select: Range<usize>) -> Option<SelectClauses> {
    let within = tokens_in(tokens, &select);
    let within = match within.split_last() {
        Some((last, before)) if last.is_symbol(text, ";") => before,
        _ => within,
    };
    if !within.first()?.is_word(text, "select") || has_set_operation(tokens, text, select) {
        return None;
    }
    let mut clauses = SelectClauses { end: within.last()?.range().end, ..SelectClauses::default() };
    let list = read_head(text, within, &mut clauses)?;
    let starts: Vec<(usize, Start)> =
        top_level(text, within).filter_map(|index| Some((index, start_at(text, within, index)?))).collect();
    let first = starts.first().map_or(within.len(), |(index, _)| *index);
    let head_end = clauses.head.end;
    clauses.select_list = cover(within.get(list..first)).unwrap_or(head_end..head_end);
    let mut stage = 0;
    for (position, (index, start)) in starts.iter().enumerate() {
        let next = starts.get(position + 1).map_or(within.len(), |(next, _)| *next);
        let range = cover(within.get(*index..next))?;
        let body = cover(within.get(index + start.words()..next)).unwrap_or(range.end..range.end);
        if start.stage() < stage {
            return None;
        }
        stage = start.stage();
        start.put(&mut clauses, Clause { range, body })?;
    }
    Some(clauses)
}

/// Reads `SELECT [ALL | DISTINCT [ON (…)]]`; the index of the first token behind it.
fn read_head(text: &str, within: &[Token], clauses: &mut SelectClauses) -> Option<usize> {
    let word = |at: usize, word: &str| within.get(at).is_some_and(|token| token.is_word(text, word));
    let mut at = 1;
    if word(1, "all") {
        at = 2;
    } else if word(1, "distinct") {
        at = if word(2, "on") { closing(within, text, 3)? + 1 } else { 2 };
        clauses.distinct = cover(within.get(1..at));
    }
    clauses.head = cover(within.get(..at))?;
    Some(at)
}

/// The words that start a clause.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Into,
    From,
    Where,
    GroupBy,
    Having,
    Window,
    OrderBy,
    Limit,
    Offset,
    Fetch,
    For,
}

const STARTS: [(Start, &[&str]); 11] = [
    (Start::Into, &["into"]),
    (Start::From, &["from"]),
    (Start::Where, &["where"]),
    (Start::GroupBy, &["group", "by"]),
    (Start::Having, &["having"]),
    (Start::Window, &["window"]),
    (Start::OrderBy, &["order", "by"]),
    (Start::Limit, &["limit"]),
    (Start::Offset, &["offset"]),
    (Start::Fetch, &["fetch"]),
    (Start::For, &["for"]),
];

impl Start {
    fn words(self) -> usize {
        if matches!(self, Start::GroupBy | Start::OrderBy) { 2 } else { 1 }
    }

    /// Clauses of a later stage stand behind those of an earlier one; LIMIT, OFFSET, FETCH and FOR mix.
    fn stage(self) -> usize {
        match self {
            Start::Into => 1,
            Start::From => 2,
            Start::Where => 3,
            Start::GroupBy => 4,
            Start::Having => 5,
            Start::Window => 6,
            Start::OrderBy => 7,
            Start::Limit | Start::Offset | Start::Fetch | Start::For => 8,
        }
    }

    /// `None` if the clause is there already.
    fn put(self, clauses: &mut SelectClauses, clause: Clause) -> Option<()> {
        let place = match self {
            Start::Into => &mut clauses.into,
            Start::From => &mut clauses.from,
            Start::Where => &mut clauses.where_,
            Start::GroupBy => &mut clauses.group_by,
            Start::Having => &mut clauses.having,
            Start::Window => &mut clauses.window,
            Start::OrderBy => &mut clauses.order_by,
            Start::Limit => &mut clauses.limit,
            Start::Offset => &mut clauses.offset,
            Start::Fetch => &mut clauses.fetch,
            Start::For => {
                clauses.locking.push(clause);
                return Some(());
            }
        };
        place.replace(clause).is_none().then_some(())
    }
}

fn start_at(text: &str, within: &[Token], index: usize) -> Option<Start> {
    if within.get(index)?.kind != TokenKind::Word {
        return None;
    }
    STARTS.iter().find(|(_, words)| has_words(text, within, index, words)).map(|(start, _)| *start)
}

fn has_words(text: &str, within: &[Token], index: usize, words: &[&str]) -> bool {
    let all = words
        .iter()
        .enumerate()
        .all(|(offset, word)| within.get(index + offset).is_some_and(|token| token.is_word(text, word)));
    all && !is_label(text, within, index) && !is_distinct_from(text, within, index)
}

/// `AS order`, `t.limit`
fn is_label(text: &str, within: &[Token], index: usize) -> bool {
    let before = index.checked_sub(1).and_then(|before| within.get(before));
    before.is_some_and(|token| token.is_word(text, "as") || token.is_symbol(text, "."))
}

/// IS [NOT] DISTINCT FROM
fn is_distinct_from(text: &str, within: &[Token], index: usize) -> bool {
    let word = |back: usize, word: &str| {
        index.checked_sub(back).and_then(|at| within.get(at)).is_some_and(|token| token.is_word(text, word))
    };
    within.get(index).is_some_and(|token| token.is_word(text, "from"))
        && word(1, "distinct")
        && (word(2, "is") || (word(2, "not") && word(3, "is")))
}

enum Bracket {
    Open,
    Close,
    None,
}

fn bracket(text: &str, token: &Token) -> Bracket {
    if token.kind != TokenKind::Punctuation {
        return Bracket::None;
    }
    match token.text(text) {
        "(" | "[" => Bracket::Open,
        ")" | "]" => Bracket::Close,
        _ => Bracket::None,
    }
}

/// The indices of the tokens outside parentheses and brackets; the brackets themselves are left out.
fn top_level<'t>(text: &'t str, within: &'t [Token]) -> impl Iterator<Item = usize> + 't {
    let mut depth = 0_usize;
    within.iter().enumerate().filter_map(move |(index, token)| match bracket(text, token) {
        Bracket::Open => {
            depth += 1;
            None
        }
        Bracket::Close => {
            depth = depth.saturating_sub(1);
            None
        }
        Bracket::None => (depth == 0).then_some(index),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::Clause;
    use super::SelectClauses;
    use super::after_with;
    use super::clause_ranges;
    use super::closing;
    use super::find_clause;
    use super::order_item;
    use super::split_alias;
    use super::split_items;
    use crate::sql::lexer::tokenize;
    use proptest::prelude::any;
    use proptest::proptest;

    fn clauses(text: &str) -> Option<SelectClauses> {
        clause_ranges(&tokenize(text, true).unwrap(), text, 0..text.len())
    }

    fn body<'a>(text: &'a str, clause: Option<&Clause>) -> &'a str {
        clause.map_or("-", |clause| &text[clause.body.clone()])
    }

    #[test]
    fn finds_every_clause() {
        let text = "SELECT DISTINCT ON (a, b) a, b x FROM t WHERE c GROUP BY a, b HAVING d WINDOW w AS (ORDER BY a) \
                    ORDER BY a DESC LIMIT 5 OFFSET 3 ROWS FOR UPDATE OF t NOWAIT FOR SHARE;";
        let found = clauses(text).unwrap();
        assert_eq!(&text[found.head.clone()], "SELECT DISTINCT ON (a, b)");
        assert_eq!(&text[found.distinct.clone().unwrap()], "DISTINCT ON (a, b)");
        assert_eq!(&text[found.select_list.clone()], "a, b x");
        assert_eq!(body(text, found.from.as_ref()), "t");
        assert_eq!(body(text, found.where_.as_ref()), "c");
        assert_eq!(body(text, found.group_by.as_ref()), "a, b");
        assert_eq!(body(text, found.having.as_ref()), "d");
        assert_eq!(body(text, found.window.as_ref()), "w AS (ORDER BY a)");
        assert_eq!(body(text, found.order_by.as_ref()), "a DESC");
        assert_eq!(body(text, found.limit.as_ref()), "5");
        assert_eq!(body(text, found.offset.as_ref()), "3 ROWS");
        assert_eq!(
            found.locking.iter().map(|c| &text[c.range.clone()]).collect::<Vec<_>>(),
            ["FOR UPDATE OF t NOWAIT", "FOR SHARE"]
        );
        assert_eq!(found.end, text.len() - 1);
        assert_eq!(&text[found.order_by.unwrap().range], "ORDER BY a DESC");
    }

    #[test]
    fn look_alikes_are_no_clauses() {
        let text = "SELECT EXTRACT(year FROM d), SUBSTRING(a FROM 1 FOR 2), TRIM(BOTH FROM x), a IS DISTINCT FROM b, \
                    a IS NOT DISTINCT FROM c, 'FROM t', \"from\", CASE WHEN a IS DISTINCT FROM 1 THEN t.limit END AS order, \
                    percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FILTER (WHERE y), sum(z) OVER (ORDER BY z), \
                    (SELECT 1 FROM u LIMIT 1), ARRAY(SELECT 2 FROM v ORDER BY 1) AS \"limit\" -- FROM w\n FROM t";
        let found = clauses(text).unwrap();
        assert_eq!(body(text, found.from.as_ref()), "t");
        assert_eq!(split_items(&tokenize(text, true).unwrap(), text, found.select_list).len(), 12);
        assert_eq!(found.where_, None);
        assert_eq!(found.order_by, None);
        assert_eq!(found.limit, None);
        let nothing = "SELECT DISTINCT FROM t";
        assert_eq!(body(nothing, clauses(nothing).unwrap().from.as_ref()), "t");
        assert!(clauses(nothing).unwrap().select_list.is_empty());
    }

    #[test]
    fn limits_come_in_any_order() {
        for (text, limit, offset, fetch, locking) in [
            ("SELECT a OFFSET 2 LIMIT 1", "1", "2", "-", 0),
            ("SELECT a FROM t FOR UPDATE LIMIT ALL", "ALL", "-", "-", 1),
            ("SELECT a OFFSET $1 ROWS FETCH FIRST 3 ROWS ONLY", "-", "$1 ROWS", "FIRST 3 ROWS ONLY", 0),
            ("SELECT a FROM t FOR NO KEY UPDATE SKIP LOCKED", "-", "-", "-", 1),
        ] {
            let found = clauses(text).unwrap();
            assert_eq!(body(text, found.limit.as_ref()), limit, "{text}");
            assert_eq!(body(text, found.offset.as_ref()), offset, "{text}");
            assert_eq!(body(text, found.fetch.as_ref()), fetch, "{text}");
            assert_eq!(found.locking.len(), locking, "{text}");
        }
    }

    #[test]
    fn what_is_no_single_select_is_declined() {
        for text in [
            "VALUES (1)",
            "SELECT 1 UNION SELECT 2",
            "WITH a AS (SELECT 1) SELECT 1",
            "SELECT a WHERE b FROM t",
            "SELECT a LIMIT 1 LIMIT 2",
            "",
        ] {
            assert_eq!(clauses(text), None, "{text}");
        }
        assert!(clauses("SELECT 1 AS union, t.except FROM (SELECT 1 UNION SELECT 2) t").is_some());
    }

    #[test]
    fn items_split_at_their_own_commas() {
        let text = "a, f(b, c) , ARRAY[1, 2], 'x,y'";
        let tokens = tokenize(text, true).unwrap();
        let items: Vec<&str> =
            split_items(&tokens, text, 0..text.len()).into_iter().map(|range| &text[range]).collect();
        assert_eq!(items, ["a", "f(b, c)", "ARRAY[1, 2]", "'x,y'"]);
        assert!(split_items(&tokens, text, 3..3).is_empty());
    }

    #[test]
    fn aliases_are_cut_off() {
        for (text, expected) in [
            ("a + 1 AS x", Some(("a + 1", "x"))),
            ("count(*) \"N\"", Some(("count(*)", "\"N\""))),
            ("a", None),
            ("f(x)", None),
        ] {
            let tokens = tokenize(text, true).unwrap();
            let found = split_alias(&tokens, text, 0..text.len()).map(|(left, right)| (&text[left], &text[right]));
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn order_items_are_read_from_the_end() {
        for (text, expression, descending, nulls_first, using) in [
            ("a", "a", false, None, false),
            ("desc", "desc", false, None, false),
            ("a + b DESC NULLS LAST", "a + b", true, Some(false), false),
            ("f(a) asc nulls first", "f(a)", false, Some(true), false),
            ("a USING > NULLS FIRST", "a", false, Some(true), true),
        ] {
            let tokens = tokenize(text, true).unwrap();
            let item = order_item(&tokens, text, 0..text.len()).unwrap();
            assert_eq!(&text[item.expression], expression);
            assert_eq!((item.descending, item.nulls_first, item.using), (descending, nulls_first, using), "{text}");
        }
    }

    #[test]
    fn the_main_verb_follows_the_ctes() {
        for (text, verb) in [
            ("SELECT 1", "SELECT"),
            ("WITH a AS (SELECT 1) INSERT INTO t SELECT 1", "INSERT"),
            (
                "WITH RECURSIVE a (x, y) AS NOT MATERIALIZED (SELECT 1), \"b\" AS (SELECT (2)) UPDATE t SET x = 1",
                "UPDATE",
            ),
            ("WITH recursive AS MATERIALIZED (SELECT 1) DELETE FROM t", "DELETE"),
            (
                "WITH RECURSIVE a AS (SELECT 1) SEARCH DEPTH FIRST BY x, y SET o CYCLE x, y SET c USING p, b AS (SELECT 1) TABLE b",
                "TABLE",
            ),
            ("WITH a AS (SELECT 1) (SELECT 2)", "("),
        ] {
            let tokens = tokenize(text, true).unwrap();
            let at = after_with(&tokens, text, 0).unwrap();
            assert_eq!(tokens[at].text(text), verb, "{text}");
        }
        for text in ["WITH a", "WITH a AS (SELECT 1", "WITH a AS (SELECT 1)", "", "WITH"] {
            assert_eq!(after_with(&tokenize(text, true).unwrap(), text, 0), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(
            words in proptest::collection::vec("select|from|where|group by|order by|limit|with|as|\\(|\\)|,|a|1|'x'|distinct|on|is|;|union|\\[|\\]|nulls|first", 0..24),
            start in any::<u8>(), end in any::<u8>(),
        ) {
            let text = words.join(" ");
            let tokens = tokenize(&text, true).unwrap();
            let range = usize::from(start)..usize::from(end);
            let _ = clause_ranges(&tokens, &text, 0..text.len());
            let _ = clause_ranges(&tokens, &text, range.clone());
            let _ = find_clause(&tokens, &text, range.clone(), &["from"]);
            let _ = split_items(&tokens, &text, range.clone());
            let _ = split_alias(&tokens, &text, range.clone());
            let _ = order_item(&tokens, &text, range);
            let _ = closing(&tokens, &text, usize::from(start));
            let _ = after_with(&tokens, &text, usize::from(start) % 8);
        }
    }
}
