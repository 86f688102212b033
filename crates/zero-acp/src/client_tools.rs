//! Tools that the client provides: it defines them in its capabilities, and runs their calls.
//!
//! zero registers them as `acp__NAME`, so that none can be taken for a tool of zero or of a server.
//! A call passes the same rules and approvals as that of any tool that is not zero's own; only then
//! the client is asked to run it, by `tools/use` or `_zero/tools/use`.

mod call_result;
mod pending_calls;
mod remote_caller;

use std::sync::Arc;

use agent_client_protocol::v1::schema::SessionId;
use serde_json::Value;
use zero_core::{CLIENT_TERMINAL, CLIENT_TOOL_SOURCE, ToolName, sanitize};
use zero_runtime::schema::foreign_schema;

pub(crate) use self::pending_calls::PendingToolCalls;
use self::remote_caller::RemoteToolCaller;
use crate::client_calls::MethodPrefix;
use crate::client_handle::ClientHandle;
use crate::text_sanitizer::visible_line;
use crate::tool_host_factory::{ClientTool, ClientToolDefinition, ClientToolKind};

/// Most tools of a client in one session.
const TOOLS_MAX: usize = 64;
/// Longest name of a tool, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// Longest description that a model gets, in characters.
const DESCRIPTION_CHARS_MAX: usize = 4_000;
/// Most problems that the user is told of.
const PROBLEMS_MAX: usize = 8;
/// Longest name that a problem quotes, in characters.
const NAMED_CHARS_MAX: usize = 80;

/// A tool as the client defines it, and how it is asked to run a call.
#[derive(Clone, Debug, PartialEq)]
struct DefinedTool {
    definition: ClientToolDefinition,
    spelling: MethodPrefix,
}

/// The usable tools of a client, and why others are not used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClientToolSet {
    tools: Vec<DefinedTool>,
    /// Why tools are not used, for the user.
    pub(crate) problems: Vec<String>,
}

impl ClientToolSet {
    /// The tools in the capabilities of `initialize`: `tools.definitions` there, under `_meta`, or
    /// under `_meta.zero`.
    pub(crate) fn from_initialize(params: &Value) -> Self {
        let capabilities = params.get("clientCapabilities");
        let mut set = Self::default();
        set.add_definitions(capabilities.and_then(|it| it.get("tools")), MethodPrefix::Plain);
        set.add_from_meta(capabilities.and_then(|it| it.get("_meta")));
        set
    }

    /// The same tools, and those that the client defines for one session under `_meta`.
    pub(crate) fn with_session_tools(&self, meta: Option<&Value>) -> Self {
        let mut set = Self::default();
        set.add_from_meta(meta);
        // A tool of the session replaces a tool of the connection.
        let is_new = |tool: &&DefinedTool| !set.contains(&tool.definition.registered);
        let others: Vec<_> = self.tools.iter().filter(is_new).cloned().collect();
        for tool in others {
            set.add_tool(tool);
        }
        for problem in &self.problems {
            set.add_problem(problem.clone());
        }
        set
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The tools, each with what runs its calls at the client of a session.
    pub(crate) fn into_tools(
        self,
        session: &SessionId,
        to_client: &ClientHandle,
        calls: &PendingToolCalls,
    ) -> Vec<ClientTool> {
        let tool = |DefinedTool { definition, spelling }| {
            let (session, to_client, calls) = (session.clone(), to_client.clone(), calls.clone());
            let caller = RemoteToolCaller { session, to_client, calls, spelling };
            ClientTool { definition, caller: Arc::new(caller) }
        };
        self.tools.into_iter().map(tool).collect()
    }

    fn add_from_meta(&mut self, meta: Option<&Value>) {
        let Some(meta) = meta else { return };
        let own = meta.get("zero").and_then(|zero| zero.get("tools"));
        self.add_definitions(own, MethodPrefix::Extension);
        self.add_definitions(meta.get("tools"), MethodPrefix::Plain);
    }

    fn add_definitions(&mut self, tools: Option<&Value>, spelling: MethodPrefix) {
        let Some(definitions) = tools.and_then(|tools| tools.get("definitions")) else { return };
        let Some(definitions) = definitions.as_array() else {
            self.add_problem("`tools.definitions` of the editor is not a list".to_owned());
            return;
        };
        for definition in definitions {
            match parse_definition(definition, spelling) {
                Ok(tool) => self.add_tool(tool),
                Err(problem) => self.add_problem(problem),
            }
        }
    }

    fn contains(&self, registered: &ToolName) -> bool {
        self.tools.iter().any(|tool| tool.definition.registered == *registered)
    }

    fn add_tool(&mut self, tool: DefinedTool) {
        let name = quote(&tool.definition.name);
        if self.contains(&tool.definition.registered) {
            self.add_problem(format!("the tool {name} of the editor is defined twice"));
        } else if self.tools.len() >= TOOLS_MAX {
            self.add_problem(format!(
                "the tool {name} of the editor is left out: a session has at most {TOOLS_MAX}"
            ));
        } else {
            self.tools.push(tool);
        }
    }

    fn add_problem(&mut self, problem: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }
}

fn parse_definition(definition: &Value, spelling: MethodPrefix) -> Result<DefinedTool, String> {
    let name = definition.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(format!(
            "a tool of the editor is not used: its name has {} bytes, not 1 to {NAME_BYTES_MAX}",
            name.len()
        ));
    }
    let unusable = |why: &str| format!("the tool {} of the editor is not used: {why}", quote(name));
    let registered = ToolName::from_namespaced(CLIENT_TOOL_SOURCE, name)
        .map_err(|error| unusable(&error.to_string()))?;
    if name == CLIENT_TERMINAL {
        return Err(unusable("zero has a tool with this name"));
    }
    let mut input_schema = match definition.get("inputSchema") {
        Some(schema) => schema.clone(),
        None => return Err(unusable("it has no `inputSchema`")),
    };
    foreign_schema::vet_input(&mut input_schema)
        .map_err(|why| unusable(&format!("its input schema {why}")))?;
    let description = definition.get("description").and_then(Value::as_str).unwrap_or_default();
    let description = sanitize::replace_unsafe_chars(&description.replace("\r\n", "\n"));
    let description = match description.trim() {
        "" => format!("The tool {} of the user's editor.", quote(name)),
        text => text.chars().take(DESCRIPTION_CHARS_MAX).collect(),
    };
    let shown = ["displayName", "title"].map(|field| definition.get(field).and_then(Value::as_str));
    let mut shown = shown.into_iter().flatten().map(|text| visible_line(text, NAMED_CHARS_MAX));
    let display_name = shown.find(|text| !text.trim().is_empty());
    let display_name = display_name.unwrap_or_else(|| visible_line(name, NAMED_CHARS_MAX));
    let name = name.to_owned();
    let kind = ClientToolKind::Other;
    let definition =
        ClientToolDefinition { registered, name, display_name, description, input_schema, kind };
    Ok(DefinedTool { definition, spelling })
}

