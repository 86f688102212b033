//! [`ToolListing`], the tools that a server lists, limited and validated. A tool that cannot be
//! used is quarantined with the reason; the others work.

use std::collections::BTreeMap;

use rmcp::model::Tool;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use zero_core::text_shortening::shorten_end;
use zero_runtime::schema::foreign_schema;
use zero_sandbox::journal::sha256;

use super::sanitize;
use super::status::QuarantinedTool;

/// Maximum number of tools of one server.
pub(crate) const TOOLS_MAX: usize = 1_000;
/// Maximum size of all definitions of one server together, in bytes.
const LISTING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum number of quarantined tools that are listed.
const QUARANTINED_MAX: usize = 200;
/// Maximum length of a description that a model is shown, in characters.
const DESCRIPTION_CHARS_MAX: usize = 10_000;

/// A tool as its server defines it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct McpToolDefinition {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    pub(crate) input_schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output_schema: Option<Value>,
    #[serde(default)]
    pub(crate) claims: ToolClaims,
}

/// What a tool claims about itself. It is shown to the user, but not trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToolClaims {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) read_only: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) destructive: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) idempotent: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) open_world: Option<bool>,
}

impl ToolClaims {
    /// Renders the claims for the user; empty if there are none.
    pub(crate) fn to_text(&self) -> String {
        self.labels().join(", ")
    }

    /// Returns a label for each claim.
    pub(crate) fn labels(&self) -> Vec<&'static str> {
        let claim = |claim: Option<bool>, yes: &'static str, no: &'static str| {
            claim.map(|claim| if claim { yes } else { no })
        };
        let words = [
            claim(self.read_only, "read-only", "makes changes"),
            claim(self.destructive, "destructive", "not destructive"),
            claim(self.idempotent, "idempotent", "not idempotent"),
            claim(self.open_world, "reaches external systems", "no external systems"),
        ];
        words.into_iter().flatten().collect()
    }
}

impl McpToolDefinition {
    fn from_tool(tool: Tool) -> Self {
        let annotations = tool.annotations.unwrap_or_default();
        let object = |schema: std::sync::Arc<Map<String, Value>>| {
            Value::Object(std::sync::Arc::unwrap_or_clone(schema))
        };
        Self {
            name: tool.name.into_owned(),
            title: tool.title.or(annotations.title),
            description: tool.description.map(|text| text.into_owned()),
            input_schema: object(tool.input_schema),
            output_schema: tool.output_schema.map(object),
            claims: ToolClaims {
                read_only: annotations.read_only_hint,
                destructive: annotations.destructive_hint,
                idempotent: annotations.idempotent_hint,
                open_world: annotations.open_world_hint,
            },
        }
    }

    /// Hashes the whole definition. The order of fields in its schemas does not matter.
    pub(crate) fn hash(&self) -> String {
        let facts = serde_json::to_value(self).unwrap_or_default();
        sha256(sort_fields(&facts).to_string().as_bytes())
    }

    /// Returns its description for a model.
    pub(crate) fn model_description(&self) -> String {
        let text = self.description.as_deref().or(self.title.as_deref()).unwrap_or_default();
        shorten_end(text, DESCRIPTION_CHARS_MAX)
    }

    /// Brings its input schema into the form that the pipeline needs, or says why that is not
    /// possible.
    fn validate_schema(&mut self) -> Result<(), String> {
        foreign_schema::vet_input(&mut self.input_schema)
            .map_err(|why| format!("its input schema {why}"))?;
        // An output schema is useful only if results can be checked against it.
        self.output_schema =
            self.output_schema.take().filter(|schema| foreign_schema::check_usable(schema).is_ok());
        Ok(())
    }

    fn size(&self) -> usize {
        let output = self.output_schema.as_ref().map_or(0, json_size);
        let words = self.description.as_deref().unwrap_or_default().len();
        self.name.len() + words + json_size(&self.input_schema) + output
    }
}

/// The tools that a server lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToolListing {
    /// The usable tools, by the server's names.
    pub(crate) tools: BTreeMap<String, McpToolDefinition>,
    /// The tools that cannot be used.
    #[serde(default)]
    pub(crate) quarantined: Vec<QuarantinedTool>,
    /// What was left out because there was too much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cut: Option<String>,
}

/// Builds a listing page by page.
#[derive(Default)]
pub(crate) struct ToolListingBuilder {
    listing: ToolListing,
    bytes: usize,
    refused: BTreeMap<String, String>,
    seen: usize,
}

/// Whether further pages are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingDemand {
    More,
    NoMore,
}

