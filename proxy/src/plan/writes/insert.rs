//! INSERT … VALUES in pieces: head, rows, tail, with drawn values in their places.

use super::Part;
use super::Row;
use super::Shape;
use super::Split;
use super::WritePlan;
use super::defaults::Fills;
use super::defaults::quoted;
use super::moment;
use super::moment::Moment;
use super::params;
use super::without_semicolons;
use crate::catalog::Relation;
use crate::error::Error;
use crate::plan::KeyCondition;
use crate::plan::source::SourceText;
use crate::sql::lexer::Token;
use sqlparser::ast::Insert;
use sqlparser::ast::InsertOverriding;

/// What the planner knows of an INSERT.
pub struct Input<'x> {
    pub insert: &'x Insert,
    pub relation: &'x Relation,
    /// Positions of the columns that are given, in the order of the INSERT.
    pub columns: &'x [usize],
    /// Expressions in each row; none for DEFAULT VALUES.
    pub widths: &'x [usize],
    pub fills: Fills,
    pub condition: KeyCondition,
}

/// Where the parts of an INSERT stand, as ordinals of tokens.
struct Layout {
    /// VALUES, or DEFAULT of DEFAULT VALUES.
    values: usize,
    rows: Vec<RowTokens>,
    /// The first token behind the rows.
    tail: usize,
}

struct RowTokens {
    open: usize,
    close: usize,
    elements: Vec<(usize, usize)>,
}

/// The INSERT in pieces; `several` is left open. `None` if its tokens are not what its tree says.
pub fn plan(input: &Input<'_>, source: &SourceText<'_>) -> Option<WritePlan> {
    let (text, tokens) = (source.text, without_semicolons(source.text, source.tokens));
    let layout = if input.insert.source.is_none() {
        default_values(text, tokens)?
    } else {
        let end = |end: usize| tokens.get(end).is_none_or(|t| t.is_word(text, "on") || t.is_word(text, "returning"));
        let words = depth_zero(text, tokens).filter(|n| tokens.get(*n).is_some_and(|t| t.is_word(text, "values")));
        words.filter_map(|n| rows_at(text, tokens, n)).find(|layout| {
            let widths = layout.rows.iter().map(|r| r.elements.len());
            end(layout.tail) && widths.eq(input.widths.iter().copied())
        })?
    };
    let writer = Writer {
        input,
        text,
        tokens,
        moments: moment::moments(text, tokens),
        values: input.fills.draws.iter().map(|d| d.count).sum(),
    };
    writer.plan(&layout)
}

/// Ordinals of the tokens that stand in no parentheses.
pub fn depth_zero<'t>(text: &'t str, tokens: &'t [Token]) -> impl Iterator<Item = usize> + 't {
    let mut depth = 0_usize;
    tokens.iter().enumerate().filter_map(move |(n, token)| {
        if token.is_symbol(text, "(") {
            depth += 1;
        } else if token.is_symbol(text, ")") {
            depth = depth.saturating_sub(1);
        }
        (depth == 0).then_some(n)
    })
}

fn default_values(text: &str, tokens: &[Token]) -> Option<Layout> {
    let is = |n: usize, word: &str| tokens.get(n).is_some_and(|t| t.is_word(text, word));
    let values = depth_zero(text, tokens).find(|&n| is(n, "default") && is(n + 1, "values"))?;
    Some(Layout { values, rows: Vec::new(), tail: values + 2 })
}

/// The rows behind the word VALUES.
fn rows_at(text: &str, tokens: &[Token], values: usize) -> Option<Layout> {
    let mut rows = Vec::new();
    let mut at = values + 1;
    loop {
        let row = row_at(text, tokens, at)?;
        at = row.close + 1;
        rows.push(row);
        if !tokens.get(at).is_some_and(|t| t.is_symbol(text, ",")) {
            return Some(Layout { values, rows, tail: at });
        }
        at += 1;
    }
}

fn row_at(text: &str, tokens: &[Token], open: usize) -> Option<RowTokens> {
    tokens.get(open).filter(|t| t.is_symbol(text, "("))?;
    let mut depth = 0_usize;
    let mut elements = Vec::new();
    let mut first = open + 1;
    for (n, token) in tokens.iter().enumerate().skip(open + 1) {
        let closes = token.is_symbol(text, ")") || token.is_symbol(text, "]");
        if depth == 0 && (closes || token.is_symbol(text, ",")) {
            if n <= first {
                return None;
            }
            elements.push((first, n - 1));
            first = n + 1;
        }
        if depth == 0 && closes {
            return Some(RowTokens { open, close: n, elements });
        }
        if closes {
            depth -= 1;
        } else if token.is_symbol(text, "(") || token.is_symbol(text, "[") {
            depth += 1;
        }
    }
    None
}

struct Writer<'w> {
    input: &'w Input<'w>,
    text: &'w str,
    tokens: &'w [Token],
    moments: Vec<Moment>,
    /// How many values the defaults need: the moments' numbers follow.
    values: usize,
}

