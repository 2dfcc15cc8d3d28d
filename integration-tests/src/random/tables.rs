//! The tables as the generator knows them: names, column types, and which columns are shard keys.

use crate::layout::Layout;

pub const SCHEMA: &str = include_str!("../../random/schema.sql");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Int,
    Big,
    Num,
    Float,
    Text,
    Char,
    Date,
    Stamp,
    StampTz,
    Interval,
    Uuid,
    Bool,
    Json,
    Bytes,
    Ints,
}

/// Which shard key a column belongs to: joins of two columns of one family can be on one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Big,
    Name,
    Uuid,
    Region,
    RegionKey,
    Day,
    Plan,
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub kind: Type,
    pub key: Option<Family>,
}

pub struct Table {
    pub name: &'static str,
    pub columns: &'static [(&'static str, Type, Option<Family>)],
    /// How often it is chosen.
    pub weight: usize,
}

use Family::Big as KBig;
use Type::Big;
use Type::Bool;
use Type::Bytes;
use Type::Char;
use Type::Date;
use Type::Float;
use Type::Int;
use Type::Interval;
use Type::Ints;
use Type::Json;
use Type::Num;
use Type::Stamp;
use Type::StampTz;
use Type::Text;

const K: (&str, Type, Option<Family>) = ("k", Big, Some(KBig));
const ID: (&str, Type, Option<Family>) = ("id", Int, None);
const N: (&str, Type, Option<Family>) = ("n", Int, None);
const V: (&str, Type, Option<Family>) = ("v", Num, None);
const T: (&str, Type, Option<Family>) = ("t", Text, None);

pub const TABLES: [Table; 20] = [
    Table {
        name: "a",
        columns: &[
            K,
            ID,
            N,
            V,
            ("f", Float, None),
            T,
            ("tc", Text, None),
            ("ch", Char, None),
            ("d", Date, None),
            ("ts", Stamp, None),
            ("iv", Interval, None),
            ("b", Bool, None),
            ("j", Json, None),
            ("x", Bytes, None),
        ],
        weight: 30,
    },
    Table {
        name: "b",
        columns: &[("k", Int, Some(KBig)), ID, N, V, ("f", Float, None), T, ("d", Date, None)],
        weight: 25,
    },
    Table {
        name: "c",
        columns: &[ID, N, K, T, ("tz", StampTz, None), ("arr", Ints, None), ("u", Type::Uuid, None)],
        weight: 15,
    },
    Table { name: "empty", columns: &[K, ID, N, V, T], weight: 3 },
    Table { name: "nm", columns: &[("name", Text, Some(Family::Name)), ID, N, V, ("k", Big, None)], weight: 6 },
    Table { name: "uu", columns: &[("u", Type::Uuid, Some(Family::Uuid)), ID, N, T], weight: 4 },
    Table {
        name: "co",
        columns: &[("region", Text, Some(Family::Region)), ("k", Big, Some(Family::RegionKey)), ID, N, V],
        weight: 8,
    },
    Table {
        name: "co2",
        columns: &[("k", Big, Some(Family::RegionKey)), ("region", Text, Some(Family::Region)), ID, N],
        weight: 5,
    },
    Table { name: "ev", columns: &[("d", Date, Some(Family::Day)), ID, N, T], weight: 6 },
    Table { name: "li", columns: &[("plan", Text, Some(Family::Plan)), ID, N], weight: 5 },
    Table { name: "ra", columns: &[ID, N, ("k", Big, None), T], weight: 12 },
    Table { name: "rb", columns: &[ID, V, ("name", Text, None), ("d", Date, None)], weight: 6 },
    Table { name: "s", columns: &[ID, N, ("k", Big, None), T], weight: 2 },
    Table { name: "va", columns: &[K, ID, N, V, T], weight: 6 },
    Table {
        name: "vg",
        columns: &[("k", Int, Some(KBig)), ("cnt", Big, None), ("total", Big, None), ("top", Text, None)],
        weight: 5,
    },
    Table { name: "vj", columns: &[K, ID, ("bid", Int, None), N, V], weight: 5 },
    Table { name: "vu", columns: &[K, ID, N], weight: 2 },
    Table { name: "vr", columns: &[ID, ("k", Big, None), V, ("name", Text, None)], weight: 4 },
    Table { name: "vk", columns: &[K, ID, N], weight: 4 },
    Table { name: "vo", columns: &[K, ID, N, ("rn", Big, None)], weight: 4 },
];

pub fn layout(shards: usize) -> Layout {
    let last = shards.saturating_sub(1).min(1);
    Layout::new(shards)
        .hash_map("big", &["bigint"])
        .sharded("public.a", &["k"])
        .sharded("public.b", &["k"])
        .sharded("public.c", &["k"])
        .sharded("public.empty", &["k"])
        .hash_map("names", &["text"])
        .sharded("public.nm", &["name"])
        .hash_map("ids", &["uuid"])
        .sharded("public.uu", &["u"])
        .hash_map("regions", &["text", "bigint"])
        .sharded("public.co", &["region", "k"])
        .sharded("public.co2", &["region", "k"])
        .map(
            "days",
            &["date"],
            &format!(
                "function = \"range\"\nranges = [ {{ to = \"2024-01-03\", shard = \"s{last}\" }}, \
                 {{ from = \"2024-01-03\", to = \"2024-01-05\", shard = \"s0\" }}, \
                 {{ from = \"2024-01-05\", shard = \"s{}\" }} ]",
                shards - 1
            ),
        )
        .sharded("public.ev", &["d"])
        .map(
            "plans",
            &["text"],
            &format!(
                "function = \"list\"\nlists = [ {{ values = [\"free\", \"trial\"], shard = \"s{last}\" }}, \
                 {{ values = [\"paid\"], shard = \"s{}\" }} ]\ndefault = \"s0\"",
                shards - 1
            ),
        )
        .sharded("public.li", &["plan"])
        .reference("public.ra")
        .reference("public.rb")
        .single("public.s", 1)
}
