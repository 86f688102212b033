//! [`CallbackListener`], the page on a port of this machine to which the browser is redirected.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::Url;
use zero_runtime::web::shorten_untrusted;

use super::LoginError;

/// Path of the page.
const PATH: &str = "/callback";
/// Maximum size of a request, in bytes.
const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// Time limit for a request.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Maximum number of concurrent requests; browsers open connections that they do not use.
const REQUESTS_MAX: usize = 8;

/// Listens for the browser's redirect.
pub(super) struct CallbackListener {
    listener: TcpListener,
    port: u16,
}

/// The parameters of the browser's redirect.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct AuthorizationResponse {
    pub(super) code: String,
    pub(super) issuer: Option<String>,
}

impl CallbackListener {
    /// Binds the port from settings, or that of the last login if it is free, or any.
    pub(super) async fn bind(named: Option<u16>, earlier: Option<u16>) -> Result<Self, LoginError> {
        let on_port = |port: u16| async move {
            let failed = |why: std::io::Error| LoginError::Port { port, why: why.to_string() };
            let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(failed)?;
            let port = listener.local_addr().map_err(failed)?.port();
            Ok(Self { listener, port })
        };
        match (named, earlier) {
            (Some(port), _) => on_port(port).await,
            (None, Some(port)) => match on_port(port).await {
                Ok(callback) => Ok(callback),
                Err(_) => on_port(0).await,
            },
            (None, None) => on_port(0).await,
        }
    }

    pub(super) fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the response to the login with this state. All other requests are refused.
    pub(super) async fn wait(&self, state: &str) -> Result<AuthorizationResponse, LoginError> {
        let mut requests = JoinSet::new();
        loop {
            tokio::select! {
                Ok((stream, _)) = self.listener.accept(), if requests.len() < REQUESTS_MAX => {
                    let (base, state) = (self.redirect_uri(), state.to_owned());
                    requests.spawn(async move {
                        timeout(REQUEST_TIME, serve_request(stream, &base, &state)).await.ok().flatten()
                    });
                }
                Some(served) = requests.join_next(), if !requests.is_empty() => {
                    if let Ok(Some(answer)) = served {
                        return answer;
                    }
                }
                // Accepting fails for now, for example because there are no file descriptors left.
                else => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

impl AuthorizationResponse {
    /// Parses the URL that the browser was redirected to.
    pub(super) fn parse(url: &str, state: &str) -> Result<Self, LoginError> {
        if url.len() > REQUEST_BYTES_MAX {
            return Err(LoginError::Pasted("it is too long"));
        }
        let url = Url::parse(url.trim()).map_err(|_| LoginError::Pasted("it is not a URL"))?;
        let single = |name: &str| -> Result<Option<String>, LoginError> {
            let mut values = url.query_pairs().filter(|(key, _)| key == name);
            match (values.next(), values.next()) {
                (_, Some(_)) => Err(LoginError::Pasted("it has a parameter twice")),
                (value, None) => Ok(value.map(|(_, value)| value.into_owned())),
            }
        };
        let given = single("state")?.ok_or(LoginError::Pasted("it has no `state`"))?;
        if given != state {
            return Err(LoginError::StateMismatch);
        }
        if let Some(error) = single("error")? {
            let described = single("error_description")?.unwrap_or_default();
            let text = shorten_untrusted(format!("{error} {described}").as_bytes());
            return Err(LoginError::Refused(text.unwrap_or_default()));
        }
        let code = single("code")?.ok_or(LoginError::Pasted("it has no `code`"))?;
        Ok(Self { code, issuer: single("iss")? })
    }
}

/// Answers one request, and returns the response if it is the expected one.
async fn serve_request(
    mut stream: TcpStream,
    base: &str,
    state: &str,
) -> Option<Result<AuthorizationResponse, LoginError>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let room = REQUEST_BYTES_MAX.checked_sub(head.len()).filter(|room| *room > 0)?;
        let mut limited = (&mut stream).take(room as u64);
        if limited.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let answer = read_head(&head, base, state);
    let (status, text) = match &answer {
        None => ("404 Not Found", "There is nothing here."),
        Some(Ok(_)) => ("200 OK", "zero has received the response. Return to the terminal."),
        Some(Err(_)) => ("400 Bad Request", "The login failed. Return to the terminal."),
    };
    let page = format!(
        "<!doctype html><html><head><meta charset=\"utf-8\"><title>zero</title></head>\
         <body><p>{text}</p></body></html>"
    );
    let reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Content-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    // The response is valid even if the browser does not read this page.
    let _ = stream.write_all(reply.as_bytes()).await;
    let _ = stream.shutdown().await;
    match answer? {
        // Any program on this machine can send a request with an invented state.
        Err(LoginError::StateMismatch | LoginError::Pasted(_)) => None,
        answer => Some(answer),
    }
}

fn read_head(
    head: &[u8],
    base: &str,
    state: &str,
) -> Option<Result<AuthorizationResponse, LoginError>> {
    let head = std::str::from_utf8(head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let query = target.strip_prefix(PATH)?.strip_prefix('?')?;
    (method == "GET").then(|| AuthorizationResponse::parse(&format!("{base}?{query}"), state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: &str) {
        let seen = match AuthorizationResponse::parse(url, "s1") {
            Ok(answer) => format!("{} {}", answer.code, answer.issuer.unwrap_or_default()),
            Err(error) => error.to_string(),
        };
        assert!(seen.contains(expected), "{url}: {seen}");
    }

    #[test]
    fn callback_accepts_only_matching_state() {
        let base = "http://127.0.0.1:1/callback";
        check(&format!("{base}?code=c&state=s1"), "c ");
        check(
            &format!(" {base}?code=c&state=s1&iss=https%3A%2F%2Fas.example\n"),
            "https://as.example",
        );
        check(&format!("{base}?code=c&state=s2"), "another login");
        check(&format!("{base}?code=c"), "no `state`");
        check(&format!("{base}?state=s1"), "no `code`");
        check(&format!("{base}?code=a&code=b&state=s1"), "twice");
        check(&format!("{base}?state=s1&state=s1&code=b"), "twice");
        check(&format!("{base}?error=access_denied&state=s1"), "refused: access_denied");
        check(&format!("{base}?error=access_denied&state=s2"), "another login");
        check("c", "not a URL");
    }
}
