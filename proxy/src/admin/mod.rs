//! What operators see over HTTP: `/metrics`, `/healthz`, `/readyz`.

use crate::session::registry::Shared;
use crate::telemetry;
use metrics_exporter_prometheus::Matcher;
use metrics_exporter_prometheus::PrometheusBuilder;
use metrics_exporter_prometheus::PrometheusHandle;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A request head longer than this is none of a scraper.
const REQUEST_BYTES: usize = 8 * 1024;
/// A scraper that takes longer is gone.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// Installs the recorder that all counting goes to, and describes every metric.
///
/// # Errors
/// A recorder is installed already.
pub fn install_metrics() -> Result<PrometheusHandle, String> {
    let matcher = |name: &str| Matcher::Full(name.to_owned());
    let mut builder = PrometheusBuilder::new();
    for (name, _) in telemetry::HISTOGRAMS {
        builder =
            builder.set_buckets_for_metric(matcher(name), telemetry::SECONDS_BUCKETS).map_err(|e| e.to_string())?;
    }
    let handle = builder.install_recorder().map_err(|e| e.to_string())?;
    for (name, help) in telemetry::GAUGES {
        metrics::describe_gauge!(*name, *help);
    }
    for (name, help) in telemetry::COUNTERS {
        metrics::describe_counter!(*name, *help);
    }
    for (name, help) in telemetry::HISTOGRAMS {
        metrics::describe_histogram!(*name, metrics::Unit::Seconds, *help);
    }
    metrics::gauge!(telemetry::BUILD_INFO, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

/// Answers requests until the process ends.
pub async fn serve(listener: TcpListener, shared: Arc<Shared>, handle: PrometheusHandle) {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => {
                let (shared, handle) = (Arc::clone(&shared), handle.clone());
                tokio::spawn(async move {
                    let _ = timeout(REQUEST_TIME, answer(socket, &shared, &handle)).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "HTTP connection not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(mut socket: TcpStream, shared: &Shared, handle: &PrometheusHandle) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|w| w == b"\r\n\r\n") {
        if request.len() > REQUEST_BYTES || socket.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&request);
    let mut words = head.split_ascii_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            gauge(shared);
            ("200 OK", "text/plain; version=0.0.4; charset=utf-8", handle.render())
        }
        ("GET" | "HEAD", "/healthz") => ("200 OK", "text/plain", "ok\n".to_owned()),
        ("GET" | "HEAD", "/readyz") => ready(shared),
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain", "There is /metrics, /healthz and /readyz.\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "GET only\n".to_owned()),
    };
    let mut response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    if method != "HEAD" {
        response.push_str(&body);
    }
    socket.write_all(response.as_bytes()).await?;
    socket.shutdown().await
}

/// Ready: not draining, and every shard's catalog has been read.
fn ready(shared: &Shared) -> (&'static str, &'static str, String) {
    if shared.is_draining() {
        return ("503 Service Unavailable", "text/plain", "draining\n".to_owned());
    }
    let state = shared.state.load();
    let waiting: Vec<&str> =
        state.databases.values().filter(|d| !d.is_ready()).map(|d| d.config.name.as_str()).collect();
    if waiting.is_empty() {
        ("200 OK", "text/plain", "ready\n".to_owned())
    } else {
        ("503 Service Unavailable", "text/plain", format!("not every shard has been reached: {}\n", waiting.join(", ")))
    }
}

/// Sets the gauges to what is so now.
fn gauge(shared: &Shared) {
    let idle = shared.registry.idle().min(shared.registry.clients());
    metrics::gauge!(telemetry::CLIENTS, "state" => "idle").set(idle as f64);
    metrics::gauge!(telemetry::CLIENTS, "state" => "active").set((shared.registry.clients() - idle) as f64);
    let state = shared.state.load();
    for (name, database) in &state.databases {
        metrics::gauge!(telemetry::CATALOG_VERSION, "database" => name.clone())
            .set(database.snapshot().catalog.version as f64);
        for (shard, user, counts) in database.pool_counts() {
            for (state, count) in [("idle", counts.idle), ("used", counts.used)] {
                let labels = [
                    ("database", name.clone()),
                    ("shard", shard.clone()),
                    ("user", user.clone()),
                    ("state", state.to_owned()),
                ];
                metrics::gauge!(telemetry::SERVER_CONNECTIONS, &labels).set(count as f64);
            }
            let labels = [("database", name.clone()), ("shard", shard), ("user", user)];
            metrics::gauge!(telemetry::POOL_WAITING, &labels).set(counts.waiting as f64);
        }
    }
}
