//! The editor's buffers, read and written through the client.
//!
//! The client is asked only for files in the session's folders. Tools use resolved paths. The
//! client is asked by the folder name that it gave itself, which may be a symlink, because it knows
//! its buffers by that name. The symlink is resolved before and after the request: if it changed,
//! the client would follow it to another folder. On any failure zero uses the file on disk; but if
//! the client refuses a write, zero does not write to disk either.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::schema::{ReadTextFileRequest, SessionId, WriteTextFileRequest};
use agent_client_protocol::{Error, ErrorCode};
use serde_json::Value;
use zero_runtime::tool::BoxFuture;
use zero_runtime::{Editor, EditorWriteOutcome};

use crate::client_features::ClientFeatures;
use crate::client_handle::ClientHandle;
use crate::text_sanitizer::visible_line;
use crate::tool_host_factory::ToolHostFactory;

/// Longest wait for the editor's answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Longest refusal reason that is shown, in characters.
const WHY_CHARS_MAX: usize = 300;

/// The text buffers of a client.
pub(crate) struct ClientBuffers {
    session: SessionId,
    to_client: ClientHandle,
    caps: ClientFeatures,
    tool_hosts: Arc<dyn ToolHostFactory>,
    folders: Vec<SessionFolder>,
}

/// A folder of the session.
#[derive(Debug)]
struct SessionFolder {
    /// Its path as the client names it.
    named: PathBuf,
    /// Its resolved path, as tools name it.
    real: PathBuf,
}

impl ClientBuffers {
    /// The buffers of a client; `None` if the client does not share them.
    pub(crate) async fn for_client(
        session: SessionId,
        to_client: ClientHandle,
        caps: ClientFeatures,
        tool_hosts: Arc<dyn ToolHostFactory>,
        folders: Vec<PathBuf>,
    ) -> Option<Self> {
        if !caps.reads_files && !caps.writes_files {
            return None;
        }
        let mut known = Vec::new();
        for named in folders {
            let real = tool_hosts.resolve_folder(&named).await;
            known.extend(real.map(|real| SessionFolder { named, real }));
        }
        Some(Self { session, to_client, caps, tool_hosts, folders: known })
    }

    /// The client's name for a file, and the folder that contains it; `None` if the client must not
    /// be asked about the file.
    async fn client_path(&self, path: &Path) -> Option<(&SessionFolder, PathBuf)> {
        let (folder, named) = find_client_path(&self.folders, path)?;
        self.is_unmoved(folder).await.then_some((folder, named))
    }

    /// Whether a folder still resolves to the same path. A path without symlinks needs no check
    /// here: the caller resolves it.
    async fn is_unmoved(&self, folder: &SessionFolder) -> bool {
        folder.named == folder.real
            || self
                .tool_hosts
                .resolve_folder(&folder.named)
                .await
                .is_some_and(|real| real == folder.real)
    }
}

/// The innermost folder that contains a file, and the client's name for the file.
fn find_client_path<'a>(
    folders: &'a [SessionFolder],
    path: &Path,
) -> Option<(&'a SessionFolder, PathBuf)> {
    let of = folders.iter().filter(|folder| path.starts_with(&folder.real));
    // If two names lead to one folder, the first is the project's.
    let folder = of.rev().max_by_key(|folder| folder.real.components().count())?;
    let inner = path.strip_prefix(&folder.real).ok()?;
    Some((folder, folder.named.join(inner)))
}

impl Editor for ClientBuffers {
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            if !self.caps.reads_files {
                return None;
            }
            let (folder, named) = self.client_path(path).await?;
            let request = ReadTextFileRequest::new(self.session.clone(), named);
            let read = self.to_client.request(request, ANSWER_MAX).await;
            let read = read.inspect_err(|error| {
                tracing::debug!(code = error.code.value(), "the client has no such buffer")
            });
            let text = read.ok()?.content;
            self.is_unmoved(folder).await.then_some(text)
        })
    }

    fn write<'a>(&'a self, path: &'a Path, text: &'a str) -> BoxFuture<'a, EditorWriteOutcome> {
        Box::pin(async move {
            if !self.caps.writes_files {
                return EditorWriteOutcome::NotHandled;
            }
            let Some((folder, named)) = self.client_path(path).await else {
                return EditorWriteOutcome::NotHandled;
            };
            let request =
                WriteTextFileRequest::new(self.session.clone(), named.clone(), text.to_owned());
            match self.to_client.request(request, ANSWER_MAX).await {
                Ok(_) if self.is_unmoved(folder).await => EditorWriteOutcome::Written,
                Ok(_) => EditorWriteOutcome::NotHandled,
                Err(error) => {
                    tracing::debug!(code = error.code.value(), "the client did not write");
                    refusal_reason(&error, &named)
                        .map_or(EditorWriteOutcome::NotHandled, EditorWriteOutcome::Refused)
                }
            }
        })
    }
}

