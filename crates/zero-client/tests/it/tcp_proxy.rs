//! A proxy whose connections can be dropped: forwards bytes to a gateway, always on the same port.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) struct TcpProxy {
    pub(crate) address: SocketAddr,
    to: SocketAddr,
    accepting: Mutex<Option<JoinHandle<()>>>,
    passing: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl TcpProxy {
    pub(crate) async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = Self { address, to, accepting: Mutex::default(), passing: Arc::default() };
        proxy.accept(listener);
        proxy
    }

    fn accept(&self, listener: TcpListener) {
        let (to, passing) = (self.to, Arc::clone(&self.passing));
        let accepting = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let Ok(mut far) = TcpStream::connect(to).await else { continue };
                let pass = tokio::spawn(async move {
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                });
                passing.lock().unwrap().push(pass);
            }
        });
        *self.accepting.lock().unwrap() = Some(accepting);
    }

    /// Drops every connection; new ones are accepted.
    pub(crate) fn drop_connections(&self) {
        self.passing.lock().unwrap().drain(..).for_each(|pass| pass.abort());
    }

    /// Drops every connection and accepts no new ones.
    pub(crate) async fn stop(&self) {
        let accepting = self.accepting.lock().unwrap().take();
        if let Some(accepting) = accepting {
            accepting.abort();
            let _ = accepting.await;
        }
        self.drop_connections();
    }

    /// Accepts connections again, on the same port.
    pub(crate) async fn restart(&self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.accept(listener);
    }

    /// Number of connections since the last drop.
    pub(crate) fn connection_count(&self) -> usize {
        self.passing.lock().unwrap().len()
    }
}
