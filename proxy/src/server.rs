//! Accepting clients, and draining.

use crate::error::Error;
use crate::error::codes;
use crate::session::handshake;
use crate::session::registry::Shared;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

/// Accepts clients until the proxy drains.
pub async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut draining = shared.draining.subscribe();
    loop {
        tokio::select! {
            got = listener.accept() => match got {
                Ok((socket, _)) => admit(socket, &shared),
                Err(error) => {
                    // Out of file descriptors, most likely: they come back when clients go.
                    tracing::warn!(%error, "client not accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            _ = draining.changed() => return,
        }
    }
}

fn admit(socket: TcpStream, shared: &Arc<Shared>) {
    let max = shared.state.load().config.listen.max_clients;
    let shared = Arc::clone(shared);
    if !shared.registry.admit(max) {
        let Ok(place) = Arc::clone(&shared.turned_away).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let error = Error::fatal(codes::TOO_MANY_CONNECTIONS, "sorry, too many clients already")
                .hint("Raise listen.max_clients.");
            handshake::turn_away(shared, socket, error).await;
            drop(place);
        });
        return;
    }
    tokio::spawn(async move {
        let guard = Dismiss(Arc::clone(&shared));
        handshake::serve(shared, socket).await;
        drop(guard);
    });
}

/// Counts a client out, however its task ends.
struct Dismiss(Arc<Shared>);

impl Drop for Dismiss {
    fn drop(&mut self) {
        self.0.registry.dismiss();
    }
}

/// Tells every session to end after its transaction and waits for them, within bounds; true when all have gone.
pub async fn drain(shared: &Shared, patience: Duration, mut again: watch::Receiver<bool>) -> bool {
    shared.drain();
    let gone = async {
        while shared.registry.clients() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        done = timeout(patience, gone) => done.is_ok(),
        // A second signal: at once.
        _ = again.wait_for(|stop| *stop) => false,
    }
}