fn quote(name: &str) -> String {
    sanitize::to_quoted_line(&visible_line(name, NAMED_CHARS_MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(name: &str) -> Value {
        json!({"name": name, "description": "Does it", "inputSchema": {"type": "object"}})
    }

    fn names(set: &ClientToolSet) -> Vec<(&str, MethodPrefix)> {
        set.tools.iter().map(|tool| (tool.definition.registered.as_str(), tool.spelling)).collect()
    }

    #[test]
    fn definitions_are_found_in_capabilities_and_meta() {
        let params = json!({"clientCapabilities": {
            "tools": {"definitions": [definition("one")]},
            "_meta": {
                "tools": {"definitions": [definition("two")]},
                "zero": {"tools": {"definitions": [definition("three")]}},
            },
        }});
        let set = ClientToolSet::from_initialize(&params);
        let expected = [
            ("acp__one", MethodPrefix::Plain),
            ("acp__three", MethodPrefix::Extension),
            ("acp__two", MethodPrefix::Plain),
        ];
        assert_eq!((names(&set), set.problems.as_slice()), (expected.to_vec(), &[][..]));
        let own = json!({"zero": {"tools": {"definitions": [definition("one")]}}});
        let session = set.with_session_tools(Some(&own));
        assert_eq!(names(&session)[0], ("acp__one", MethodPrefix::Extension));
        assert_eq!(session.tools.len(), 3);
        assert_eq!(ClientToolSet::from_initialize(&json!({})), ClientToolSet::default());
    }

    /// A tool cannot have the name of one of zero's, whatever the client calls it.
    #[test]
    fn names_are_kept_apart_from_other_tools() {
        for name in ["Bash", "read_file", "mcp__x", "../x", "a b"] {
            let tool = parse_definition(&definition(name), MethodPrefix::Plain).unwrap();
            assert!(tool.definition.registered.as_str().starts_with("acp__"), "{name}");
            assert_eq!(tool.definition.name, name);
        }
    }

    #[test]
    fn display_name_is_that_of_the_client_or_its_name() {
        for (more, expected) in [
            (json!({}), "deploy"),
            (json!({"displayName": "Deploy it"}), "Deploy it"),
            (json!({"title": "Deploys"}), "Deploys"),
            (json!({"displayName": " ", "title": "Deploys"}), "Deploys"),
            (json!({"displayName": "a\nb"}), "a b"),
        ] {
            let mut given = definition("deploy");
            given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let tool = parse_definition(&given, MethodPrefix::Plain).unwrap();
            assert_eq!(tool.definition.display_name, expected, "{more}");
        }
    }

    #[test]
    fn unusable_definitions_are_reported_and_others_used() {
        let bad_schema = json!({"name": "bad", "inputSchema": {"type": "string"}});
        let definitions = json!([
            {"name": ""},
            {"name": "x".repeat(257)},
            {"name": "bare"},
            bad_schema,
            definition("terminal"),
            definition("good"),
            definition("good"),
            7,
        ]);
        let params = json!({"clientCapabilities": {"tools": {"definitions": definitions}}});
        let set = ClientToolSet::from_initialize(&params);
        assert_eq!(names(&set), [("acp__good", MethodPrefix::Plain)]);
        assert_eq!(set.problems.len(), 7, "{:?}", set.problems);
        assert!(set.problems[2].contains("`bare`") && set.problems[2].contains("`inputSchema`"));
        let many: Vec<Value> = (0..100).map(|at| definition(&format!("t{at}"))).collect();
        let params = json!({"clientCapabilities": {"tools": {"definitions": many}}});
        let set = ClientToolSet::from_initialize(&params);
        assert_eq!((set.tools.len(), set.problems.len()), (TOOLS_MAX, PROBLEMS_MAX));
        let params = json!({"clientCapabilities": {"tools": {"definitions": {}}}});
        assert_eq!(ClientToolSet::from_initialize(&params).problems.len(), 1);
    }
}
