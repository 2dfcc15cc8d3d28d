//! Cancel requests between proxies. Behind a load balancer a client's cancel request, which comes on a connection of its
//! own, may reach another proxy than its session is on. It is passed on to all others, as the key does not say which.
//!
//! What is passed on is marked by one byte behind the secret, so that it goes one step only, whoever lists whom.

use crate::limits;
use crate::wire::startup;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Secrets have an even number of bytes (4 or 32): with one more the request was passed on.
const MARK: u8 = b'p';

fn is_passed_on(secret: &[u8]) -> bool {
    !secret.len().is_multiple_of(2) && secret.last() == Some(&MARK)
}

/// The secret as the session's proxy has made it.
pub fn original(secret: &[u8]) -> &[u8] {
    match secret.split_last() {
        Some((_, original)) if is_passed_on(secret) => original,
        _ => secret,
    }
}

/// Passes a request for a session that is not here on to the other proxies, unless one of them has passed it on. Returns
/// when they have taken it, or cannot be reached in time. Anybody can send cancel requests: those beyond `places` at a time
/// are dropped.
pub async fn pass_on(places: &Semaphore, peers: &[String], number: i32, secret: &[u8]) {
    if peers.is_empty() || is_passed_on(secret) {
        return;
    }
    let Ok(_place) = places.try_acquire() else {
        tracing::warn!("too many cancel requests for other proxies: one is dropped");
        return;
    };
    let mut marked = secret.to_vec();
    marked.push(MARK);
    let request = startup::cancel_request(number, &marked);
    let all = peers.iter().map(async |peer| match timeout(limits::CANCEL_TIMEOUT, send(peer, &request)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, peer, "cancel request could not be passed on"),
        Err(_) => tracing::warn!(peer, "cancel request could not be passed on in time"),
    });
    futures::future::join_all(all).await;
}

async fn send(peer: &str, request: &[u8]) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(peer).await?;
    stream.write_all(request).await?;
    // It closes the connection once the servers have taken the cancel.
    let mut rest = [0u8; 16];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_passed_on;
    use super::original;

    #[test]
    fn only_an_odd_secret_with_the_mark_was_passed_on() {
        assert_eq!(original(b"abcdp"), b"abcd");
        assert!(is_passed_on(b"abcdp"));
        for own in [b"abcp".as_slice(), b"abcdx", b"", &[b'p'; 32]] {
            assert_eq!(original(own), own);
            assert!(!is_passed_on(own));
        }
    }
}
