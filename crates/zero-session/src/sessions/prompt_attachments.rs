//! Attaches the files and folders that a prompt mentions as `@path`.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zero_core::ToolKind;
use zero_runtime::DialectName;
use zero_runtime::prompt_mentions::{MentionContents, MentionTarget, find_mentions, mention_call};
use zero_runtime::tool_backend::SilentObserver;

use crate::event::{EventKind, PromptAttachment};
use crate::sessions::SessionError;
use crate::sessions::call_updates::CallUpdateBuffer;
use crate::sessions::ledger_outbox::LedgerOutbox;
use crate::sessions::session_state::{ActiveBackend, BackendLocation};

/// Reads what a prompt mentions with the tools of the session. Returns the prompt with what was read,
/// and the images. Each read is in the ledger like a call of the model. A client that hosts the
/// tools attaches what its user mentions itself.
pub(super) async fn attach_mentions(
    now: &ActiveBackend,
    mut text: String,
    outbox: &mut LedgerOutbox,
    call_updates: &CallUpdateBuffer,
) -> Result<(String, Vec<PromptAttachment>), SessionError> {
    let mentions = match now.at {
        BackendLocation::Local => find_mentions(&text),
        BackendLocation::Client => Vec::new(),
    };
    // Cancels the call if the run is stopped meanwhile.
    let cancel = CancellationToken::new();
    let _cancel = cancel.clone().drop_guard();
    let mut contents = MentionContents::default();
    for path in mentions {
        let Some(target) = now.backend.inspect_mention(&path).await else {
            // The prompt says that there is no such file.
            let _ = contents.note_missing(&path);
            continue;
        };
        let call = mention_call(&path, target);
        let id = call.id.to_string();
        outbox.push(EventKind::ToolStarted {
            call: id.clone(),
            name: call.tool.clone(),
            title: describe_read(&path, target),
            kind: ToolKind::Read,
            input: call.input.clone(),
            locations: Vec::new(),
            waits: false,
            // No message of the transcript has it.
            transcript_id: Some(id.clone()),
        });
        // A call is on record before it begins.
        outbox.flush().await?;
        let (dialect, watch) = (DialectName::Canonical, Arc::new(SilentObserver));
        let mut reading = now.backend.call(call, dialect, cancel.clone(), watch);
        let outcome = loop {
            tokio::select! {
                outcome = &mut reading => break outcome,
                // A question about the call waits until all updates are recorded. There are none.
                () = call_updates.wait_for_update() => drop(call_updates.take()),
            }
        };
        // The prompt says what was not attached, and the ledger has the error.
        let _ = contents.add(&path, &outcome);
        outbox.push(EventKind::ToolEnded { call: id, status: outcome.status(), outcome });
    }
    contents.append_to(&mut text);
    let to_attachment = |(mime, data, path)| PromptAttachment { mime, data, name: Some(path) };
    Ok((text, contents.images.into_iter().map(to_attachment).collect()))
}

fn describe_read(path: &str, target: MentionTarget) -> String {
    match target {
        MentionTarget::File => format!("Read `{path}`"),
        MentionTarget::Folder => format!("List `{path}`"),
    }
}
