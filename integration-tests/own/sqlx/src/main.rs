//! Checks of sqlx on tokio: statements prepared under its own names, binary values, pools, COPY, LISTEN.

#[path = "../../checks.rs"]
mod checks;
mod application;
mod basics;

use checks::Checked;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A named check, with its future.
pub type Check = (&'static str, Pin<Box<dyn Future<Output = Checked> + Send>>);

#[tokio::main]
async fn main() {
    for (name, check) in basics::checks().into_iter().chain(application::checks()) {
        let task = tokio::spawn(check);
        let outcome = match tokio::time::timeout(Duration::from_secs(30), task).await {
            Ok(Ok(outcome)) => Some(outcome),
            Ok(Err(panicked)) => Some(Err(panicked.into())),
            Err(_) => None,
        };
        checks::tell(name, outcome);
    }
    std::process::exit(0);
}
