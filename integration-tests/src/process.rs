//! Child processes: free ports, temporary directories, signals, and guards that end them with the test process.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// A port on which nothing listens now. Taken from below the range that the kernel gives to outgoing connections, so
/// that no client of another test gets it before the server binds it; and reserved against other test processes by a
/// UDP socket on the same number, which goes with this process.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    static RESERVED: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    const LOW: u32 = 17_000;
    const SPAN: u32 = 15_000;
    let start = std::process::id().wrapping_mul(97) % SPAN;
    for _ in 0..SPAN {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = (LOW + (start + step) % SPAN) as u16;
        let Ok(reserved) = UdpSocket::bind(("127.0.0.1", port)) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            RESERVED.lock().unwrap_or_else(|e| e.into_inner()).push(reserved);
            return port;
        }
    }
    panic!("no free loopback port");
}

/// A new directory under the system's temporary directory, owned by `owner` where that is given.
pub fn temporary_directory(prefix: &str, owner: Option<Owner>) -> PathBuf {
    let directory = tempfile::Builder::new().prefix(prefix).tempdir().unwrap().keep();
    if let Some(owner) = owner {
        std::os::unix::fs::chown(&directory, Some(owner.uid), Some(owner.gid)).unwrap();
    }
    directory
}

/// The account that PostgreSQL runs as where the tests run as root, since initdb refuses root.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

/// `None` when we are not root: then PostgreSQL runs as we do.
pub fn server_account() -> Option<Owner> {
    let probe = tempfile::NamedTempFile::new().unwrap();
    if probe.as_file().metadata().unwrap().uid() != 0 {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |name: &str| {
        passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            match fields.as_slice() {
                [user, _, uid, gid, ..] if *user == name => {
                    Some(Owner { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
                }
                _ => None,
            }
        })
    };
    Some(find("postgres").or_else(|| find("nobody")).expect("a user postgres or nobody to run PostgreSQL as"))
}

/// Sends a signal (`TERM`, `HUP`, …) to a process that we started.
pub fn signal(pid: u32, name: &str) {
    let _ = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).stderr(Stdio::null()).status();
}

/// Waits for the end of a child; `None` when it still runs after `limit`.
pub fn wait(child: &mut Child, limit: Duration) -> Option<std::process::ExitStatus> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if Instant::now() > end {
            return None;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Ends a process and removes its directory when the test process has gone without doing so: clusters live in statics,
/// which are never dropped, and tests may be killed. A shell waits for the end of its standard input.
pub struct Guard(Child);

const GUARD: &str = r#"read -r done && exit 0
if [ -n "$1" ]; then kill -QUIT "$1" 2>/dev/null; sleep 0.5; kill -KILL "$1" 2>/dev/null; fi
rm -rf "$2"; sleep 1; rm -rf "$2""#;

/// A new directory that stays as long as the test process does.
pub fn scratch_directory(prefix: &str, owner: Option<Owner>) -> PathBuf {
    static GUARDS: Mutex<Vec<Guard>> = Mutex::new(Vec::new());
    let directory = temporary_directory(prefix, owner);
    let guard = Guard::directory(&directory);
    GUARDS.lock().unwrap_or_else(|e| e.into_inner()).push(guard);
    directory
}

impl Guard {
    pub fn new(pid: u32, directory: &Path) -> Guard {
        Guard::spawn(&pid.to_string(), directory)
    }

    /// Removes a directory, and ends nothing.
    pub fn directory(directory: &Path) -> Guard {
        Guard::spawn("", directory)
    }

    fn spawn(pid: &str, directory: &Path) -> Guard {
        let child = Command::new("sh")
            .args(["-c", GUARD, "guard", pid])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Guard(child)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(mut input) = self.0.stdin.take() {
            let _ = input.write_all(b"done\n");
        }
        let _ = self.0.wait();
    }
}
