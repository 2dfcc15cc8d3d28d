//! Random scalar expressions and conditions.

use super::generator::Generator;
use super::generator::Item;
use super::generator::Scope;
use super::generator::type_name;
use super::query::written;
use super::tables::Column;
use super::tables::Type;

const COMPARE: [&str; 6] = ["=", "<", ">", "<=", ">=", "<>"];

impl Generator {
    /// A reference to a column, mostly qualified.
    pub fn reference(&mut self, item: &Item, column: &Column) -> String {
        match self.rng.below(10) {
            0 => written(&column.name),
            1 => format!("{}.\"{}\"", item.alias, column.name),
            _ => format!("{}.{}", item.alias, written(&column.name)),
        }
    }

    /// Any column of the innermost query, or sometimes of one around it.
    pub fn any_column(&mut self, scope: &Scope) -> Option<(String, Column)> {
        self.column_where(scope, |_| true)
    }

    pub fn column_where(&mut self, scope: &Scope, is: impl Fn(&Column) -> bool) -> Option<(String, Column)> {
        let level =
            if scope.levels.len() > 1 && self.rng.chance(20) { 1 + self.rng.below(scope.levels.len() - 1) } else { 0 };
        let items = scope.levels.get(level)?;
        let mut found = Vec::new();
        for item in items {
            found.extend(item.columns.iter().filter(|c| is(c)).map(|c| (item, c)));
        }
        let (item, column) = *found.get(self.rng.below(found.len()))?;
        let (item, column) = (item.clone(), column.clone());
        Some((self.reference(&item, &column), column))
    }

    pub fn column_of(&mut self, scope: &Scope, kind: Type) -> Option<(String, Column)> {
        self.column_where(scope, |c| c.kind == kind || (kind == Type::Big && c.kind == Type::Int))
    }

    /// An expression of a type.
    pub fn expression(&mut self, scope: &Scope, kind: Type, depth: usize) -> String {
        if depth == 0 || self.rng.chance(50) {
            if let Some((text, _)) = self.column_of(scope, kind).filter(|_| self.rng.chance(80)) {
                return text;
            }
            return self.typed(kind, None);
        }
        let d = depth - 1;
        match self.rng.below(9) {
            0 => {
                let (c, a, b) =
                    (self.condition(scope, d), self.expression(scope, kind, d), self.expression(scope, kind, d));
                format!("CASE WHEN {c} THEN {a} ELSE {b} END")
            }
            1 => format!("coalesce({}, {})", self.expression(scope, kind, d), self.expression(scope, kind, d)),
            2 => format!("nullif({}, {})", self.expression(scope, kind, d), self.typed(kind, None)),
            3 if !matches!(kind, Type::Json | Type::Ints) => {
                format!("greatest({}, {})", self.expression(scope, kind, d), self.expression(scope, kind, d))
            }
            4 if depth > 1 => self.scalar_subquery(scope, kind),
            _ => self.computed(scope, kind, d),
        }
    }

    fn computed(&mut self, scope: &Scope, kind: Type, d: usize) -> String {
        match kind {
            Type::Int | Type::Big => match self.rng.below(6) {
                0 => format!("{} + {}", self.expression(scope, kind, d), self.expression(scope, kind, d)),
                1 => format!("-{}", self.column_of(scope, kind).map_or("1".into(), |c| c.0)),
                2 => format!("{} % 3", self.expression(scope, kind, d)),
                3 => format!("length({})", self.expression(scope, Type::Text, d)),
                4 => format!("({})::{}", self.expression(scope, Type::Int, d), type_name(kind)),
                _ => format!("abs({})", self.expression(scope, kind, d)),
            },
            Type::Num => match self.rng.below(3) {
                0 => format!("{} + {}", self.expression(scope, kind, d), self.expression(scope, Type::Int, d)),
                1 => format!("round({}, 1)", self.expression(scope, kind, d)),
                _ => format!("{}::numeric", self.column_of(scope, Type::Big).map_or("1".into(), |c| c.0)),
            },
            Type::Text => match self.rng.below(5) {
                0 => format!("{} || {}", self.expression(scope, kind, d), self.typed(kind, None)),
                1 => format!("lower({})", self.expression(scope, kind, d)),
                2 => format!("upper({}) COLLATE \"C\"", self.expression(scope, kind, d)),
                3 => format!("({})::text", self.expression(scope, Type::Int, d)),
                _ => format!("{} COLLATE \"C\"", self.column_of(scope, kind).map_or("'x'".into(), |c| c.0)),
            },
            Type::Bool => format!("({})", self.condition(scope, d)),
            Type::Date => format!("({} + 1)", self.column_of(scope, kind).map_or("DATE '2024-01-02'".into(), |c| c.0)),
            _ => self.column_of(scope, kind).map_or_else(|| self.typed(kind, None), |c| c.0),
        }
    }

