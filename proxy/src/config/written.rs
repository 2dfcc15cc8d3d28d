//! The configuration as written: every key of the file with its place, types checked, meanings not yet.

use crate::config::mistake::At;
use crate::config::mistake::Place;
use crate::config::reader::Literal;
use crate::config::reader::Section;

type Text = Option<At<String>>;
type Integer = Option<At<i64>>;
type Flag = Option<At<bool>>;
type Texts = Option<At<Vec<At<String>>>>;
type KeyValue = Option<At<Vec<Literal>>>;

#[derive(Debug)]
pub struct ConfigFile {
    pub listen: Option<ListenFile>,
    pub pool: PoolFile,
    pub log: LogFile,
    pub users: Vec<UserFile>,
    pub databases: Vec<DatabaseFile>,
}

#[derive(Debug)]
pub struct ListenFile {
    pub place: Place,
    pub address: Text,
    pub http: Text,
    pub peers: Texts,
    pub max_clients: Integer,
    pub login_timeout: Text,
    pub drain_timeout: Text,
    pub tls: Option<TlsFile>,
}

#[derive(Debug)]
pub struct TlsFile {
    pub place: Place,
    pub certificate: Text,
    pub key: Text,
    pub required: Flag,
}

#[derive(Debug, Default)]
pub struct PoolFile {
    pub mode: Text,
    pub size: Integer,
    pub min_idle: Integer,
    pub wait_timeout: Text,
    pub connect_timeout: Text,
    pub idle_timeout: Text,
    pub max_lifetime: Text,
}

#[derive(Debug, Default)]
pub struct LogFile {
    pub format: Text,
    pub level: Text,
    pub slow_statement: Text,
}

#[derive(Debug)]
pub struct UserFile {
    pub place: Place,
    pub name: Text,
    pub password: Text,
    pub auth: Text,
    pub server_user: Text,
    pub server_password: Text,
}

#[derive(Debug)]
pub struct DatabaseFile {
    pub place: Place,
    pub name: String,
    pub unlisted_tables: Text,
    pub control: Text,
    pub merge_memory: Text,
    pub commit: Text,
    pub shards: Vec<ShardFile>,
    pub maps: Vec<MapFile>,
    pub tables: Vec<TableFile>,
    pub column_rules: Vec<ColumnRuleFile>,
    pub functions: Vec<FunctionFile>,
}

#[derive(Debug)]
pub struct ShardFile {
    pub place: Place,
    pub name: Text,
    pub primary: Text,
    pub replicas: Texts,
}

#[derive(Debug)]
pub struct MapFile {
    pub place: Place,
    pub name: Text,
    pub key: Texts,
    pub level: LevelFile,
    pub pins: Vec<PinFile>,
}

/// A shard function with its places: a map's own, or what stands behind `then`.
#[derive(Debug)]
pub struct LevelFile {
    pub place: Place,
    pub function: Text,
    pub buckets: Integer,
    pub shards: Texts,
    pub placement: Vec<PlacementFile>,
    pub ranges: Vec<RangeFile>,
    pub lists: Vec<ListFile>,
    pub default: Text,
}

#[derive(Debug)]
pub struct PlacementFile {
    pub place: Place,
    pub buckets: Text,
    pub shard: Text,
}

#[derive(Debug)]
pub struct RangeFile {
    pub place: Place,
    pub from: KeyValue,
    pub to: KeyValue,
    pub spot: SpotFile,
}

#[derive(Debug)]
pub struct ListFile {
    pub place: Place,
    pub values: Option<At<Vec<At<Vec<Literal>>>>>,
    pub spot: SpotFile,
}

/// Where the keys of a range or list live: `shard = "…"`, or a second level that chooses by the other key columns.
#[derive(Debug)]
pub struct SpotFile {
    pub shard: Text,
    pub then: Option<Box<LevelFile>>,
}

#[derive(Debug)]
pub struct PinFile {
    pub place: Place,
    pub key: KeyValue,
    pub shard: Text,
}

#[derive(Debug)]
pub struct TableFile {
    pub place: Place,
    pub name: Text,
    pub shard_map: Text,
    pub key: Texts,
    pub reference: Flag,
    pub shard: Text,
}

#[derive(Debug)]
pub struct ColumnRuleFile {
    pub place: Place,
    pub column: Text,
    pub shard_map: Text,
}

#[derive(Debug)]
pub struct FunctionFile {
    pub place: Place,
    pub name: Text,
    pub runs_on: Text,
    pub argument: Integer,
    pub shard_map: Text,
    pub stateless: Flag,
}

impl ConfigFile {
    /// Reads all tables; what is wrong goes to the mistakes that `root` holds.
    pub fn read(root: Section<'_>) -> ConfigFile {
        let databases = root.section("database").map(|section| {
            section.named_sections().into_iter().map(|(name, section)| database(name, section)).collect()
        });
        let file = ConfigFile {
            listen: root.section("listen").map(listen),
            pool: root.section("pool").map(pool).unwrap_or_default(),
            log: root.section("log").map(log).unwrap_or_default(),
            users: root.sections("user").into_iter().map(user).collect(),
            databases: databases.unwrap_or_default(),
        };
        root.finish();
        file
    }
}

