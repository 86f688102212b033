//! The editor's buffers, read and written through the client.
//!
//! Only files of the session's folders are asked for: elsewhere a client has nothing, or should not.
//! Whatever goes wrong, the file on disk is used instead.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agent_client_protocol::v1::schema::{ReadTextFileRequest, SessionId, WriteTextFileRequest};
use zero_runtime::Editor;
use zero_runtime::tool::BoxFuture;

use crate::caps::Caps;
use crate::to_client::ToClient;

/// How long an editor may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The buffers of a client.
pub(crate) struct Buffers {
    session: SessionId,
    to_client: ToClient,
    caps: Caps,
    folders: Vec<PathBuf>,
}

impl Buffers {
    /// The buffers of a client that shares them.
    pub(crate) fn of(
        session: SessionId,
        to_client: ToClient,
        caps: Caps,
        folders: Vec<PathBuf>,
    ) -> Option<Self> {
        (caps.reads_files || caps.writes_files).then_some(Self {
            session,
            to_client,
            caps,
            folders,
        })
    }

    fn has(&self, path: &Path) -> bool {
        self.folders.iter().any(|folder| path.starts_with(folder))
    }
}

impl Editor for Buffers {
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            if !self.caps.reads_files || !self.has(path) {
                return None;
            }
            let request = ReadTextFileRequest::new(self.session.clone(), path.to_owned());
            let read = self.to_client.ask(request, ANSWER_MAX).await;
            let read = read.inspect_err(|error| {
                tracing::debug!(code = error.code.value(), "the client has no such buffer")
            });
            read.ok().map(|read| read.content)
        })
    }

    fn write<'a>(&'a self, path: &'a Path, text: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            if !self.caps.writes_files || !self.has(path) {
                return false;
            }
            let (path, text) = (path.to_owned(), text.to_owned());
            let request = WriteTextFileRequest::new(self.session.clone(), path, text);
            let written = self.to_client.ask(request, ANSWER_MAX).await;
            written
                .inspect_err(|error| {
                    tracing::debug!(code = error.code.value(), "the client did not write")
                })
                .is_ok()
        })
    }
}
