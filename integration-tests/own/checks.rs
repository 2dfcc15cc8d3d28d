//! Runs named checks of a Rust client and tells each outcome on a line of its own: `ok NAME`, `not ok NAME: reason`.

use std::fmt::Debug;

/// What a check gives: why it failed, if it did.
pub type Checked = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Prints the outcome of a check; `None`: it took too long.
pub fn tell(name: &str, outcome: Option<Checked>) {
    match outcome {
        Some(Ok(())) => println!("ok {name}"),
        Some(Err(error)) => println!("not ok {name}: {}", format!("{error} {error:?}").replace('\n', " | ")),
        None => println!("not ok {name}: no answer in 30 seconds"),
    }
}

/// # Errors
/// When the two differ.
pub fn equal<T: PartialEq<U> + Debug, U: Debug>(got: T, expected: U) -> Checked {
    if got == expected { Ok(()) } else { Err(format!("got {got:?}, expected {expected:?}").into()) }
}
