//! Finds model servers on this machine, at the ports that they use by default.
//!
//! Only loopback is asked, only for the list of models, and only when the user wants to see it.

use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use tokio::time::timeout;
use url::Url;
use zero_core::ExtraRootCertificates;
use zero_runtime::web::{BodyLimits, client_builder, read};

/// Time limit for one server. It is on this machine, so it answers at once or is not there.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// Largest list of models, in bytes.
const LIST_BYTES_MAX: usize = 1024 * 1024;
/// Most models that are listed of one server.
const MODELS_MAX: usize = 200;
/// Longest name of a model, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// A program that serves models on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalServerKind {
    /// Ollama.
    Ollama,
    /// The server of llama.cpp.
    LlamaCpp,
    /// LM Studio.
    LmStudio,
    /// vLLM.
    Vllm,
}

impl LocalServerKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ollama, Self::LlamaCpp, Self::LmStudio, Self::Vllm];

    /// Its name on the command line and in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ollama => "ollama",
            Self::LlamaCpp => "llamacpp",
            Self::LmStudio => "lmstudio",
            Self::Vllm => "vllm",
        }
    }

    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Ollama => "Ollama",
            Self::LlamaCpp => "llama.cpp",
            Self::LmStudio => "LM Studio",
            Self::Vllm => "vLLM",
        }
    }

    /// The base URL at which it serves by default.
    pub fn base_url(self) -> &'static str {
        match self {
            Self::Ollama => "http://127.0.0.1:11434/v1",
            Self::LlamaCpp => "http://127.0.0.1:8080/v1",
            Self::LmStudio => "http://127.0.0.1:1234/v1",
            Self::Vllm => "http://127.0.0.1:8000/v1",
        }
    }
}

/// A model server that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalModelServer {
    /// The program, judged by its port.
    pub kind: LocalServerKind,
    /// Its base URL.
    pub base_url: String,
    /// Its models, in its own order.
    pub models: Vec<String>,
}

/// The servers that answer at their default ports.
pub async fn find_local_servers() -> Vec<LocalModelServer> {
    let places = LocalServerKind::ALL.map(|kind| (kind, kind.base_url().to_owned()));
    find_servers_at(places.into()).await
}

/// The servers that answer at these base URLs.
pub async fn find_servers_at(places: Vec<(LocalServerKind, String)>) -> Vec<LocalModelServer> {
    let asked = places.into_iter().map(async |(kind, base_url)| {
        let models = list_models(&base_url).await?;
        Some(LocalModelServer { kind, base_url, models })
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// The models of a server with this base URL; `None` if none answers there as a model server does.
pub async fn list_models(base_url: &str) -> Option<Vec<String>> {
    let url = Url::parse(&format!("{}/models", base_url.trim_end_matches('/'))).ok()?;
    timeout(ANSWER_TIME, request_list(url)).await.ok().flatten()
}

async fn request_list(url: Url) -> Option<Vec<String>> {
    let client = client_builder(&ExtraRootCertificates::default()).ok()?.build().ok()?;
    let response = client.get(url).send().await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let limits = BodyLimits { bytes_max: LIST_BYTES_MAX, idle: ANSWER_TIME, whole: ANSWER_TIME };
    let body = read(response, limits).await.ok()?;
    let list: ModelList = serde_json::from_slice(&body).ok()?;
    let names = list.data.into_iter().map(|model| model.id).filter(|id| is_model_name(id));
    Some(names.take(MODELS_MAX).collect())
}

fn is_model_name(id: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The answer to `GET /models`.
#[derive(Deserialize)]
struct ModelList {
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// A server with one answer, for as many requests as come.
    fn serve(answer: &'static str) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        format!("http://127.0.0.1:{port}/v1")
    }

    #[tokio::test]
    async fn only_model_servers_are_found() {
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
        let good = r#"{"object": "list", "data": [{"id": "qwen3:8b"}, {"id": "a b"}, {"id": ""}]}"#;
        let good = serve(Box::leak(format!("{head}{good}").into_boxed_str()));
        let web_page = serve(Box::leak(format!("{head}<h1>My app</h1>").into_boxed_str()));
        let other_json = serve(Box::leak(format!("{head}{{\"data\": 3}}").into_boxed_str()));
        let missing = serve("HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n{\"data\": []}");
        let moved = serve(
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nConnection: close\r\n\r\n",
        );
        let kind = LocalServerKind::Vllm;
        let places =
            [&good, &web_page, &other_json, &missing, &moved].map(|url| (kind, url.clone()));
        let found = find_servers_at(places.into()).await;
        let models = vec!["qwen3:8b".to_owned()];
        assert_eq!(found, [LocalModelServer { kind, base_url: good, models }]);
    }
}