    /// A condition.
    pub fn condition(&mut self, scope: &Scope, depth: usize) -> String {
        if depth > 0 && self.rng.chance(45) {
            let d = depth - 1;
            return match self.rng.below(12) {
                0..=3 => format!("{} AND {}", self.operand_condition(scope, d), self.operand_condition(scope, d)),
                4..=6 => format!("({} OR {})", self.condition(scope, d), self.condition(scope, d)),
                7 => format!("NOT ({})", self.condition(scope, d)),
                8 => format!("NOT {}", self.operand_condition(scope, 0)),
                9 => format!(
                    "({}) IS {}",
                    self.condition(scope, d),
                    self.rng.text(&["TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN", "NOT UNKNOWN", "NULL"])
                ),
                10 => format!(
                    "CASE WHEN {} THEN {} ELSE {} END",
                    self.condition(scope, d),
                    self.condition(scope, d),
                    self.condition(scope, d)
                ),
                _ => format!(
                    "({}) {} {}",
                    self.condition(scope, d),
                    self.rng.text(&["=", "<>", "IS DISTINCT FROM"]),
                    self.rng.text(&["true", "false"])
                ),
            };
        }
        match self.rng.below(10) {
            0..=4 => self.key_condition(scope).unwrap_or_else(|| self.plain_condition(scope)),
            5 | 6 if depth > 0 => self.subquery_condition(scope, depth),
            _ => self.plain_condition(scope),
        }
    }

    fn operand_condition(&mut self, scope: &Scope, depth: usize) -> String {
        format!("({})", self.condition(scope, depth))
    }

    /// A condition on a column that is a shard key.
    fn key_condition(&mut self, scope: &Scope) -> Option<String> {
        let (k, column) = self.column_where(scope, |c| c.key.is_some())?;
        let (kind, key) = (column.kind, column.key);
        let one = self.literal(kind, key);
        let two = self.literal(kind, key);
        Some(match self.rng.below(34) {
            0..=7 => format!("{k} = {one}"),
            8 => format!("{one} = {k}"),
            9 | 10 => format!("{k} IN ({one}, {two})"),
            11 => format!("{k} = ANY (ARRAY[{one}, {two}]::{}[])", type_name(kind)),
            12 => {
                let list = [self.typed_text(kind, key), self.typed_text(kind, key)].join(",");
                let cast = if self.rng.chance(50) { format!("::{}[]", type_name(kind)) } else { String::new() };
                format!("{k} = ANY ('{{{list}}}'{cast})")
            }
            13 => format!("{k} BETWEEN {one} AND {two}"),
            14 => format!("{k} IS NULL"),
            15 => format!("{k} IS NOT NULL"),
            16 => format!("{k} IS NOT DISTINCT FROM {one}"),
            17 => format!("{k} IS DISTINCT FROM {one}"),
            18 => format!("{k} <> {one}"),
            19 => format!("{k} {} {one}", self.rng.text(&COMPARE)),
            20 => self.row_condition(scope, &k, &one, &two),
            21 => format!("{k}::text = '{}'", self.typed_text(kind, key)),
            22 => format!("coalesce({k}, {one}) = {two}"),
            23 => format!("{k} NOT IN ({one}, {two})"),
            24 => format!("NOT {k} = {one}"),
            25 => format!("({k} = {one}) = ({k} = {two})"),
            26 => format!("{k} = {one} AND {k} = {two}"),
            27 => format!("{k} = ALL (ARRAY[{one}, {two}]::{}[])", type_name(kind)),
            28 => match self.column_of(scope, kind) {
                Some((other, _)) => format!("{k} = {other}"),
                None => format!("{k} = {k}"),
            },
            29 => format!("({k} = {one} OR {k} = {two})"),
            30 => format!("{k} = coalesce({one}, {two})"),
            31 => self.odd_key_condition(&k, kind, &one),
            32 => format!("{k} IN (VALUES ({one}), ({two}))"),
            _ => format!("nullif({k}, {one}) IS NULL"),
        })
    }

