//! Random writes with RETURNING, and whole statements.

use super::generator::Generator;
use super::generator::Item;
use super::generator::Scope;
use super::generator::Statement;
use super::tables::Column;
use super::tables::TABLES;
use super::tables::Table;
use super::tables::Type;

impl Generator {
    pub fn statement(&mut self) -> Statement {
        let mut statement = if self.rng.chance(14) { self.write() } else { self.read() };
        if self.rng.chance(12) {
            statement.sql = self.disguise(&statement.sql);
        }
        statement
    }

    fn read(&mut self) -> Statement {
        let depth = [0, 1, 1, 2, 2, 3][self.rng.below(6)];
        let order = self.rng.chance(55);
        let query = self.query(&Scope::default(), depth, order);
        let mut sql = query.sql;
        if self.rng.chance(2) {
            sql.push_str(self.rng.text(&[" FOR UPDATE", " FOR SHARE", " FOR NO KEY UPDATE"]));
        }
        let starred = sql.contains('*');
        let sorted = if starred { Vec::new() } else { query.sorted };
        let limited = query.limited && sorted.len() < query.columns.len();
        Statement { sql, parameters: std::mem::take(&mut self.parameters), sorted, limited, writes: false, check: None }
    }

    fn write(&mut self) -> Statement {
        let targets: Vec<&Table> = TABLES.iter().filter(|t| !t.name.starts_with('v') && t.name != "empty").collect();
        let table = *self.rng.pick(&targets);
        let columns: Vec<Column> = table
            .columns
            .iter()
            .map(|(name, kind, key)| Column { name: (*name).into(), kind: *kind, key: *key })
            .collect();
        let sql = match self.rng.below(4) {
            0 | 1 => self.insert(table, &columns),
            2 => self.update(table, &columns),
            _ => self.delete(table, &columns),
        };
        let (counted, first) = ("count(*), sum(id), sum(n), max(id)", columns[0].name.clone());
        let counted = if table.name == "rb" { "count(*), sum(v)" } else { counted };
        let check = format!("SELECT {first}, {counted} FROM {} GROUP BY {first}", table.name);
        let parameters = std::mem::take(&mut self.parameters);
        Statement { sql, parameters, sorted: Vec::new(), limited: false, writes: true, check: Some(check) }
    }

    fn insert(&mut self, table: &Table, columns: &[Column]) -> String {
        let chosen: Vec<Column> =
            columns.iter().filter(|c| c.key.is_some() || c.name == "id" || self.rng.chance(60)).cloned().collect();
        let names: Vec<&str> = chosen.iter().map(|c| c.name.as_str()).collect();
        let shared: Vec<String> = chosen.iter().map(|c| self.literal(c.kind, c.key)).collect();
        let source = if self.rng.chance(12) {
            let scope = Scope::default().enter(vec![Item { alias: "z".into(), columns: columns.to_vec() }]);
            let keys: Vec<String> = chosen
                .iter()
                .zip(&shared)
                .filter(|(c, _)| c.key.is_some())
                .map(|(c, v)| format!("z.{} = {v}", c.name))
                .collect();
            let filter = if keys.is_empty() { self.condition(&scope, 1) } else { keys.join(" AND ") };
            let list: Vec<String> =
                names.iter().map(|n| if *n == "id" { "z.id + 100".into() } else { format!("z.{n}") }).collect();
            format!("SELECT {} FROM {} z WHERE {filter}", list.join(", "), table.name)
        } else {
            let rows: Vec<String> = (0..1 + self.rng.below(3))
                .map(|_| {
                    let values: Vec<String> = chosen
                        .iter()
                        .zip(&shared)
                        .map(|(c, v)| match c.key {
                            Some(_) if self.rng.chance(85) => v.clone(),
                            None if c.name == "id" => (self.rng.below(60) + 1).to_string(),
                            None if self.rng.chance(8) => "DEFAULT".into(),
                            _ => self.literal(c.kind, c.key),
                        })
                        .collect();
                    format!("({})", values.join(", "))
                })
                .collect();
            format!("VALUES {}", rows.join(", "))
        };
        let conflict = match table.name {
            "b" if self.rng.chance(40) => self.rng.text(&[
                " ON CONFLICT DO NOTHING",
                " ON CONFLICT (k, id) DO NOTHING",
                " ON CONFLICT (k, id) DO UPDATE SET n = excluded.n + b.n",
            ]),
            "co" if self.rng.chance(30) => " ON CONFLICT (region, k, id) DO UPDATE SET n = 77",
            _ => "",
        };
        let returning = self.returning(columns);
        format!("INSERT INTO {} ({}) {source}{conflict}{returning}", table.name, names.join(", "))
    }

