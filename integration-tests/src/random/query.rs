//! Random queries: FROM, joins, grouping, windows, set operations, common table expressions.

use super::generator::Generator;
use super::generator::Item;
use super::generator::Scope;
use super::generator::type_name;
use super::tables::Column;
use super::tables::TABLES;
use super::tables::Type;

/// A query with its output columns.
pub struct Query {
    pub sql: String,
    pub columns: Vec<Column>,
    /// Output columns by which the rows are sorted.
    pub sorted: Vec<usize>,
    pub limited: bool,
}

/// FROM as it grows.
struct From {
    sql: String,
    items: Vec<Item>,
}

/// What the select list is made of.
struct List {
    /// As they are written, with their aliases.
    items: Vec<String>,
    /// Without them.
    texts: Vec<String>,
    columns: Vec<Column>,
    grouped: bool,
}

impl Generator {
    /// A whole query; `outer` is what its subqueries may be correlated with.
    pub fn query(&mut self, outer: &Scope, depth: usize, order: bool) -> Query {
        let ctes = self.ctes.len();
        let with = if depth > 1 && self.rng.chance(15) { self.with(outer, depth - 1) } else { String::new() };
        let mut query = match self.rng.below(20) {
            0 if depth > 0 => self.set_operation(outer, depth - 1),
            2 => self.values(),
            _ => self.select(outer, depth, None),
        };
        if order || self.rng.chance(15) {
            let tail = self.order_tail(&query);
            query.sorted = tail.1;
            query.sql.push_str(&tail.0);
        }
        if self.rng.chance(if order { 30 } else { 8 }) {
            let text = self.limit();
            query.limited = true;
            query.sql.push_str(&text);
        }
        self.ctes.truncate(ctes);
        query.sql.insert_str(0, &with);
        query
    }

    fn with(&mut self, outer: &Scope, depth: usize) -> String {
        let mut parts = Vec::new();
        for _ in 0..1 + self.rng.below(2) {
            let query = self.query(outer, depth, false);
            let alias = self.alias();
            let kind = self.rng.text(&["", "", "MATERIALIZED ", "NOT MATERIALIZED "]);
            parts.push(format!("{alias} AS {kind}({})", query.sql));
            self.ctes.push(Item { alias, columns: query.columns });
        }
        if self.rng.chance(12) {
            let alias = self.alias();
            parts.push(format!("{alias} AS (SELECT 1 AS c1 UNION ALL SELECT c1 + 1 FROM {alias} WHERE c1 < 4)"));
            let column = Column { name: "c1".into(), kind: Type::Int, key: None };
            self.ctes.push(Item { alias, columns: vec![column] });
            return format!("WITH RECURSIVE {} ", parts.join(", "));
        }
        format!("WITH {} ", parts.join(", "))
    }

    fn values(&mut self) -> Query {
        let kinds = [Type::Int, Type::Text];
        let rows: Vec<String> = (0..1 + self.rng.below(3))
            .map(|_| format!("({})", kinds.map(|k| self.literal(k, None)).join(", ")))
            .collect();
        let column = |(n, kind): (usize, &Type)| Column { name: format!("column{}", n + 1), kind: *kind, key: None };
        let columns = kinds.iter().enumerate().map(column).collect();
        Query { sql: format!("VALUES {}", rows.join(", ")), columns, sorted: Vec::new(), limited: false }
    }