impl Writer<'_> {
    fn plan(&self, layout: &Layout) -> Option<WritePlan> {
        let filled = self.input.fills.columns();
        let added: Vec<usize> = filled.into_iter().filter(|c| !self.input.columns.contains(c)).collect();
        let mut head = Vec::new();
        self.head(layout, &added, &mut head)?;
        let mut rows = Vec::new();
        for (n, row) in layout.rows.iter().enumerate() {
            rows.push(self.row(n, row, &added)?);
        }
        if rows.is_empty() {
            rows.push(self.default_row(&added));
        }
        let mut tail = Vec::new();
        let last = self.tokens.len().checked_sub(1)?;
        if layout.tail <= last {
            tail.push(Part::Text(" ".to_owned()));
            self.cut(layout.tail, last, &mut tail);
        }
        let mut common = params(self.text, self.tokens, 0, layout.values);
        common.extend(params(self.text, self.tokens, layout.tail, last));
        let mut draws = self.input.fills.draws.clone();
        draws.extend(moment::draws(&self.moments));
        let returning = self.input.insert.returning.is_some();
        let condition = self.input.condition.clone();
        let split = Split { head, rows, tail, params: common, condition, returning };
        Some(WritePlan { shape: Shape::Rows(Box::new(split)), draws, several: Ok(()) })
    }

    fn cut(&self, first: usize, last: usize, out: &mut Vec<Part>) {
        if first <= last {
            moment::cut(first, last, &self.moments, self.values, out);
        }
    }

    /// Up to VALUES, with the columns that are added to the list.
    fn head(&self, layout: &Layout, added: &[usize], out: &mut Vec<Part>) -> Option<()> {
        let is_default = layout.rows.is_empty();
        // OVERRIDING … VALUE stands between the columns and the rows
        let overriding = self.input.insert.overriding.is_some();
        let list_end = if overriding { layout.values.checked_sub(3)? } else { layout.values };
        let before = list_end.checked_sub(1)?;
        let names = |columns: &[usize]| -> Option<String> {
            let names: Option<Vec<String>> =
                columns.iter().map(|c| Some(quoted(&self.input.relation.columns.get(*c)?.name))).collect();
            Some(names?.join(", "))
        };
        if added.is_empty() {
            self.cut(0, before, out);
        } else if self.input.insert.columns.is_empty() {
            let width = layout.rows.first().map_or(0, |row| row.elements.len());
            let mut columns: Vec<usize> = self.input.columns.get(..width)?.to_vec();
            columns.extend_from_slice(added);
            self.cut(0, before, out);
            out.push(Part::Text(format!(" ({})", names(&columns)?)));
        } else {
            self.tokens.get(before).filter(|t| t.is_symbol(self.text, ")"))?;
            self.cut(0, before.checked_sub(1)?, out);
            out.push(Part::Text(format!(", {})", names(added)?)));
        }
        let system = if self.input.fills.identity && !overriding { " OVERRIDING SYSTEM VALUE" } else { "" };
        if overriding {
            out.push(Part::Text(" ".to_owned()));
            self.cut(list_end, layout.values - 1, out);
        }
        // DEFAULT VALUES without anything to draw keeps a row that means the same.
        out.push(Part::Text(if is_default && added.is_empty() {
            " DEFAULT VALUES".to_owned()
        } else {
            format!("{system} VALUES ")
        }));
        Some(())
    }

    fn row(&self, n: usize, row: &RowTokens, added: &[usize]) -> Option<Row> {
        let mut parts = Vec::new();
        let mut from = row.open;
        for (position, (first, last)) in row.elements.iter().enumerate() {
            let column = self.input.columns.get(position).copied();
            let Some(value) = column.and_then(|column| self.input.fills.value(n, column)) else { continue };
            self.cut(from, first.checked_sub(1)?, &mut parts);
            parts.push(Part::Text(" ".to_owned()));
            parts.push(Part::Drawn { value, type_name: None, otherwise: None });
            from = last + 1;
        }
        self.cut(from, row.close.checked_sub(1)?, &mut parts);
        for column in added {
            parts.push(Part::Text(", ".to_owned()));
            parts.push(self.added(n, *column));
        }
        parts.push(Part::Text(")".to_owned()));
        Some(Row { parts, params: params(self.text, self.tokens, row.open, row.close) })
    }

    fn default_row(&self, added: &[usize]) -> Row {
        let mut parts = Vec::new();
        for (n, column) in added.iter().enumerate() {
            parts.push(Part::Text(if n == 0 { "(" } else { ", " }.to_owned()));
            parts.push(self.added(0, *column));
        }
        if !added.is_empty() {
            parts.push(Part::Text(")".to_owned()));
        }
        Row { parts, params: Vec::new() }
    }

    fn added(&self, row: usize, column: usize) -> Part {
        match self.input.fills.value(row, column) {
            Some(value) => Part::Drawn { value, type_name: None, otherwise: None },
            None => Part::Text("DEFAULT".to_owned()),
        }
    }
}

/// Why identity values cannot be put in, if so.
pub fn overriding_refused(insert: &Insert, fills: &Fills) -> Option<Error> {
    let user = matches!(insert.overriding, Some(InsertOverriding::User));
    (user && fills.identity).then(|| Error::unsupported("OVERRIDING USER VALUE on a sharded table"))
}
