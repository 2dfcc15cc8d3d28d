//! What all parts of a random statement share: scopes, aliases, literals and parameters.

use super::data;
use super::rng::Rng;
use super::tables::Column;
use super::tables::Family;
use super::tables::Type;

/// A FROM item that can be named.
#[derive(Clone, Debug)]
pub struct Item {
    pub alias: String,
    pub columns: Vec<Column>,
}

/// FROM items from the innermost query outward.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    pub levels: Vec<Vec<Item>>,
}

impl Scope {
    pub fn enter(&self, items: Vec<Item>) -> Scope {
        let mut levels = vec![items];
        levels.extend(self.levels.iter().cloned());
        Scope { levels }
    }

    pub fn own(&self) -> &[Item] {
        self.levels.first().map_or(&[], Vec::as_slice)
    }
}

/// A parameter's value, its type (0: not declared) and, where it is sent in binary, its bytes.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub text: Option<String>,
    pub oid: u32,
    pub binary: Option<Vec<u8>>,
}

/// A statement with what it promises about its rows.
#[derive(Clone, Debug)]
pub struct Statement {
    pub sql: String,
    pub parameters: Vec<Parameter>,
    /// Output columns by which the rows are sorted, as far as that is known.
    pub sorted: Vec<usize>,
    /// LIMIT without an order of all columns: any rows will do.
    pub limited: bool,
    pub writes: bool,
    /// Reads what the statement has written.
    pub check: Option<String>,
}

pub struct Generator {
    pub rng: Rng,
    pub parameters: Vec<Parameter>,
    /// Literals become parameters, with this chance.
    pub parameter_chance: usize,
    /// Parameters are declared, and sent in binary.
    pub declared: bool,
    pub ctes: Vec<Item>,
    aliases: usize,
    /// Most tables are asked for one value of their shard key, the same one everywhere.
    pub fixes_keys: bool,
    constants: Vec<(Family, Type, String)>,
}

impl Generator {
    pub fn new(seed: u64) -> Generator {
        let mut rng = Rng::new(seed);
        let parameter_chance = if rng.chance(30) { 50 } else { 0 };
        let declared = rng.chance(50);
        let fixes_keys = rng.chance(35);
        Generator {
            rng,
            parameters: Vec::new(),
            parameter_chance,
            declared,
            ctes: Vec::new(),
            aliases: 0,
            fixes_keys,
            constants: Vec::new(),
        }
    }

    pub fn alias(&mut self) -> String {
        self.aliases += 1;
        match self.rng.below(20) {
            0 => format!("\"Q {}\"", self.aliases),
            1 => format!("X{}", self.aliases),
            _ => format!("x{}", self.aliases),
        }
    }

    /// The statement's one value of a family.
    pub fn constant(&mut self, family: Family, kind: Type) -> String {
        if let Some((_, _, text)) = self.constants.iter().find(|(f, k, _)| *f == family && *k == kind) {
            return text.clone();
        }
        let kind_value = match self.constants.iter().find(|(f, ..)| *f == family) {
            Some((_, _, text)) if !text.contains('$') => text.clone(),
            _ => self.literal(kind, Some(family)),
        };
        self.constants.push((family, kind, kind_value.clone()));
        kind_value
    }

    /// The value of a type as text, without quotes.
    fn value(&mut self, kind: Type, key: Option<Family>) -> String {
        let r = &mut self.rng;
        match kind {
            Type::Int | Type::Big if key.is_some() => (r.below(9) + 1).to_string(),
            Type::Int | Type::Big => (r.below(8) as i64 - 1).to_string(),
            Type::Num => r.text(&["1", "1.0", "2.50", "0", "-3", "100.25"]).into(),
            Type::Float => r.text(&["1.5", "0", "1", "-2"]).into(),
            Type::Text => match key {
                Some(Family::Name) => r.text(&data::NAMES).into(),
                Some(Family::Region) => r.text(&data::REGIONS).into(),
                Some(Family::Plan) => r.text(&data::PLANS).into(),
                _ => r.text(&data::TEXTS).into(),
            },
            Type::Char => r.text(&data::CHARS).into(),
            Type::Date => r.pick(&data::DAYS).0.into(),
            Type::Stamp => r.text(&data::STAMPS).into(),
            Type::StampTz => r.text(&data::ZONED).into(),
            Type::Interval => r.text(&data::INTERVALS).into(),
            Type::Uuid => r.text(&data::UUIDS).into(),
            Type::Bool => r.text(&["true", "false"]).into(),
            Type::Json => r.text(&data::JSONS).into(),
            Type::Bytes => r.text(&data::BYTES).into(),
            Type::Ints => r.text(&["{1,2}", "{}", "{2,NULL}"]).into(),
        }
    }