    fn returning(&mut self, columns: &[Column]) -> String {
        match self.rng.below(4) {
            0 => String::new(),
            1 => " RETURNING *".into(),
            _ => format!(" RETURNING {}, {} AS r", self.rng.pick(columns).name, self.rng.pick(columns).name),
        }
    }

    /// A condition that mostly fixes the key.
    fn where_key(&mut self, alias: &str, columns: &[Column], scope: &Scope) -> String {
        let mut parts: Vec<String> = columns
            .iter()
            .filter(|c| c.key.is_some())
            .map(|c| format!("{alias}.{} = {}", c.name, self.literal(c.kind, c.key)))
            .collect();
        if parts.is_empty() || self.rng.chance(12) {
            return self.condition(scope, 2);
        }
        if self.rng.chance(50) {
            parts.push(format!("({})", self.condition(scope, 1)));
        }
        parts.join(" AND ")
    }

    fn update(&mut self, table: &Table, columns: &[Column]) -> String {
        let scope = Scope::default().enter(vec![Item { alias: "z".into(), columns: columns.to_vec() }]);
        let settable: Vec<&Column> = columns.iter().filter(|c| c.key.is_none() || self.rng.chance(3)).collect();
        let column = (*self.rng.pick(&settable)).clone();
        let value = match self.rng.below(4) {
            0 => self.literal(column.kind, column.key),
            1 => "DEFAULT".into(),
            2 => self.expression(&scope, column.kind, 2),
            _ => self.column_of(&scope, column.kind).map_or("NULL".into(), |c| c.0),
        };
        let (from, link) = self.other_table(columns, "FROM");
        let filter = self.where_key("z", columns, &scope);
        let returning = if from.is_empty() { self.returning(columns) } else { " RETURNING z.id".into() };
        format!("UPDATE {} z SET {} = {value}{from} WHERE {link}{filter}{returning}", table.name, column.name)
    }

    fn delete(&mut self, table: &Table, columns: &[Column]) -> String {
        let scope = Scope::default().enter(vec![Item { alias: "z".into(), columns: columns.to_vec() }]);
        let (using, link) = self.other_table(columns, "USING");
        let filter = self.where_key("z", columns, &scope);
        let returning = if using.is_empty() { self.returning(columns) } else { " RETURNING z.id".into() };
        format!("DELETE FROM {} z{using} WHERE {link}{filter}{returning}", table.name)
    }

    fn other_table(&mut self, columns: &[Column], word: &str) -> (String, String) {
        if self.rng.chance(75) {
            return (String::new(), String::new());
        }
        let other = &TABLES[self.rng.below(TABLES.len())];
        let link = columns.iter().filter(|c| c.key.is_some()).find_map(|c| {
            other.columns.iter().find(|o| o.2 == c.key).map(|o| format!("y.{} = z.{} AND ", o.0, c.name))
        });
        let link = link.or_else(|| other.columns.iter().any(|o| o.0 == "id").then(|| "y.id = z.id AND ".into()));
        match link {
            Some(link) if columns.iter().any(|c| c.kind == Type::Int) => (format!(" {word} {} y", other.name), link),
            _ => (String::new(), String::new()),
        }
    }

    /// The same statement in another dress: comments, white space, other letter case.
    fn disguise(&mut self, sql: &str) -> String {
        let mut out = String::new();
        let mut quote: Option<char> = None;
        for c in sql.chars() {
            match quote {
                Some(q) => {
                    if c == q {
                        quote = None;
                    }
                    out.push(c);
                }
                None if c == '\'' || c == '"' => {
                    quote = Some(c);
                    out.push(c);
                }
                None if c == '$' => {
                    // dollar quotes and parameters: the rest stays as it is
                    return sql.to_owned();
                }
                None if c == ' ' => out.push_str(self.rng.text(&[
                    " ",
                    " ",
                    " ",
                    "\n",
                    "\t",
                    "  ",
                    " /* it's; */ ",
                    " -- no; 'x\n",
                    "/**/ ",
                ])),
                None if c.is_ascii_lowercase() && self.rng.chance(10) => out.push(c.to_ascii_uppercase()),
                None => out.push(c),
            }
        }
        out
    }
}