fn listen(section: Section<'_>) -> ListenFile {
    let file = ListenFile {
        place: section.place(),
        address: section.text("address"),
        http: section.text("http"),
        peers: section.texts("peers"),
        max_clients: section.integer("max_clients"),
        login_timeout: section.text("login_timeout"),
        drain_timeout: section.text("drain_timeout"),
        tls: section.section("tls").map(tls),
    };
    section.finish();
    file
}

fn tls(section: Section<'_>) -> TlsFile {
    let file = TlsFile {
        place: section.place(),
        certificate: section.text("certificate"),
        key: section.text("key"),
        required: section.boolean("required"),
    };
    section.finish();
    file
}

fn pool(section: Section<'_>) -> PoolFile {
    let file = PoolFile {
        mode: section.text("mode"),
        size: section.integer("size"),
        min_idle: section.integer("min_idle"),
        wait_timeout: section.text("wait_timeout"),
        connect_timeout: section.text("connect_timeout"),
        idle_timeout: section.text("idle_timeout"),
        max_lifetime: section.text("max_lifetime"),
    };
    section.finish();
    file
}

fn log(section: Section<'_>) -> LogFile {
    let file = LogFile {
        format: section.text("format"),
        level: section.text("level"),
        slow_statement: section.text("slow_statement"),
    };
    section.finish();
    file
}

fn user(section: Section<'_>) -> UserFile {
    let file = UserFile {
        place: section.place(),
        name: section.text("name"),
        password: section.text("password"),
        auth: section.text("auth"),
        server_user: section.text("server_user"),
        server_password: section.text("server_password"),
    };
    section.finish();
    file
}

fn database(name: String, section: Section<'_>) -> DatabaseFile {
    let file = DatabaseFile {
        place: section.place(),
        name,
        unlisted_tables: section.text("unlisted_tables"),
        control: section.text("control"),
        merge_memory: section.text("merge_memory"),
        commit: section.text("commit"),
        shards: section.sections("shard").into_iter().map(shard).collect(),
        maps: section.sections("shard_map").into_iter().map(shard_map).collect(),
        tables: section.sections("table").into_iter().map(table).collect(),
        column_rules: section.sections("column_rule").into_iter().map(column_rule).collect(),
        functions: section.sections("function").into_iter().map(function).collect(),
    };
    section.finish();
    file
}

fn shard(section: Section<'_>) -> ShardFile {
    let file = ShardFile {
        place: section.place(),
        name: section.text("name"),
        primary: section.text("primary"),
        replicas: section.texts("replicas"),
    };
    section.finish();
    file
}

fn shard_map(section: Section<'_>) -> MapFile {
    let file = MapFile {
        place: section.place(),
        name: section.text("name"),
        key: section.texts("key"),
        level: level(&section, true),
        pins: section.sections("pins").into_iter().map(pin).collect(),
    };
    section.finish();
    file
}

/// `deeper`: its ranges and lists may have a level below them.
fn level(section: &Section<'_>, deeper: bool) -> LevelFile {
    LevelFile {
        place: section.place(),
        function: section.text("function"),
        buckets: section.integer("buckets"),
        shards: section.texts("shards"),
        placement: section.sections("placement").into_iter().map(placement).collect(),
        ranges: section.sections("ranges").into_iter().map(|section| range(section, deeper)).collect(),
        lists: section.sections("lists").into_iter().map(|section| list(section, deeper)).collect(),
        default: section.text("default"),
    }
}

fn spot(section: &Section<'_>, deeper: bool) -> SpotFile {
    let then = section.section("then").map(|section| {
        let file = level(&section, false);
        if !deeper {
            section.refuse("a map has two levels, not more; expected shard = \"NAME\"");
        }
        section.finish();
        Box::new(file)
    });
    SpotFile { shard: section.text("shard"), then }
}

fn placement(section: Section<'_>) -> PlacementFile {
    let file = PlacementFile { place: section.place(), buckets: section.text("buckets"), shard: section.text("shard") };
    section.finish();
    file
}

fn range(section: Section<'_>, deeper: bool) -> RangeFile {
    let file = RangeFile {
        place: section.place(),
        from: section.key_value("from"),
        to: section.key_value("to"),
        spot: spot(&section, deeper),
    };
    section.finish();
    file
}

fn list(section: Section<'_>, deeper: bool) -> ListFile {
    let file = ListFile { place: section.place(), values: section.key_values("values"), spot: spot(&section, deeper) };
    section.finish();
    file
}

fn pin(section: Section<'_>) -> PinFile {
    let file = PinFile { place: section.place(), key: section.key_value("key"), shard: section.text("shard") };
    section.finish();
    file
}

fn table(section: Section<'_>) -> TableFile {
    let file = TableFile {
        place: section.place(),
        name: section.text("name"),
        shard_map: section.text("shard_map"),
        key: section.texts("key"),
        reference: section.boolean("reference"),
        shard: section.text("shard"),
    };
    section.finish();
    file
}

fn column_rule(section: Section<'_>) -> ColumnRuleFile {
    let file =
        ColumnRuleFile { place: section.place(), column: section.text("column"), shard_map: section.text("shard_map") };
    section.finish();
    file
}

fn function(section: Section<'_>) -> FunctionFile {
    let file = FunctionFile {
        place: section.place(),
        name: section.text("name"),
        runs_on: section.text("runs_on"),
        argument: section.integer("argument"),
        shard_map: section.text("shard_map"),
        stateless: section.boolean("stateless"),
    };
    section.finish();
    file
}