    fn odd_key_condition(&mut self, k: &str, kind: Type, one: &str) -> String {
        match kind {
            Type::Int | Type::Big => match self.rng.below(9) {
                0 => format!("{k} = 3.0"),
                1 => format!("{k} = 2.5"),
                2 => format!("{k} = '3'"),
                3 => format!("{k} = 3::float8"),
                4 => format!("{k} = 3::smallint"),
                5 => format!("{k} + 0 = {one}"),
                6 => format!("{k} = -(-2)"),
                7 => format!("{k} = 9223372036854775808"),
                _ => format!("{k} = +3"),
            },
            Type::Text => match self.rng.below(7) {
                0 => format!("{k} = 'a' COLLATE \"C\""),
                1 => format!("{k} = 'a'::char(3)"),
                2 => format!("{k} = 'a  '::bpchar"),
                3 => format!("lower({k}) = {one}"),
                4 => format!("{k} LIKE 'a'"),
                5 => format!("{k} = 'a'::varchar(1)"),
                _ => format!("{k} = 'ab'::varchar(1)"),
            },
            Type::Date => match self.rng.below(3) {
                0 => format!("{k} = '2024-01-03'::timestamp"),
                1 => format!("{k} < '2024-01-03 12:00'::timestamp"),
                _ => format!("{k} = DATE '2024-01-02' + 1"),
            },
            _ => format!("{k} = {one}"),
        }
    }

    fn row_condition(&mut self, scope: &Scope, k: &str, one: &str, two: &str) -> String {
        let (other, column) = match self.any_column(scope) {
            Some((other, column)) if !matches!(column.kind, Type::Json | Type::Ints) => (other, column),
            _ => return format!("{k} = {one}"),
        };
        let (x, y) = (self.typed(column.kind, column.key), self.typed(column.kind, column.key));
        match self.rng.below(6) {
            0 => format!("({k}, {other}) = ({one}, {x})"),
            1 => format!("({k}, {other}) IN (({one}, {x}), ({two}, {y}))"),
            2 => format!("({other}, {k}) < ({x}, {one})"),
            3 => format!("ROW({k}, {other}) = ROW({one}, {x})"),
            4 => format!("({k}, {other}) <> ({one}, {x})"),
            _ => format!("({other}, {k}) >= ({x}, {one})"),
        }
    }

    fn plain_condition(&mut self, scope: &Scope) -> String {
        let Some((c, column)) = self.any_column(scope) else {
            return self.rng.text(&["true", "1 = 1", "false", "NULL"]).into();
        };
        match column.kind {
            Type::Bool => match self.rng.below(3) {
                0 => c,
                1 => format!("NOT {c}"),
                _ => format!("{c} IS NOT TRUE"),
            },
            Type::Text | Type::Char if self.rng.chance(25) => {
                format!("{c} {} 'a%'", self.rng.text(&["LIKE", "ILIKE", "NOT LIKE"]))
            }
            Type::Date | Type::Stamp | Type::StampTz if self.rng.chance(20) => {
                let now = self.rng.text(&[
                    "now()",
                    "current_date",
                    "current_timestamp(3)",
                    "localtimestamp",
                    "pg_catalog.transaction_timestamp()",
                    "statement_timestamp()",
                ]);
                format!("{c} {} {now}", self.rng.text(&["<", ">=", "<>"]))
            }
            Type::Json => format!("{c} @> '{{\"a\": 1}}'"),
            Type::Ints => format!("2 = ANY ({c})"),
            kind => match self.rng.below(6) {
                0 => format!("{c} IS NULL"),
                1 => format!("{c} IS NOT NULL"),
                2 => format!("{c} IN ({}, {})", self.literal(kind, None), self.literal(kind, None)),
                3 => match self.column_of(scope, kind) {
                    Some((other, _)) => format!("{c} {} {other}", self.rng.text(&COMPARE)),
                    None => format!("{c} IS NOT NULL"),
                },
                _ => format!("{c} {} {}", self.rng.text(&COMPARE), self.literal(kind, None)),
            },
        }
    }

    fn typed_text(&mut self, kind: Type, key: Option<super::tables::Family>) -> String {
        let typed = self.typed(kind, key);
        match typed.split('\'').nth(1) {
            Some(inside) => inside.to_owned(),
            None => typed,
        }
    }
}
