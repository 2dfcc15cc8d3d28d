//! Checks of diesel with libpq: prepared statements of its own names, typed queries, transactions, COPY, migrations.

#[path = "../../checks.rs"]
mod checks;
mod application;
mod basics;

use checks::Checked;
use diesel::Connection;
use diesel::PgConnection;
use std::sync::mpsc::channel;
use std::time::Duration;

pub type Check = (&'static str, fn(&mut PgConnection) -> Checked);

pub fn connect() -> Result<PgConnection, diesel::ConnectionError> {
    // libpq takes the rest from its environment.
    PgConnection::establish("postgresql://")
}

fn main() {
    for (name, check) in basics::CHECKS.iter().chain(application::CHECKS) {
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let outcome = connect().map_err(Into::into).and_then(|mut connection| check(&mut connection));
            let _ = tell.send(outcome);
        });
        checks::tell(name, told.recv_timeout(Duration::from_secs(30)).ok());
    }
    std::process::exit(0);
}
