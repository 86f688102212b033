//! Web server on loopback that serves a few fixed pages.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Time limit of one request.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// Concurrent connections; more wait.
const CONNECTIONS_MAX: usize = 16;

/// A page of the server.
#[derive(Clone, Debug)]
pub(crate) struct TrialPage {
    /// Path without the query.
    pub(crate) path: String,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

/// The running server; it stops when this is dropped.
pub(super) struct LocalWebServer {
    address: String,
    serving: JoinHandle<()>,
}

impl LocalWebServer {
    pub(super) async fn start(pages: Vec<TrialPage>) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?.to_string();
        let serving = tokio::spawn(serve_pages(listener, pages.into()));
        Ok(Self { address, serving })
    }

    /// Address of the server, such as `127.0.0.1:8080`.
    pub(super) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for LocalWebServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve_pages(listener: TcpListener, pages: Arc<[TrialPage]>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.len() >= CONNECTIONS_MAX {
            connections.join_next().await;
        }
        let pages = Arc::clone(&pages);
        connections.spawn(async move {
            // Incomplete or late requests get no answer.
            let _ = tokio::time::timeout(REQUEST_TIME_MAX, answer_request(stream, &pages)).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer_request(mut stream: TcpStream, pages: &[TrialPage]) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let (status, content_type, body) = match pages.iter().find(|page| page.path == path) {
        Some(page) => ("200 OK", page.content_type, page.body.as_str()),
        None => ("404 Not Found", "text/plain", "there is no such page\n"),
    };
    let length = body.len();
    let mut response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if method != "HEAD" {
        response.push_str(body);
    }
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn page_is_found_by_path() {
        let body = "hello\n".to_owned();
        let web = LocalWebServer::start(vec![TrialPage {
            path: "/a".to_owned(),
            content_type: "text/plain",
            body,
        }]);
        let web = web.await.unwrap();
        for (request, starts, ends) in [
            ("GET /a?q=1 HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\nhello\n"),
            ("HEAD /a HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n", "Connection: close\r\n\r\n"),
            ("GET /b HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "there is no such page\n"),
        ] {
            let mut stream = TcpStream::connect(web.address()).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).await.unwrap();
            assert!(
                response.starts_with(starts) && response.ends_with(ends),
                "{request:?}: {response:?}"
            );
        }
    }
}
