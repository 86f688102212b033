//! The queries a language server can be asked ([`LspClient`]), each with a parsed and bounded
//! reply.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::connection::LspConnection;
use crate::error::LspError;
use crate::language_servers::LanguageServerLimits;
use crate::open_documents::DocumentVersion;
use crate::response::{
    self, BoundedList, CallHierarchyEntry, LspDiagnostic, LspLocation, LspPosition, LspSymbol,
};
use crate::uri;

/// Most functions at one position whose callers or callees are requested.
const CALL_ITEMS_MAX: usize = 5;

/// A position in a file that a query is about.
#[derive(Clone, Copy, Debug)]
pub struct DocumentPosition<'a> {
    /// Absolute path of the file. The server must have the file open already.
    pub path: &'a Path,
    /// Position in the file, in the units that the server negotiated.
    pub position: LspPosition,
}

/// Direction of a call hierarchy query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallDirection {
    /// The functions that call this one.
    Incoming,
    /// The functions that this one calls.
    Outgoing,
}

/// Sends queries to one server and parses the replies, within time limits.
pub struct LspClient<'a> {
    connection: &'a LspConnection,
    bounds: LanguageServerLimits,
}

impl<'a> LspClient<'a> {
    /// Creates a client for `connection` with the given time limits.
    pub fn new(connection: &'a LspConnection, bounds: LanguageServerLimits) -> Self {
        Self { connection, bounds }
    }

    /// Requests where the symbol at a position is defined.
    pub async fn definition(
        &self,
        target: DocumentPosition<'_>,
    ) -> Result<BoundedList<LspLocation>, LspError> {
        let method = ("textDocument/definition", "definitionProvider");
        self.request_locations(method, position_params(target), QueryScope::File).await
    }

    /// Requests where the symbol at a position is implemented.
    pub async fn implementation(
        &self,
        target: DocumentPosition<'_>,
    ) -> Result<BoundedList<LspLocation>, LspError> {
        let method = ("textDocument/implementation", "implementationProvider");
        self.request_locations(method, position_params(target), QueryScope::Project).await
    }

    /// Requests where the symbol at a position is used, including its declaration.
    pub async fn references(
        &self,
        target: DocumentPosition<'_>,
    ) -> Result<BoundedList<LspLocation>, LspError> {
        let mut params = position_params(target);
        if let Some(fields) = params.as_object_mut() {
            fields.insert("context".to_owned(), json!({"includeDeclaration": true}));
        }
        let method = ("textDocument/references", "referencesProvider");
        self.request_locations(method, params, QueryScope::Project).await
    }

    /// Requests the description (type, documentation) of the symbol at a position.
    pub async fn hover(&self, target: DocumentPosition<'_>) -> Result<Option<String>, LspError> {
        let method = ("textDocument/hover", "hoverProvider");
        let read = |answer: &Value| response::parse_hover(answer);
        self.request_when_ready(
            method,
            position_params(target),
            QueryScope::File,
            read,
            Option::is_none,
        )
        .await
    }

    /// Requests the symbols of a file.
    pub async fn document_symbols(&self, path: &Path) -> Result<BoundedList<LspSymbol>, LspError> {
        let method = ("textDocument/documentSymbol", "documentSymbolProvider");
        let params = json!({"textDocument": {"uri": uri::from_path(path)}});
        self.request_when_ready(method, params, QueryScope::File, response::parse_symbols, is_empty)
            .await
    }

    /// Requests the symbols of the whole project whose name matches `query`.
    pub async fn workspace_symbols(&self, query: &str) -> Result<BoundedList<LspSymbol>, LspError> {
        let method = ("workspace/symbol", "workspaceSymbolProvider");
        self.request_when_ready(
            method,
            json!({"query": query}),
            QueryScope::Project,
            response::parse_symbols,
            is_empty,
        )
        .await
    }