/// Why the client refuses the write, if its error says so; `None` if the write only failed. The
/// protocol has no code for a refusal: clients answer with an internal error and put the reason
/// into the message or the data. The file name is removed first, since its words say nothing about
/// a refusal.
fn refusal_reason(error: &Error, path: &Path) -> Option<String> {
    const REFUSAL_WORDS: [&str; 13] = [
        "denied",
        "refused",
        "rejected",
        "declined",
        "forbidden",
        "disallowed",
        "not allowed",
        "not permitted",
        "not authorized",
        "unauthorized",
        "cancel",
        "by user",
        "by the user",
    ];
    if [ErrorCode::METHOD_NOT_FOUND, ErrorCode::RESOURCE_NOT_FOUND].contains(&error.code) {
        return None;
    }
    let beside = match &error.data {
        Some(Value::String(words)) => Some(words.as_str()),
        Some(data) => {
            ["details", "message", "reason"].iter().find_map(|name| data.get(name)?.as_str())
        }
        None => None,
    };
    let path = path.to_string_lossy().to_lowercase();
    let file = path.rsplit('/').next().unwrap_or_default();
    let says_no = |words: &str| {
        let mut words = words.to_lowercase();
        for name in [path.as_str(), file].into_iter().filter(|name| !name.is_empty()) {
            // Keep a separator, so that the text on both sides does not form new words.
            words = words.replace(name, "/");
        }
        REFUSAL_WORDS.iter().any(|no| words.contains(no))
    };
    let words = beside.into_iter().chain([error.message.as_str()]).find(|words| says_no(words))?;
    Some(visible_line(words, WHY_CHARS_MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Option<&str>) {
        let folder =
            |(named, real): (&str, &str)| SessionFolder { named: named.into(), real: real.into() };
        let folders =
            [("/link", "/real"), ("/plain", "/plain"), ("/inner", "/real/sub"), ("/too", "/real")];
        let folders = folders.map(folder);
        let found = find_client_path(&folders, Path::new(path)).map(|(_, named)| named);
        assert_eq!(found, expected.map(PathBuf::from), "{path}");
    }

    #[track_caller]
    fn check_refusal(code: i32, message: &str, data: Value, expected: Option<&str>) {
        let error = Error::new(code, message).data(data);
        let path = Path::new("/work/Rejected/access-denied.md");
        assert_eq!(refusal_reason(&error, path).as_deref(), expected, "{error:?}");
    }

    #[test]
    fn refusal_is_distinguished_from_inability_to_write() {
        let internal = "Internal error";
        let denied = "Permission denied for fs/write_text_file";
        check_refusal(-32603, internal, json!({"details": denied}), Some(denied));
        check_refusal(-32603, internal, json!(denied), Some(denied));
        check_refusal(
            -32000,
            "Write was rejected by user",
            json!({}),
            Some("Write was rejected by user"),
        );
        check_refusal(-32603, "Not allowed\nhere", json!({"path": "/a"}), Some("Not allowed here"));
        check_refusal(7, "Cancelled by the user", json!(null), Some("Cancelled by the user"));
        check_refusal(-32603, "Write canceled", json!(null), Some("Write canceled"));
        check_refusal(-32603, internal, json!("Not authorized"), Some("Not authorized"));
        check_refusal(-32603, "Unauthorized", json!(null), Some("Unauthorized"));
        let named = "Writing /work/Rejected/access-denied.md was denied";
        check_refusal(-32603, internal, json!({"details": named}), Some(named));
        for cannot in [
            internal,
            "EISDIR: /work/Rejected/access-denied.md",
            "no buffer for access-denied.md",
            "Path is outside allowed cwd subtree: /a",
            "no such worktree",
            "ENOSPC: no space left on device",
        ] {
            check_refusal(-32603, internal, json!({"details": cannot}), None);
            check_refusal(-32603, cannot, json!(null), None);
        }
        check_refusal(-32601, "fs/write_text_file is not allowed", json!(null), None);
        check_refusal(-32002, "denied", json!(null), None);
    }

    #[test]
    fn path_is_translated_to_client_name() {
        check("/real/a.txt", Some("/link/a.txt"));
        check("/real/deep/a.txt", Some("/link/deep/a.txt"));
        check("/plain/a.txt", Some("/plain/a.txt"));
        check("/real/sub/a.txt", Some("/inner/a.txt"));
        check("/realer/a.txt", None);
        check("/link/a.txt", None);
        check("/etc/passwd", None);
    }
}