    /// A constant of a type, or a parameter.
    pub fn literal(&mut self, kind: Type, key: Option<Family>) -> String {
        if self.rng.chance(4) {
            return "NULL".into();
        }
        let value = self.value(kind, key);
        if self.rng.chance(self.parameter_chance) {
            return self.parameter(kind, value);
        }
        match kind {
            Type::Int | Type::Big | Type::Num | Type::Float => match self.rng.below(12) {
                0 => format!("'{value}'"),
                1 => format!("({value})"),
                2 if kind == Type::Big => format!("{value}::bigint"),
                3 if kind == Type::Int => format!("CAST({value} AS int)"),
                4 if kind == Type::Int => format!("'{value}'::integer"),
                _ => value,
            },
            Type::Bool => value,
            Type::Text => match self.rng.below(10) {
                0 => format!("E'{value}'"),
                1 => format!("$${value}$$"),
                2 => format!("'{value}'::text"),
                3 => format!("text '{value}'"),
                _ => format!("'{value}'"),
            },
            Type::Date if self.rng.chance(50) => format!("DATE '{value}'"),
            Type::Date => format!("'{value}'"),
            _ => format!("'{value}'::{}", type_name(kind)),
        }
    }

    /// A constant whose type is written with it.
    pub fn typed(&mut self, kind: Type, key: Option<Family>) -> String {
        let value = self.value(kind, key);
        match kind {
            Type::Int => value,
            Type::Bool => value,
            _ => format!("'{value}'::{}", type_name(kind)),
        }
    }

    fn parameter(&mut self, kind: Type, value: String) -> String {
        let is_null = self.rng.chance(5);
        let text = (!is_null).then_some(value);
        let (oid, binary) = match self.declared {
            true => (type_oid(kind), text.as_deref().and_then(|t| binary(kind, t))),
            false => (0, None),
        };
        self.parameters.push(Parameter { text, oid, binary });
        let number = self.parameters.len();
        match self.rng.below(4) {
            0 => format!("${number}::{}", type_name(kind)),
            _ => format!("${number}"),
        }
    }
}

pub fn type_name(kind: Type) -> &'static str {
    match kind {
        Type::Int => "int",
        Type::Big => "bigint",
        Type::Num => "numeric",
        Type::Float => "float8",
        Type::Text => "text",
        Type::Char => "char(5)",
        Type::Date => "date",
        Type::Stamp => "timestamp",
        Type::StampTz => "timestamptz",
        Type::Interval => "interval",
        Type::Uuid => "uuid",
        Type::Bool => "boolean",
        Type::Json => "jsonb",
        Type::Bytes => "bytea",
        Type::Ints => "int[]",
    }
}

fn type_oid(kind: Type) -> u32 {
    match kind {
        Type::Int => 23,
        Type::Big => 20,
        Type::Num => 1700,
        Type::Float => 701,
        Type::Text => 25,
        Type::Char => 1042,
        Type::Date => 1082,
        Type::Stamp => 1114,
        Type::StampTz => 1184,
        Type::Interval => 1186,
        Type::Uuid => 2950,
        Type::Bool => 16,
        Type::Json => 3802,
        Type::Bytes => 17,
        Type::Ints => 1007,
    }
}

fn binary(kind: Type, text: &str) -> Option<Vec<u8>> {
    Some(match kind {
        Type::Int => text.parse::<i32>().ok()?.to_be_bytes().to_vec(),
        Type::Big => text.parse::<i64>().ok()?.to_be_bytes().to_vec(),
        Type::Float => text.parse::<f64>().ok()?.to_be_bytes().to_vec(),
        Type::Text | Type::Char => text.as_bytes().to_vec(),
        Type::Date => data::DAYS.iter().find(|(day, _)| *day == text)?.1.to_be_bytes().to_vec(),
        Type::Bool => vec![u8::from(text == "true")],
        Type::Uuid => {
            let digits: String = text.chars().filter(|c| *c != '-').collect();
            u128::from_str_radix(&digits, 16).ok()?.to_be_bytes().to_vec()
        }
        _ => return None,
    })
}