    fn set_operation(&mut self, outer: &Scope, depth: usize) -> Query {
        let kinds: Vec<Type> =
            (0..1 + self.rng.below(2)).map(|_| *self.rng.pick(&[Type::Big, Type::Int, Type::Text])).collect();
        let mut query = self.select(outer, depth, Some(&kinds));
        for _ in 0..1 + self.rng.below(2) {
            let word = self.rng.text(&["UNION", "UNION ALL", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL"]);
            let other = self.select(outer, depth, Some(&kinds));
            query.sql = match self.rng.below(4) {
                0 => format!("({}) {word} ({})", query.sql, other.sql),
                _ => format!("{} {word} {}", query.sql, other.sql),
            };
        }
        query.columns.iter_mut().for_each(|c| c.key = None);
        query
    }

    fn limit(&mut self) -> String {
        let n = self.rng.below(6);
        match self.rng.below(9) {
            0 => format!(" LIMIT {n} OFFSET {}", self.rng.below(4)),
            1 => format!(" OFFSET {}", self.rng.below(4)),
            2 => format!(" FETCH FIRST {n} ROWS ONLY"),
            3 => " FETCH NEXT ROW ONLY".into(),
            4 => " LIMIT ALL".into(),
            5 => " LIMIT NULL".into(),
            6 if self.parameter_chance > 0 => {
                format!(" LIMIT {} OFFSET {}", self.literal(Type::Big, None), self.literal(Type::Big, None))
            }
            7 => format!(" OFFSET {} ROWS FETCH FIRST ({n}) ROWS ONLY", self.rng.below(3)),
            _ => format!(" LIMIT {n}"),
        }
    }

    /// ORDER BY, mostly total, and the output columns that it begins with.
    fn order_tail(&mut self, query: &Query) -> (String, Vec<usize>) {
        let mut keys = Vec::new();
        let mut sorted = Vec::new();
        let mut known = true;
        let mut places: Vec<usize> =
            (0..query.columns.len()).filter(|n| query.columns[*n].kind != Type::Json).collect();
        let total = self.rng.chance(65);
        let count = if total { places.len() } else { 1 + self.rng.below(2) };
        for _ in 0..count.min(places.len()) {
            let n = places.swap_remove(self.rng.below(places.len()));
            let column = &query.columns[n];
            let by = match self.rng.below(4) {
                0 if query.columns.iter().filter(|c| c.name == column.name).count() == 1 => written(&column.name),
                0 => {
                    known = false;
                    column.name.clone()
                }
                _ => (n + 1).to_string(),
            };
            let direction =
                self.rng.text(&["", "", " ASC", " DESC", " DESC NULLS LAST", " NULLS FIRST", " ASC NULLS LAST"]);
            keys.push(format!("{by}{direction}"));
            if known {
                sorted.push(n);
            }
        }
        if keys.is_empty() {
            return (String::new(), Vec::new());
        }
        (format!(" ORDER BY {}", keys.join(", ")), sorted)
    }

    /// A SELECT; `kinds` are the types of its output where they matter.
    fn select(&mut self, outer: &Scope, depth: usize, kinds: Option<&[Type]>) -> Query {
        let from = self.from(outer, depth);
        let scope = outer.enter(from.items.clone());
        let mut parts = Vec::new();
        if self.rng.chance(55) {
            parts.push(format!("({})", self.condition(&scope, depth.min(2))));
        }
        if self.fixes_keys {
            parts.extend(self.fixed_keys(&from.items));
        }
        let filter = if parts.is_empty() { String::new() } else { format!(" WHERE {}", parts.join(" AND ")) };
        let grouping = self.rng.chance(30);
        let (list, tail) = if grouping { self.grouped(&scope, depth, kinds) } else { self.plain(&scope, depth, kinds) };
        let distinct = match self.rng.below(14) {
            0 | 1 => "DISTINCT ".to_owned(),
            2 if !list.grouped => "ALL ".to_owned(),
            3 if kinds.is_none() && self.rng.chance(40) => {
                format!("DISTINCT ON ({}) ", list.texts.first().cloned().unwrap_or_default())
            }
            _ => String::new(),
        };
        let from_sql = if from.sql.is_empty() { String::new() } else { format!(" FROM {}", from.sql) };
        let sql = format!("SELECT {distinct}{}{from_sql}{filter}{tail}", list.items.join(", "));
        Query { sql, columns: list.columns, sorted: Vec::new(), limited: false }
    }

    fn fixed_keys(&mut self, items: &[Item]) -> Vec<String> {
        let mut out = Vec::new();
        for item in items {
            for column in &item.columns {
                if let Some(family) = column.key.filter(|_| self.rng.chance(85)) {
                    out.push(format!("{}.{} = {}", item.alias, column.name, self.constant(family, column.kind)));
                }
            }
        }
        out
    }

    fn plain(&mut self, scope: &Scope, depth: usize, kinds: Option<&[Type]>) -> (List, String) {
        let mut list = List { items: Vec::new(), texts: Vec::new(), columns: Vec::new(), grouped: false };
        if kinds.is_none() && self.rng.chance(12) && !scope.own().is_empty() {
            self.star(scope, &mut list);
        }
        let kinds: Vec<Type> = match kinds {
            Some(kinds) => kinds.to_vec(),
            None => (0..1 + self.rng.below(3)).map(|_| self.kind()).collect(),
        };
        for kind in kinds {
            let position = list.columns.len() + 1;
            let key = self.column_where(scope, |c| c.key.is_some() && c.kind == kind);
            match key.filter(|_| self.rng.chance(40)) {
                Some((text, column)) => self.item(&mut list, text, column, position),
                None if self.rng.chance(12) && depth > 0 => {
                    let text = self.window(scope, kind);
                    self.item(&mut list, text, Column { name: String::new(), kind, key: None }, position);
                }
                None => {
                    let text = self.expression(scope, kind, depth.min(2));
                    self.item(&mut list, text, Column { name: String::new(), kind, key: None }, position);
                }
            }
        }
        (list, String::new())
    }

    fn kind(&mut self) -> Type {
        *self.rng.pick(&[
            Type::Big,
            Type::Big,
            Type::Int,
            Type::Int,
            Type::Text,
            Type::Text,
            Type::Num,
            Type::Float,
            Type::Date,
            Type::Bool,
            Type::Char,
            Type::Interval,
            Type::Stamp,
            Type::Bytes,
            Type::Uuid,
            Type::StampTz,
        ])
    }

    /// Names that clash with columns now and then; else unique ones.
    fn item(&mut self, list: &mut List, text: String, mut column: Column, position: usize) {
        let taken = |list: &List, name: &str| list.columns.iter().any(|c| c.name == name);
        let plain_name = !column.name.is_empty() && !taken(list, &column.name) && self.rng.chance(70);
        if !plain_name {
            let clash = self.rng.text(&["n", "k", "id", "v", "t", "d", "name", "\"N\""]).to_owned();
            column.name = if self.rng.chance(12) && !taken(list, &clash) { clash } else { format!("c{position}") };
        }
        list.items.push(match plain_name {
            true => text.clone(),
            false => format!("{text} AS {}", column.name),
        });
        column.name = column.name.trim_matches('"').to_owned();
        list.texts.push(text);
        list.columns.push(column);
    }

    fn star(&mut self, scope: &Scope, list: &mut List) {
        let own = scope.own();
        let item = own[self.rng.below(own.len())].clone();
        if own.len() == 1 && self.rng.chance(50) {
            list.items.push("*".into());
        } else {
            list.items.push(format!("{}.*", item.alias));
        }
        list.columns.extend(item.columns);
    }

    fn grouped(&mut self, scope: &Scope, depth: usize, kinds: Option<&[Type]>) -> (List, String) {
        let mut list = List { items: Vec::new(), texts: Vec::new(), columns: Vec::new(), grouped: true };
        let mut keys = Vec::new();
        let wanted: Vec<Type> = kinds.map_or_else(Vec::new, <[Type]>::to_vec);
        let groups = if kinds.is_some() { self.rng.below(wanted.len() + 1) } else { self.rng.below(3) };
        for n in 0..groups {
            let kind = wanted.get(n).copied().unwrap_or_else(|| self.kind());
            let (text, column) = match self.rng.below(3) {
                0 => (self.expression(scope, kind, 1), Column { name: String::new(), kind, key: None }),
                _ => match self.column_of(scope, kind) {
                    Some((text, column)) => (text, Column { kind, ..column }),
                    None => (self.typed(kind, None), Column { name: String::new(), kind, key: None }),
                },
            };
            let position = list.columns.len() + 1;
            self.item(&mut list, text.clone(), column, position);
            let name = list.columns.last().map_or(String::new(), |c| c.name.clone());
            keys.push(match self.rng.below(6) {
                0 => position.to_string(),
                1 => name,
                _ => text,
            });
        }
        let rest: Vec<Option<Type>> = match kinds {
            Some(kinds) => kinds.iter().skip(groups).map(|k| Some(*k)).collect(),
            None => (0..1 + self.rng.below(2)).map(|_| None).collect(),
        };
        for kind in rest {
            let (text, kind) = self.aggregate(scope, depth, kind);
            let text = self.over_aggregate(text, kind, scope, depth);
            let position = list.columns.len() + 1;
            self.item(&mut list, text, Column { name: String::new(), kind, key: None }, position);
        }
        let mut tail = String::new();
        if !keys.is_empty() {
            tail = match self.rng.below(14) {
                0 => format!(" GROUP BY ROLLUP ({})", keys.join(", ")),
                1 => format!(" GROUP BY GROUPING SETS (({}), ())", keys.join(", ")),
                _ => format!(" GROUP BY {}", keys.join(", ")),
            };
        }
        if self.rng.chance(20) {
            let (text, kind) = self.aggregate(scope, depth, None);
            tail.push_str(&format!(" HAVING {text} IS NOT NULL AND {text} > {}", self.typed(kind, None)));
        }
        (list, tail)
    }

    /// Now and then an expression of the same type around an aggregate.
    fn over_aggregate(&mut self, text: String, kind: Type, scope: &Scope, depth: usize) -> String {
        if self.rng.chance(65) {
            return text;
        }
        let other = self.typed(kind, None);
        match (self.rng.below(4), kind) {
            (0, Type::Big | Type::Int | Type::Num | Type::Float) => format!("{text} + {other}"),
            (0, Type::Text) => format!("upper({text}) || '!'"),
            (1, _) => {
                let (condition, kind) = self.aggregate(scope, depth, None);
                format!("CASE WHEN {condition} > {} THEN {text} ELSE {other} END", self.typed(kind, None))
            }
            (2, Type::Big | Type::Num) => format!("({text}) * 2 - count(*)"),
            _ => format!("coalesce({text}, {other})"),
        }
    }

    fn aggregate(&mut self, scope: &Scope, depth: usize, kind: Option<Type>) -> (String, Type) {
        let filter = match self.rng.below(6) {
            0 => format!(" FILTER (WHERE {})", self.condition(scope, depth.min(1))),
            _ => String::new(),
        };
        let distinct = if self.rng.chance(15) { "DISTINCT " } else { "" };
        let kind = kind.unwrap_or_else(|| {
            *self.rng.pick(&[
                Type::Big,
                Type::Big,
                Type::Num,
                Type::Int,
                Type::Text,
                Type::Date,
                Type::Bool,
                Type::Float,
                Type::Interval,
                Type::Stamp,
            ])
        });
        let (call, kind) = match kind {
            Type::Big => match self.rng.below(4) {
                0 => ("count(*)".to_owned(), Type::Big),
                1 => (format!("sum({distinct}{})", self.expression(scope, Type::Int, 1)), Type::Big),
                2 => {
                    let inner = self.kind();
                    (format!("count({distinct}{})", self.expression(scope, inner, 1)), Type::Big)
                }
                _ => (format!("max({}::bigint)", self.expression(scope, Type::Int, 0)), Type::Big),
            },
            Type::Num => match self.rng.below(5) {
                0 => (format!("avg({distinct}{})", self.expression(scope, Type::Int, 1)), Type::Num),
                1 => (format!("avg({distinct}{})", self.expression(scope, Type::Num, 1)), Type::Num),
                2 => (
                    format!(
                        "sum({})",
                        self.column_of(scope, Type::Big).map_or("1::bigint".into(), |c| format!("{}::bigint", c.0))
                    ),
                    Type::Num,
                ),
                3 => (format!("stddev({})", self.expression(scope, Type::Int, 0)), Type::Num),
                _ => (format!("sum({distinct}{})", self.expression(scope, Type::Num, 1)), Type::Num),
            },
            Type::Bool => (
                format!(
                    "{}({})",
                    self.rng.text(&["bool_and", "bool_or", "every"]),
                    self.expression(scope, Type::Bool, 1)
                ),
                Type::Bool,
            ),
            Type::Float => (
                format!("{}({})", self.rng.text(&["sum", "avg", "min", "max"]), self.expression(scope, Type::Float, 0)),
                Type::Float,
            ),
            Type::Int => match self.rng.below(4) {
                0 => (format!("bit_or({})", self.expression(scope, Type::Int, 0)), Type::Int),
                1 => (format!("count(*)::int + {}", self.typed(Type::Int, None)), Type::Int),
                2 => (
                    format!(
                        "array_length(array_agg({0} ORDER BY {0}), 1)",
                        self.column_of(scope, Type::Int).map_or("1".into(), |c| c.0)
                    ),
                    Type::Int,
                ),
                _ => {
                    (format!("{}({})", self.rng.text(&["min", "max"]), self.expression(scope, Type::Int, 1)), Type::Int)
                }
            },
            Type::Text => match self.rng.below(3) {
                0 => {
                    let of = self.column_of(scope, Type::Text).map_or("'x'".into(), |c| c.0);
                    (format!("string_agg({of}, ',' ORDER BY {of} COLLATE \"C\")"), Type::Text)
                }
                _ => (
                    format!("{}({})", self.rng.text(&["min", "max"]), self.expression(scope, Type::Text, 1)),
                    Type::Text,
                ),
            },
            Type::Interval => (format!("sum({})", self.expression(scope, Type::Interval, 0)), Type::Interval),
            kind => (format!("{}({})", self.rng.text(&["min", "max"]), self.expression(scope, kind, 0)), kind),
        };
        match call.contains('+') || call.contains("array_length") {
            true => (call, kind),
            false => (format!("{call}{filter}"), kind),
        }
    }

    fn window(&mut self, scope: &Scope, kind: Type) -> String {
        let mut parts = Vec::new();
        let key = self.column_where(scope, |c| c.key.is_some());
        if let Some((text, _)) = key.filter(|_| self.rng.chance(75)) {
            parts.push(format!("PARTITION BY {text}"));
        } else if self.rng.chance(50)
            && let Some((text, _)) = self.column_where(scope, |c| c.kind != Type::Json)
        {
            parts.push(format!("PARTITION BY {text}"));
        }
        let orders: Vec<String> =
            (0..2).filter_map(|_| self.column_where(scope, |c| c.kind != Type::Json)).map(|c| c.0).collect();
        if !orders.is_empty() {
            parts.push(format!("ORDER BY {}", orders.join(", ")));
        }
        let over = parts.join(" ");
        match kind {
            Type::Big => match self.rng.below(3) {
                0 => format!("rank() OVER ({over})"),
                1 => format!("dense_rank() OVER ({over})"),
                _ => format!("count(*) OVER ({over})"),
            },
            kind => format!(
                "min({}) OVER ({over})",
                self.column_of(scope, kind).map_or_else(|| format!("NULL::{}", type_name(kind)), |c| c.0)
            ),
        }
    }

    fn from(&mut self, outer: &Scope, depth: usize) -> From {
        if self.rng.chance(4) {
            return From { sql: String::new(), items: Vec::new() };
        }
        let mut from = From { sql: String::new(), items: Vec::new() };
        let (sql, item) = self.factor(outer, depth, &[]);
        from.sql = sql;
        from.items.push(item);
        let joins = [0, 0, 0, 1, 1, 1, 2, 2, 3][self.rng.below(9)];
        for _ in 0..joins.min(depth + 1) {
            self.join(outer, depth, &mut from);
        }
        from
    }

    fn join(&mut self, outer: &Scope, depth: usize, from: &mut From) {
        let (sql, item) = self.factor(outer, depth, &from.items);
        let lateral = sql.starts_with("LATERAL");
        let kind = match self.rng.below(16) {
            0 => ",",
            1 => "CROSS JOIN",
            2..=7 => "JOIN",
            8..=11 => "LEFT JOIN",
            12 | 13 if !lateral => "RIGHT JOIN",
            14 if !lateral => "FULL JOIN",
            _ => "JOIN",
        };
        if kind == "," || kind == "CROSS JOIN" {
            from.sql = format!("{}{} {sql}", from.sql, if kind == "," { ",".into() } else { format!(" {kind}") });
            from.items.push(item);
            return;
        }
        let shared: Vec<String> = item
            .columns
            .iter()
            .filter(|c| {
                from.items.iter().flat_map(|i| &i.columns).filter(|o| o.name == c.name && o.kind == c.kind).count() == 1
            })
            .filter(|c| from.items.iter().flat_map(|i| &i.columns).filter(|o| o.name == c.name).count() == 1)
            .map(|c| c.name.clone())
            .collect();
        let on = if !shared.is_empty() && self.rng.chance(20) {
            let keys: Vec<String> = item
                .columns
                .iter()
                .filter(|c| c.key.is_some() && shared.contains(&c.name))
                .map(|c| c.name.clone())
                .collect();
            let names =
                if keys.is_empty() || self.rng.chance(20) { vec![self.rng.pick(&shared).clone()] } else { keys };
            format!("USING ({})", names.join(", "))
        } else {
            format!("ON {}", self.on(outer, &from.items, &item, kind))
        };
        let natural = self.rng.chance(2) && !lateral;
        from.sql = match natural {
            true => format!("{} NATURAL {kind} {sql}", from.sql),
            false => format!("{} {kind} {sql} {on}", from.sql),
        };
        from.items.push(item);
    }

    fn on(&mut self, outer: &Scope, items: &[Item], item: &Item, kind: &str) -> String {
        let mut equal = Vec::new();
        let left = items[self.rng.below(items.len())].clone();
        for column in item.columns.iter().filter(|c| c.key.is_some()) {
            if let Some(other) = left.columns.iter().find(|o| o.key == column.key) {
                equal.push(format!("{}.{} = {}.{}", left.alias, other.name, item.alias, column.name));
            }
        }
        if equal.is_empty() || self.rng.chance(8) {
            let column = self.rng.pick(&item.columns).clone();
            let same: Vec<&Column> =
                left.columns.iter().filter(|o| o.kind == column.kind && o.kind != Type::Json).collect();
            equal = match same.get(self.rng.below(same.len())) {
                Some(other) => vec![format!("{}.{} = {}.{}", left.alias, other.name, item.alias, column.name)],
                None => vec![self.rng.text(&["true", "1 = 1"]).into()],
            };
        }
        if self.rng.chance(30) && kind != "FULL JOIN" {
            let mut all = items.to_vec();
            all.push(item.clone());
            equal.push(format!("({})", self.condition(&outer.enter(all), 1)));
        }
        equal.join(" AND ")
    }

    /// An item of FROM; `before` is what LATERAL may name.
    fn factor(&mut self, outer: &Scope, depth: usize, before: &[Item]) -> (String, Item) {
        let alias = self.alias();
        match self.rng.below(24) {
            0..=2 if depth > 0 => {
                let query = self.query(&Scope::default(), depth - 1, false);
                self.derived("", query, alias)
            }
            3 if depth > 0 && !before.is_empty() => {
                let query = self.query(&outer.enter(before.to_vec()), depth - 1, false);
                self.derived("LATERAL ", query, alias)
            }
            4..=6 if !self.ctes.is_empty() => {
                let cte = self.ctes[self.rng.below(self.ctes.len())].clone();
                (format!("{} {alias}", cte.alias), Item { alias, columns: cte.columns })
            }
            7 => {
                let sql = match self.rng.below(4) {
                    0 => format!("generate_series(1, 4) AS {alias}(c1)"),
                    1 => format!("unnest(ARRAY[1, 2, 2]) AS {alias}(c1)"),
                    2 => format!("(VALUES (1), (3), (NULL)) AS {alias}(c1)"),
                    _ => format!("generate_series(1, 3) WITH ORDINALITY AS {alias}(c1, c2)"),
                };
                (sql, Item { alias, columns: vec![Column { name: "c1".into(), kind: Type::Int, key: None }] })
            }
            _ => self.related_table(alias, before),
        }
    }

    /// A table that can be joined on a shard key with one that is there already, mostly.
    fn related_table(&mut self, alias: String, before: &[Item]) -> (String, Item) {
        let mut found = self.table(alias.clone());
        for _ in 0..8 {
            let is_related = before.is_empty()
                || found
                    .1
                    .columns
                    .iter()
                    .any(|c| c.key.is_some() && before.iter().flat_map(|i| &i.columns).any(|o| o.key == c.key));
            if is_related || self.rng.chance(12) {
                break;
            }
            found = self.table(alias.clone());
        }
        found
    }

    fn derived(&mut self, word: &str, query: Query, alias: String) -> (String, Item) {
        let mut columns = query.columns;
        let mut sql = format!("{word}({}) AS {alias}", query.sql);
        if self.rng.chance(12) && !query.sql.contains('*') {
            let names: Vec<String> = (1..=columns.len()).map(|n| format!("r{n}")).collect();
            sql = format!("{sql}({})", names.join(", "));
            columns.iter_mut().zip(names).for_each(|(c, name)| c.name = name);
        }
        (sql, Item { alias, columns })
    }

    fn table(&mut self, alias: String) -> (String, Item) {
        let total: usize = TABLES.iter().map(|t| t.weight).sum();
        let mut at = self.rng.below(total);
        let table = TABLES
            .iter()
            .find(|t| {
                let hit = at < t.weight;
                at = at.saturating_sub(t.weight);
                hit
            })
            .unwrap_or(&TABLES[0]);
        let mut columns: Vec<Column> = table
            .columns
            .iter()
            .map(|(name, kind, key)| Column { name: (*name).into(), kind: *kind, key: *key })
            .collect();
        let name = match self.rng.below(12) {
            0 => format!("public.{}", table.name),
            1 => format!("\"{}\"", table.name),
            2 => table.name.to_uppercase(),
            _ => table.name.to_owned(),
        };
        let mut sql = format!("{name} {}{alias}", self.rng.text(&["", "AS "]));
        if self.rng.chance(6) {
            // names given to the first columns, in another order than the table's own
            let pool = ["n", "k", "id"];
            let count = columns.len().min(3);
            let start = self.rng.below(3);
            let names: Vec<&str> = (0..count).map(|n| pool[(n + start) % 3]).collect();
            if columns.iter().skip(count).all(|c| !names.contains(&c.name.as_str())) {
                sql = format!("{sql}({})", names.join(", "));
                columns.iter_mut().zip(names).for_each(|(c, name)| c.name = name.into());
            }
        }
        (sql, Item { alias, columns })
    }

    pub fn scalar_subquery(&mut self, scope: &Scope, kind: Type) -> String {
        let (from, inner, link) = self.subquery_from(scope);
        let of = self.column_of(&inner, kind).map_or_else(|| self.typed(kind, None), |c| c.0);
        match self.rng.below(4) {
            0 => format!("(SELECT {of} FROM {from} WHERE {link} ORDER BY 1 LIMIT 1)"),
            1 if matches!(kind, Type::Big) => format!("(SELECT count(*) FROM {from} WHERE {link})"),
            _ if matches!(kind, Type::Bool | Type::Uuid | Type::Bytes | Type::Json | Type::Ints) => {
                format!("(SELECT {of} FROM {from} WHERE {link} ORDER BY {of} LIMIT 1)")
            }
            _ => format!("(SELECT {}({of}) FROM {from} WHERE {link})", self.rng.text(&["min", "max"])),
        }
    }

    /// FROM of a subquery, its scope, and what links it to the query around it.
    fn subquery_from(&mut self, scope: &Scope) -> (String, Scope, String) {
        let alias = self.alias();
        let (mut from, item) = self.table(alias);
        let mut items = vec![item.clone()];
        if self.rng.chance(15) {
            let alias = self.alias();
            let (sql, other) = self.table(alias);
            let on = self.on(&Scope::default(), &items, &other, "JOIN");
            from = format!("{from} JOIN {sql} ON {on}");
            items.push(other);
        }
        let inner = scope.enter(items);
        let mut links = Vec::new();
        for column in item.columns.iter().filter(|c| c.key.is_some()) {
            let outer: Vec<(&Item, &Column)> = scope
                .levels
                .iter()
                .flatten()
                .flat_map(|i| i.columns.iter().map(move |c| (i, c)))
                .filter(|(_, c)| c.key == column.key)
                .collect();
            if let Some((other_item, other)) = outer.get(self.rng.below(outer.len())) {
                links.push(format!("{}.{} = {}.{}", item.alias, column.name, other_item.alias, other.name));
            }
        }
        if links.is_empty() || self.rng.chance(8) {
            links = vec![self.condition(&inner, 0)];
        } else if self.rng.chance(35) {
            links.push(self.condition(&inner, 1));
        }
        (from, inner, links.join(" AND "))
    }

    pub fn subquery_condition(&mut self, scope: &Scope, depth: usize) -> String {
        let (from, inner, link) = self.subquery_from(scope);
        let key = self.column_where(scope, |c| c.key.is_some()).filter(|_| self.rng.chance(70));
        let outer = match key {
            Some(found) => Some(found),
            None => self.column_where(scope, |c| matches!(c.kind, Type::Int | Type::Big | Type::Text)),
        };
        let not = if self.rng.chance(35) { "NOT " } else { "" };
        let Some((left, column)) = outer.filter(|_| self.rng.chance(65)) else {
            return format!("{not}EXISTS (SELECT {} FROM {from} WHERE {link})", self.rng.text(&["1", "*", "count(*)"]));
        };
        let (right, key) = match inner
            .own()
            .iter()
            .flat_map(|i| i.columns.iter().map(move |c| (i, c)))
            .find(|(_, c)| c.key.is_some() && c.key == column.key)
        {
            Some((item, c)) => (format!("{}.{}", item.alias, c.name), true),
            None => (self.column_of(&inner, column.kind).map_or_else(|| self.typed(column.kind, None), |c| c.0), false),
        };
        let link = if key && self.rng.chance(50) { self.condition(&inner, depth - 1) } else { link };
        match self.rng.below(8) {
            0 => format!("{left} = ANY (SELECT {right} FROM {from} WHERE {link})"),
            1 => format!("{left} {} ALL (SELECT {right} FROM {from} WHERE {link})", self.rng.text(&["<>", ">", "="])),
            2 => format!("{left} = (SELECT {}({right}) FROM {from} WHERE {link})", self.rng.text(&["min", "max"])),
            3 if column.kind != Type::Uuid && column.kind != Type::Bool => {
                format!("{left} {not}IN (SELECT max({right}) FROM {from} WHERE {link} GROUP BY {right})")
            }
            4 => format!("({left}, 1) {not}IN (SELECT {right}, 1 FROM {from} WHERE {link})"),
            _ => format!("{left} {not}IN (SELECT {right} FROM {from} WHERE {link})"),
        }
    }
}

/// A name as it must be written: in quotes where folding would change it.
pub fn written(name: &str) -> String {
    match name.chars().any(|c| c.is_ascii_uppercase()) {
        true => format!("\"{name}\""),
        false => name.to_owned(),
    }
}