    /// Requests the functions at a position, without their callers or callees.
    pub async fn prepare_call_hierarchy(
        &self,
        target: DocumentPosition<'_>,
    ) -> Result<Vec<(LspSymbol, Value)>, LspError> {
        let method = ("textDocument/prepareCallHierarchy", "callHierarchyProvider");
        self.request_when_ready(
            method,
            position_params(target),
            QueryScope::File,
            response::parse_call_items,
            Vec::is_empty,
        )
        .await
    }

    /// Requests the callers or the callees of the functions at a position. At most five functions
    /// are followed.
    pub async fn call_hierarchy(
        &self,
        target: DocumentPosition<'_>,
        calls: CallDirection,
    ) -> Result<BoundedList<CallHierarchyEntry>, LspError> {
        let (method, end) = match calls {
            CallDirection::Incoming => ("callHierarchy/incomingCalls", "from"),
            CallDirection::Outgoing => ("callHierarchy/outgoingCalls", "to"),
        };
        let mut all = BoundedList::default();
        for (_, item) in self.prepare_call_hierarchy(target).await?.into_iter().take(CALL_ITEMS_MAX)
        {
            let method = (method, "callHierarchyProvider");
            let read = |answer: &Value| response::parse_call_entries(answer, end);
            let params = json!({ "item": item });
            let found = self
                .request_when_ready(method, params, QueryScope::Project, read, is_empty)
                .await?;
            all.total += found.total;
            all.items.extend(found.items);
        }
        Ok(all)
    }

    /// Requests the diagnostics of a file in the given version, waiting for the server to publish
    /// them.
    pub async fn diagnostics(
        &self,
        path: &Path,
        sent: DocumentVersion,
    ) -> Result<BoundedList<LspDiagnostic>, LspError> {
        let limit = self.bounds.answer_max;
        let report = self.connection.wait_for_diagnostics(path, sent, limit).await?;
        report.map(|report| report.found).ok_or_else(|| LspError::TimedOut {
            server: self.connection.server_name().to_owned(),
            what: "diagnostics".to_owned(),
            limit,
        })
    }

    async fn request_locations(
        &self,
        method: (&str, &str),
        params: Value,
        scope: QueryScope,
    ) -> Result<BoundedList<LspLocation>, LspError> {
        self.request_when_ready(method, params, scope, response::parse_locations, is_empty).await
    }

    /// Sends a request. If the result is empty because the server is still indexing the project,
    /// waits for it to finish and asks once more.
    async fn request_when_ready<T>(
        &self,
        (method, capability): (&str, &str),
        params: Value,
        scope: QueryScope,
        read: impl Fn(&Value) -> Option<T>,
        is_nothing: impl Fn(&T) -> bool,
    ) -> Result<T, LspError> {
        let server = || self.connection.server_name().to_owned();
        if !self.connection.supports(capability) {
            return Err(LspError::Unsupported { server: server(), what: method.to_owned() });
        }
        if scope == QueryScope::Project {
            self.connection.wait_until_idle(self.bounds.reading_max).await;
        }
        let ask = async |limit: Duration| {
            let answer = self.connection.request(method, params.clone(), limit).await?;
            let invalid =
                || LspError::InvalidResponse { server: server(), what: method.to_owned() };
            read(&answer).ok_or_else(invalid)
        };
        let found = ask(self.bounds.answer_max).await?;
        if scope == QueryScope::Project || !is_nothing(&found) {
            return Ok(found);
        }
        self.connection.wait_until_idle(self.bounds.reading_max).await;
        ask(self.bounds.answer_max).await
    }
}

/// Whether a reply depends on one file or on the whole project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueryScope {
    File,
    Project,
}

fn position_params(DocumentPosition { path, position }: DocumentPosition<'_>) -> Value {
    json!({
        "textDocument": {"uri": uri::from_path(path)},
        "position": {"line": position.line, "character": position.character},
    })
}

fn is_empty<T>(pieces: &BoundedList<T>) -> bool {
    pieces.items.is_empty()
}
