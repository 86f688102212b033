//! The editor's buffers, read and written through the client.
//!
//! Only files of the session's folders are asked for: elsewhere a client has nothing, or should not.
//! Tools name files by where they really are; a client is asked by the name it gave the folder itself,
//! which may be a link, or it would not know its own buffers. Such a link is looked at before and
//! after: one that leads elsewhere by now would lead the client there, too. Whatever goes wrong, the
//! file on disk is used instead.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::schema::{ReadTextFileRequest, SessionId, WriteTextFileRequest};
use zero_runtime::Editor;
use zero_runtime::tool::BoxFuture;

use crate::bench::Workbench;
use crate::caps::Caps;
use crate::to_client::ToClient;

/// How long an editor may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The buffers of a client.
pub(crate) struct Buffers {
    session: SessionId,
    to_client: ToClient,
    caps: Caps,
    bench: Arc<dyn Workbench>,
    folders: Vec<Folder>,
}

/// A folder of the session.
#[derive(Debug)]
struct Folder {
    /// As the client names it.
    named: PathBuf,
    /// As tools name it.
    real: PathBuf,
}

impl Buffers {
    /// The buffers of a client that shares them.
    pub(crate) async fn of(
        session: SessionId,
        to_client: ToClient,
        caps: Caps,
        bench: Arc<dyn Workbench>,
        folders: Vec<PathBuf>,
    ) -> Option<Self> {
        if !caps.reads_files && !caps.writes_files {
            return None;
        }
        let mut known = Vec::new();
        for named in folders {
            let real = bench.leads_to(&named).await;
            known.extend(real.map(|real| Folder { named, real }));
        }
        Some(Self { session, to_client, caps, bench, folders: known })
    }

    /// What the client calls a file, and the folder it is in; `None` where it is not asked about it.
    async fn named(&self, path: &Path) -> Option<(&Folder, PathBuf)> {
        let (folder, named) = named(&self.folders, path)?;
        self.leads_there(folder).await.then_some((folder, named))
    }

    /// Whether a folder is still where it was. One without links on the way is looked at by whoever
    /// asks.
    async fn leads_there(&self, folder: &Folder) -> bool {
        folder.named == folder.real
            || self.bench.leads_to(&folder.named).await.is_some_and(|real| real == folder.real)
    }
}

/// The folder that a file is in, the innermost of them, and what the client calls the file.
fn named<'a>(folders: &'a [Folder], path: &Path) -> Option<(&'a Folder, PathBuf)> {
    let of = folders.iter().filter(|folder| path.starts_with(&folder.real));
    // Of two names for one folder, the first is that of the project.
    let folder = of.rev().max_by_key(|folder| folder.real.components().count())?;
    let inner = path.strip_prefix(&folder.real).ok()?;
    Some((folder, folder.named.join(inner)))
}

impl Editor for Buffers {
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            if !self.caps.reads_files {
                return None;
            }
            let (folder, named) = self.named(path).await?;
            let request = ReadTextFileRequest::new(self.session.clone(), named);
            let read = self.to_client.ask(request, ANSWER_MAX).await;
            let read = read.inspect_err(|error| {
                tracing::debug!(code = error.code.value(), "the client has no such buffer")
            });
            let text = read.ok()?.content;
            self.leads_there(folder).await.then_some(text)
        })
    }

    fn write<'a>(&'a self, path: &'a Path, text: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            if !self.caps.writes_files {
                return false;
            }
            let Some((folder, named)) = self.named(path).await else { return false };
            let request = WriteTextFileRequest::new(self.session.clone(), named, text.to_owned());
            let written = self.to_client.ask(request, ANSWER_MAX).await;
            let written = written.inspect_err(|error| {
                tracing::debug!(code = error.code.value(), "the client did not write")
            });
            written.is_ok() && self.leads_there(folder).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Option<&str>) {
        let folder =
            |(named, real): (&str, &str)| Folder { named: named.into(), real: real.into() };
        let folders =
            [("/link", "/real"), ("/plain", "/plain"), ("/inner", "/real/sub"), ("/too", "/real")];
        let folders = folders.map(folder);
        let found = named(&folders, Path::new(path)).map(|(_, named)| named);
        assert_eq!(found, expected.map(PathBuf::from), "{path}");
    }

    #[test]
    fn a_file_is_called_as_the_client_calls_it() {
        check("/real/a.txt", Some("/link/a.txt"));
        check("/real/deep/a.txt", Some("/link/deep/a.txt"));
        check("/plain/a.txt", Some("/plain/a.txt"));
        check("/real/sub/a.txt", Some("/inner/a.txt"));
        check("/realer/a.txt", None);
        check("/link/a.txt", None);
        check("/etc/passwd", None);
    }
}