impl ToolListingBuilder {
    /// Adds the tools of a page.
    pub(crate) fn add_page(&mut self, page: Vec<Tool>) -> ListingDemand {
        for tool in page {
            if self.seen == TOOLS_MAX || self.bytes >= LISTING_BYTES_MAX {
                self.note_cut(&format!(
                    "it lists more than {TOOLS_MAX} tools or {} MB of them; the rest is left out",
                    LISTING_BYTES_MAX / 1024 / 1024
                ));
                return ListingDemand::NoMore;
            }
            self.seen += 1;
            self.add(McpToolDefinition::from_tool(tool));
        }
        ListingDemand::More
    }

    /// Records that something was left out; the first note is kept.
    pub(crate) fn note_cut(&mut self, why: &str) {
        self.listing.cut.get_or_insert_with(|| why.to_owned());
    }

    fn add(&mut self, mut tool: McpToolDefinition) {
        let name = tool.name.clone();
        if self.refused.contains_key(&name) {
            return;
        }
        if let Err(why) = tool.validate_schema() {
            self.refuse(name, why);
            return;
        }
        match self.listing.tools.get(&name) {
            None => {
                self.bytes += tool.size();
                self.listing.tools.insert(name, tool);
            }
            Some(first) if *first == tool => {}
            // The server decides which of the two a call would reach, so neither is used.
            Some(_) => {
                self.listing.tools.remove(&name);
                self.refuse(name, "it is listed twice, with different definitions".to_owned());
            }
        }
    }

    fn refuse(&mut self, name: String, why: String) {
        // All are remembered, so that none is added again; `TOOLS_MAX` limits their number.
        self.refused.insert(name, why);
    }

    /// Returns the listing, including the tools that could not be parsed.
    pub(crate) fn finish(self, malformed: Vec<QuarantinedTool>) -> ToolListing {
        let Self { mut listing, refused, .. } = self;
        let refused = refused.into_iter().map(|(tool, reason)| QuarantinedTool {
            tool: sanitize::to_line(&tool),
            reason: shorten_end(&reason, 300),
        });
        listing.quarantined = refused.chain(malformed).take(QUARANTINED_MAX).collect();
        listing
    }
}

/// Estimates the tokens that a tool costs in a model request: a quarter of the bytes of its name,
/// description and schema. Tokenizers differ.
pub(crate) fn estimate_tokens(name: &str, description: &str, schema: &Value) -> usize {
    (name.len() + description.len() + json_size(schema)).div_ceil(4)
}

/// Returns the length of a value as JSON, in bytes.
fn json_size(value: &Value) -> usize {
    value.to_string().len()
}

