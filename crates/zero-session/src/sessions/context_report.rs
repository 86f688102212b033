//! Explains what fills the context window of a session: `/context` and its gateway method.

use std::sync::Arc;

use zero_core::{ContextBreakdown, ContextPartKind, SessionId, TokenCountSource};
use zero_runtime::skills::SKILLS_SOURCE;
use zero_runtime::tool_backend::{FolderAccess, ToolBackendError, ToolCatalog};

use crate::agent::AgentProfile;
use crate::direct_model::{ATTACH_MODEL_HINT, is_direct};
use crate::event::EventKind;
use crate::local_backend::memory_notes::NOTES_SOURCE;
use crate::model::ModelClient;
use crate::sessions::run_driver::{load_catalog, restrict_catalog};
use crate::sessions::session_state::SessionState;
use crate::sessions::{SessionError, SessionManagerInner, session_worker};
use crate::store::{LedgerReadLimit, SessionRecord, Store};
use crate::system_prompt::{quote_instruction, system_prompt};
use crate::turn::context_meter::compaction_limit;
use crate::turn::context_parts::ContextParts;
use crate::turn::transcript_repair;

/// How much of the ledger is read at once.
const PAGE: LedgerReadLimit = LedgerReadLimit { entries: 500, bytes: 2_000_000 };
/// Maximum number of pages searched for the last count of the provider. An older one does not
/// explain the current window.
const PAGES_MAX: usize = 10;

impl SessionManagerInner {
    /// What the next request of a session would consist of. If its tools are away, the messages
    /// alone are counted, and the report says why.
    pub(super) async fn context_breakdown(
        self: &Arc<Self>,
        record: &SessionRecord,
        folder_access: &FolderAccess,
    ) -> Result<ContextBreakdown, SessionError> {
        let agent = self.find_agent(&record.agent)?;
        let model = self.model_for(record, agent)?;
        if is_direct(&*model) {
            return Err(SessionError::Invalid(format!(
                "this session has no model, so nothing fills a window; {ATTACH_MODEL_HINT}"
            )));
        }
        let state = self.session_state(&record.id);
        let catalog = self.request_catalog(&state, record, agent, &*model, folder_access).await;
        self.release_backend(&state).await;
        let mut parts = ContextParts::default();
        let missing = match catalog {
            Ok(catalog) => {
                add_catalog(&mut parts, agent, catalog);
                None
            }
            Err(error) => Some(error.to_string()),
        };
        let store = &self.config.store;
        let transcript = store.transcript(&record.id, None).await?.messages;
        parts.add_messages(&transcript_repair::repair(transcript));
        let parts = parts.into_parts();
        let estimated = parts.iter().map(|part| part.tokens).fold(0, u64::saturating_add);
        let counted = record.context_tokens.filter(|tokens| *tokens > 0);
        let counted_by = match counted {
            Some(_) => count_source(&**store, &record.id).await?,
            None => TokenCountSource::Estimate,
        };
        // An estimate that was recorded with a run may lack what changed since.
        let used_tokens = match (counted, counted_by) {
            (Some(tokens), TokenCountSource::Provider) => tokens,
            _ => estimated,
        };
        let window = model.info().window().filter(|window| *window > 0);
        let percent = self.config.limits.compact_at_percent;
        Ok(ContextBreakdown {
            model: model.info().name.clone(),
            window_tokens: window,
            used_tokens,
            counted_by,
            free_tokens: window.map(|window| window.saturating_sub(used_tokens)),
            compact_at_tokens: window.map(|window| compaction_limit(window, percent)),
            parts,
            missing,
        })
    }

    /// The tools and instructions that a run would get.
    async fn request_catalog(
        &self,
        state: &SessionState,
        record: &SessionRecord,
        agent: &AgentProfile,
        model: &dyn ModelClient,
        folder_access: &FolderAccess,
    ) -> Result<ToolCatalog, ToolBackendError> {
        let now = self.backend_for(state, agent, folder_access).await?;
        let dialect = session_worker::choose_dialect(agent, Some(model.info()));
        let mut catalog = load_catalog(&now, dialect).await?;
        let depth = u32::from(record.parent.is_some());
        let may_delegate = depth < self.config.limits.subagents.depth_max;
        let agents = (may_delegate && now.backend.takes_subagents()).then_some(&self.config.agents);
        restrict_catalog(agent, agent.tools.as_slice(), &mut catalog, agents);
        Ok(catalog)
    }
}

fn add_catalog(parts: &mut ContextParts, agent: &AgentProfile, mut catalog: ToolCatalog) {
    let instructions = std::mem::take(&mut catalog.instructions);
    let system = system_prompt(agent, &catalog, jiff::Zoned::now().date());
    parts.add_text(ContextPartKind::SystemPrompt, None, &system);
    for file in &instructions {
        let (kind, name) = match file.path.as_str() {
            NOTES_SOURCE => (ContextPartKind::Notes, None),
            SKILLS_SOURCE => (ContextPartKind::Skills, None),
            path => (ContextPartKind::Instructions, Some(path)),
        };
        parts.add_text(kind, name, &quote_instruction(file));
    }
    parts.add_tools(&catalog.tools);
}

/// Whether the recorded number of tokens is the count of the provider.
async fn count_source(
    store: &dyn Store,
    session: &SessionId,
) -> Result<TokenCountSource, SessionError> {
    let mut before = u64::MAX;
    for _ in 0..PAGES_MAX {
        let page = store.last_events(session, before, PAGE).await?;
        let Some(first) = page.first() else { break };
        before = first.seq;
        for event in page.into_iter().rev() {
            match event.kind {
                EventKind::UsageReported { run_usage, .. } if run_usage.input_tokens > 0 => {
                    return Ok(TokenCountSource::Provider);
                }
                EventKind::UsageReported { .. } | EventKind::Compacted { .. } => {
                    return Ok(TokenCountSource::Estimate);
                }
                _ => {}
            }
        }
    }
    Ok(TokenCountSource::Estimate)
}
