//! What is compared: PostgreSQL, the forwarder, PgBouncer in two modes, Shardway, and poolers that the caller names.

use crate::workloads;
use crate::workloads::Workload;
use integration_tests::client::Address;
use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::deployment::SINGLE;
use integration_tests::layout::Layout;
use integration_tests::postgres::APP;
use integration_tests::postgres::Builder;
use integration_tests::postgres::Cluster;
use integration_tests::process;
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

/// One way to reach the data.
pub struct Peer {
    /// The column of the report. PgBouncer's two modes share one.
    pub column: String,
    pub address: Address,
    /// The process whose CPU and memory are the peer's; none for PostgreSQL itself and for peers of the caller.
    pub process: Option<u32>,
    /// Whether it serves a workload.
    serves: fn(&Workload) -> bool,
    /// Whether a thousand idle clients need no thousand server connections.
    pub pools: bool,
}

/// Everything that runs during the benchmark; all of it ends with this value.
pub struct Stage {
    pub peers: Vec<Peer>,
    _children: Vec<Running>,
    _shards: Deployment,
}

/// A child process that ends when dropped, or with this process.
struct Running {
    child: Child,
    directory: PathBuf,
    _guard: process::Guard,
}

impl Drop for Running {
    fn drop(&mut self) {
        process::signal(self.child.id(), "QUIT");
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Stage {
    /// One PostgreSQL serves the undivided database and, as further databases, the shards. So no peer's statements find
    /// warmer caches or fewer processes than another's: what differs between the columns is what stands in between.
    pub fn set() -> Stage {
        let mut builder = Cluster::builder().setting("max_connections", "400");
        if let Some(port) = std::env::var("BENCH_SINGLE_PORT").ok().and_then(|v| v.parse().ok()) {
            builder = builder.port(port);
        }
        let shards = shards(builder);
        let single = shards.cluster(0);
        single.create_database(SINGLE);
        let mut client = Client::connect(&single.superuser(SINGLE));
        client.execute(&format!("SET ROLE {APP}"));
        client.execute(workloads::SCHEMA);
        client.execute(workloads::DATA);
        client.execute("RESET ROLE");
        client.execute("VACUUM ANALYZE");
        let mut peers = vec![peer("direct", single.app(SINGLE), None, |_| true)];
        let mut children = Vec::new();
        let (forwarder, port) = forwarder(single.port);
        peers.push(peer("TCP forwarder", Address::new(port, APP, SINGLE), Some(forwarder.child.id()), |_| true));
        children.push(forwarder);
        for mode in ["transaction", "session"] {
            // Debian's PgBouncer 1.18 has no prepared statements in transaction mode.
            let serves: fn(&Workload) -> bool = match mode {
                "session" => |w| w.mode == "prepared",
                _ => |w| w.mode != "prepared",
            };
            let (bouncer, port) = pgbouncer(single.port, mode);
            let address = Address::new(port, APP, SINGLE);
            peers.push(Peer {
                pools: mode == "transaction",
                ..peer("PgBouncer", address, Some(bouncer.child.id()), serves)
            });
            children.push(bouncer);
        }
        if let Some(proxy) = &shards.proxy {
            peers.push(Peer { pools: true, ..peer("Shardway", shards.address(), Some(proxy.pid()), |_| true) });
        }
        peers.extend(named_peers());
        Stage { peers, _children: children, _shards: shards }
    }

    pub fn peers_for(&self, workload: &Workload) -> impl Iterator<Item = &Peer> {
        self.peers.iter().filter(move |p| (p.serves)(workload))
    }

    /// The columns in order.
    pub fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> = self.peers.iter().map(|p| p.column.clone()).collect();
        columns.dedup();
        columns
    }
}

fn peer(column: &str, address: Address, process: Option<u32>, serves: fn(&Workload) -> bool) -> Peer {
    Peer { column: column.into(), address, process, serves, pools: false }
}

fn named_peers() -> Vec<Peer> {
    let list = std::env::var("BENCH_PEERS").unwrap_or_default();
    let named = list.split(',').filter_map(|entry| entry.split_once('='));
    named.map(|(name, port)| peer(name, Address::new(port.parse().unwrap(), APP, SINGLE), None, |_| true)).collect()
}

/// Two shards and Shardway before them.
fn shards(builder: Builder) -> Deployment {
    let mut layout = Layout::new(2).hash_map("keys", &["bigint"]).listen("max_clients = 5000");
    for (table, key) in workloads::TABLES {
        layout = layout.sharded(&format!("public.{table}"), &[key]);
    }
    let deployment = Deployment::on(layout, builder);
    let mut client = deployment.connect();
    for statement in workloads::SCHEMA.split(';') {
        client.execute(statement);
    }
    deployment.load(workloads::DATA);
    for shard in 0..deployment.layout.shards {
        let database = deployment.shard(shard).database;
        deployment.cluster(shard).execute(&database, "VACUUM ANALYZE");
    }
    deployment
}

fn forwarder(target: u16) -> (Running, u16) {
    let port = process::free_port();
    let directory = process::temporary_directory("shardway-bench-", None);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("forward").arg(port.to_string()).arg(target.to_string());
    (start(command, directory, port), port)
}

fn pgbouncer(target: u16, mode: &str) -> (Running, u16) {
    let port = process::free_port();
    let owner = process::server_account();
    let directory = process::temporary_directory("shardway-bench-", owner);
    let file = directory.join("pgbouncer.ini");
    let users = directory.join("users.txt");
    let size = if mode == "session" { 100 } else { 20 };
    fs::write(&users, format!("\"{APP}\" \"{APP}\"\n")).unwrap();
    let text = format!(
        "[databases]\n{SINGLE} = host=127.0.0.1 port={target}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = {mode}\ndefault_pool_size = {size}\n\
         max_client_conn = 5000\nlogfile = {}\nlog_connections = 0\nlog_disconnections = 0\n",
        users.display(),
        directory.join("log").display()
    );
    fs::write(&file, text).unwrap();
    let mut command = Command::new("pgbouncer");
    command.arg("-q").arg(&file);
    if let Some(owner) = owner {
        use std::os::unix::process::CommandExt;
        for path in [&file, &users] {
            std::os::unix::fs::chown(path, Some(owner.uid), Some(owner.gid)).unwrap();
        }
        command.uid(owner.uid).gid(owner.gid);
    }
    (start(command, directory, port), port)
}

fn start(mut command: Command, directory: PathBuf, port: u16) -> Running {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e} (scripts/setup installs what is needed)"));
    let guard = process::Guard::new(child.id(), &directory);
    let running = Running { child, directory, _guard: guard };
    for _ in 0..500 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return running;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{command:?} does not listen on port {port}");
}