/// Sorts the fields of all objects in a value by name. The depth of definitions is limited to about
/// [`zero_runtime::schema::DEPTH_MAX`].
fn sort_fields(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, Value> =
                fields.iter().map(|(name, field)| (name, sort_fields(field))).collect();
            json!(sorted)
        }
        Value::Array(items) => Value::Array(items.iter().map(sort_fields).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, schema: Value) -> Tool {
        serde_json::from_value(json!({"name": name, "inputSchema": schema})).unwrap()
    }

    #[track_caller]
    fn check(schema: Value, expected: &str) {
        let mut builder = ToolListingBuilder::default();
        builder.add_page(vec![tool("bad", schema), tool("good", json!({"type": "object"}))]);
        let listing = builder.finish(vec![]);
        assert!(listing.tools.contains_key("good"), "its neighbour works");
        let shown = match &listing.quarantined[..] {
            [] => "fit".to_owned(),
            [one] => one.reason.clone(),
            more => format!("{more:?}"),
        };
        assert!(shown.starts_with(expected), "{shown:?} is not {expected:?}");
        assert_eq!(listing.tools.contains_key("bad"), expected == "fit");
    }

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!({}), |inner, _| json!({"properties": {"a": inner}}))
    }

    #[test]
    fn invalid_schema_quarantines_only_its_tool() {
        check(json!({"type": "object", "properties": {"a": {"type": "string"}}}), "fit");
        check(json!({}), "fit");
        check(
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}),
            "fit",
        );
        check(
            json!({"type": "object", "$defs": {"x": {"$id": "https://a.b/x", "type": "string"}},
            "properties": {"a": {"$ref": "https://a.b/x"}, "b": {"$ref": "#/$defs/x"}}}),
            "fit",
        );
        check(
            json!({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            "fit",
        );
        check(json!({"type": "string"}), "its input schema has type \"string\"");
        check(
            json!({"type": ["object", "null"]}),
            "its input schema has type [\"object\",\"null\"]",
        );
        check(json!({"type": "object", "properties": 3}), "its input schema is broken: ");
        check(
            json!({"type": "object", "properties": {"a": {"type": "strnig"}}}),
            "its input schema is broken: ",
        );
        check(
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}),
            "its input schema is broken: ",
        );
        check(
            json!({"type": "object", "properties": {"a": {"pattern": "("}}}),
            "its input schema is broken: ",
        );
        check(
            json!({"type": "object", "properties": {"a": {"$ref": "http://169.254.169.254/x"}}}),
            "its input schema refers to `http://169.254.169.254/x`, but zero does not fetch external schemas",
        );
        check(
            json!({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}),
            "its input schema refers to `file:///etc/passwd`",
        );
        check(
            json!({"description": "x".repeat(70_000)}),
            "its input schema has 70034 bytes, more than 65536",
        );
        check(nested(40), "its input schema is nested more than 64 levels deep");
    }

    #[test]
    fn ambiguous_tool_name_is_not_used() {
        let one = || tool("a", json!({"type": "object"}));
        let other = || tool("a", json!({"type": "object", "required": ["x"]}));
        for (tools, kept) in [
            (vec![one()], true),
            (vec![one(), one()], true),
            (vec![one(), other()], false),
            (vec![other(), one()], false),
            (vec![one(), other(), one()], false),
        ] {
            let mut builder = ToolListingBuilder::default();
            builder.add_page(tools);
            let listing = builder.finish(vec![]);
            assert_eq!(listing.tools.contains_key("a"), kept);
            assert_eq!(listing.quarantined.len(), usize::from(!kept));
        }
    }

    #[test]
    fn quarantined_tools_stay_out_beyond_limit() {
        let mut builder = ToolListingBuilder::default();
        let bad = |n: usize| tool(&format!("bad{n}"), json!({"type": "string"}));
        builder.add_page((0..QUARANTINED_MAX + 5).map(bad).collect());
        let versions = [json!({"title": "1"}), json!({"title": "2"}), json!({"title": "3"})];
        builder.add_page(versions.into_iter().map(|schema| tool("twice", schema)).collect());
        let listing = builder.finish(vec![]);
        assert!(listing.tools.is_empty(), "{:?}", listing.tools.keys());
        assert_eq!(listing.quarantined.len(), QUARANTINED_MAX);
    }

    #[test]
    fn oversized_listing_is_cut_and_reported() {
        let mut builder = ToolListingBuilder::default();
        let page = |from: usize| {
            (from..from + 600).map(|n| tool(&format!("t{n}"), json!({}))).collect::<Vec<_>>()
        };
        assert_eq!(builder.add_page(page(0)), ListingDemand::More);
        assert_eq!(builder.add_page(page(600)), ListingDemand::NoMore);
        let listing = builder.finish(vec![]);
        assert_eq!(listing.tools.len(), TOOLS_MAX);
        assert!(listing.cut.unwrap().starts_with("it lists more than 1000 tools"));
        let mut builder = ToolListingBuilder::default();
        let large = |n: usize| tool(&format!("t{n}"), json!({"description": "x".repeat(60_000)}));
        assert_eq!(builder.add_page((0..100).map(large).collect()), ListingDemand::NoMore);
        assert!(builder.finish(vec![]).tools.len() < 80);
    }

    #[test]
    fn definition_hash_changes_with_content() {
        let definition = |text: &str| {
            let tool: Tool = serde_json::from_str(text).unwrap();
            McpToolDefinition::from_tool(tool).hash()
        };
        let first = definition(
            r#"{"name": "a", "description": "d", "inputSchema": {"type": "object", "required": ["x"]}}"#,
        );
        for (text, same) in [
            (
                r#"{"inputSchema": {"required": ["x"], "type": "object"}, "description": "d", "name": "a"}"#,
                true,
            ),
            (
                r#"{"name": "a", "description": "d", "inputSchema": {"type": "object", "required": ["x"]}, "_meta": {"n": 1}}"#,
                true,
            ),
            (
                r#"{"name": "a", "description": "d!", "inputSchema": {"type": "object", "required": ["x"]}}"#,
                false,
            ),
            (r#"{"name": "a", "description": "d", "inputSchema": {"type": "object"}}"#, false),
            (
                r#"{"name": "a", "description": "d", "inputSchema": {"type": "object", "required": ["x"]}, "outputSchema": {"type": "object"}}"#,
                false,
            ),
            (
                r#"{"name": "a", "description": "d", "inputSchema": {"type": "object", "required": ["x"]}, "annotations": {"readOnlyHint": true}}"#,
                false,
            ),
        ] {
            assert_eq!(definition(text) == first, same, "{text}");
        }
    }
}
