//! The floor: a TCP forwarder that copies bytes both ways and reads none of them.

use tokio::io::copy_bidirectional;
use tokio::net::TcpListener;
use tokio::net::TcpStream;

/// Listens on a loopback port and forwards each connection to another, for ever.
pub fn run(listen: u16, target: u16) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", listen)).await.unwrap();
        loop {
            let Ok((mut client, _)) = listener.accept().await else { continue };
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", target)).await?;
                client.set_nodelay(true)?;
                server.set_nodelay(true)?;
                copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
}
