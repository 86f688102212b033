//! Parsing of the results that servers return. Only fields that are shown are read, and each
//! element is parsed on its own, so that a malformed one does not affect the others.

use serde_json::Value;
use zero_core::text_shortening::shorten_end;

/// How deep symbols may be nested.
const DEPTH_MAX: usize = 16;
/// Most elements that are read from one result. Elements beyond that are only counted.
pub const ITEMS_MAX: usize = 5_000;
/// Longest text read from one element, in characters.
const TEXT_CHARS_MAX: usize = 2_000;
/// Longest hover text, in characters.
const HOVER_CHARS_MAX: usize = 20_000;

/// A position in a file, in the units of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LspPosition {
    /// Line number, from 0.
    pub line: u64,
    /// Offset in the line, from 0.
    pub character: u64,
}

/// The start of a range in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LspLocation {
    /// URI of the file.
    pub uri: String,
    /// Where the range starts.
    pub start: LspPosition,
}

/// A named declaration in the source, such as a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LspSymbol {
    /// The name as declared.
    pub name: String,
    /// The kind of symbol, such as `function`.
    pub kind: &'static str,
    /// Name of the enclosing symbol, if the server reports it.
    pub container: Option<String>,
    /// Where the symbol is. An empty URI means the file that was queried.
    pub place: LspLocation,
    /// Nesting depth, 0 for a top-level symbol.
    pub depth: usize,
}

/// A caller or a callee of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct CallHierarchyEntry {
    /// The calling or called function.
    pub symbol: LspSymbol,
    /// Positions of the calls, in the file of the caller.
    pub calls: Vec<LspPosition>,
}

/// A problem that a server reports for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LspDiagnostic {
    /// Where the problem starts.
    pub start: LspPosition,
    /// How severe the problem is.
    pub severity: DiagnosticSeverity,
    /// The description of the problem.
    pub message: String,
    /// The tool that found it, such as `rustc`.
    pub source: Option<String>,
    /// The code of the problem, such as `E0308`.
    pub code: Option<String>,
}

/// Severity of a diagnostic, the most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiagnosticSeverity {
    /// The code does not compile or work.
    Error,
    /// The code is suspicious.
    Warning,
    /// A remark.
    Information,
    /// A suggestion.
    Hint,
}

impl DiagnosticSeverity {
    /// Returns the lowercase word for the severity.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Information => "information",
            Self::Hint => "hint",
        }
    }
}

/// The elements of a result, and how many there were.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundedList<T> {
    /// The well-formed elements, at most [`ITEMS_MAX`].
    pub items: Vec<T>,
    /// Number of elements in the result, including malformed ones.
    pub total: usize,
}

impl<T> Default for BoundedList<T> {
    fn default() -> Self {
        Self { items: Vec::new(), total: 0 }
    }
}

impl<T> BoundedList<T> {
    fn from_values(values: &[Value], read: impl Fn(&Value) -> Option<T>) -> Self {
        let items = values.iter().take(ITEMS_MAX).filter_map(read).collect();
        Self { items, total: values.len() }
    }
}

/// Parses locations: null, one or several, as `Location` or `LocationLink`.
pub fn parse_locations(answer: &Value) -> Option<BoundedList<LspLocation>> {
    let place = |value: &Value| match value.get("targetUri") {
        Some(uri) => parse_location(uri, value.get("targetSelectionRange")?),
        None => parse_location(value.get("uri")?, value.get("range")?),
    };
    match answer {
        Value::Null => Some(BoundedList::default()),
        Value::Array(values) => Some(BoundedList::from_values(values, place)),
        one @ Value::Object(_) => Some(BoundedList::from_values(std::slice::from_ref(one), place)),
        _ => None,
    }
}

/// Parses a hover result, in all forms that the protocol has had. `None` means malformed,
/// `Some(None)` no text.
pub fn parse_hover(answer: &Value) -> Option<Option<String>> {
    let contents = match answer {
        Value::Null => return Some(None),
        answer => answer.get("contents")?,
    };
    let marked = |value: &Value| -> Option<String> {
        let text = value.as_str().or_else(|| value.get("value")?.as_str())?;
        let language = value.get("language").and_then(Value::as_str);
        Some(match language {
            Some(language) => {
                zero_core::sanitize::to_code_block(text, &zero_core::sanitize::to_line(language))
            }
            None => zero_core::sanitize::replace_unsafe_chars(text),
        })
    };
    let text = match contents {
        Value::Array(values) => {
            let parts: Vec<String> = values.iter().take(100).filter_map(marked).collect();
            parts.join("\n\n")
        }
        one => marked(one)?,
    };
    let text = shorten_end(text.trim(), HOVER_CHARS_MAX);
    Some((!text.is_empty()).then_some(text))
}

/// Parses the symbols of a file or project. A symbol comes before those nested in it.
pub fn parse_symbols(answer: &Value) -> Option<BoundedList<LspSymbol>> {
    let values = match answer {
        Value::Null => return Some(BoundedList::default()),
        answer => answer.as_array()?,
    };
    let mut pieces = BoundedList::default();
    add_symbols(values, 0, &mut pieces);
    Some(pieces)
}

fn add_symbols(values: &[Value], depth: usize, pieces: &mut BoundedList<LspSymbol>) {
    for value in values {
        pieces.total += 1;
        if pieces.items.len() < ITEMS_MAX {
            pieces.items.extend(parse_symbol(value, depth));
        }
        if let Some(children) = value.get("children").and_then(Value::as_array)
            && depth < DEPTH_MAX
        {
            add_symbols(children, depth + 1, pieces);
        }
    }
}

fn parse_symbol(value: &Value, depth: usize) -> Option<LspSymbol> {
    let place = match value.get("location") {
        Some(location) => {
            // A symbol of the project may come without a range.
            let start = location.get("range").and_then(parse_range_start).unwrap_or_default();
            LspLocation { uri: location.get("uri")?.as_str()?.to_owned(), start }
        }
        None => {
            let uri = value.get("uri").and_then(Value::as_str).unwrap_or_default().to_owned();
            let range = value.get("selectionRange").or_else(|| value.get("range"))?;
            LspLocation { uri, start: parse_range_start(range)? }
        }
    };
    Some(LspSymbol {
        name: parse_line(value.get("name")?)?,
        kind: symbol_kind_name(value.get("kind").and_then(Value::as_u64).unwrap_or_default()),
        container: value.get("containerName").and_then(parse_line).filter(|name| !name.is_empty()),
        place,
        depth,
    })
}

/// Parses the functions at a position. The raw value is needed for the request that follows.
pub fn parse_call_items(answer: &Value) -> Option<Vec<(LspSymbol, Value)>> {
    let values = match answer {
        Value::Null => return Some(Vec::new()),
        answer => answer.as_array()?,
    };
    let items = values.iter().take(ITEMS_MAX);
    Some(items.filter_map(|item| Some((parse_symbol(item, 0)?, item.clone()))).collect())
}

/// Parses callers or callees. `end` is the field with the function: `from` or `to`.
pub fn parse_call_entries(answer: &Value, end: &str) -> Option<BoundedList<CallHierarchyEntry>> {
    let values = match answer {
        Value::Null => return Some(BoundedList::default()),
        answer => answer.as_array()?,
    };
    Some(BoundedList::from_values(values, |value| {
        let ranges = value.get("fromRanges").and_then(Value::as_array);
        let calls = ranges.into_iter().flatten().take(100).filter_map(parse_range_start).collect();
        Some(CallHierarchyEntry { symbol: parse_symbol(value.get(end)?, 0)?, calls })
    }))
}

/// Parses the diagnostics of a file.
pub fn parse_diagnostics(values: &[Value]) -> BoundedList<LspDiagnostic> {
    BoundedList::from_values(values, |value| {
        let severity = match value.get("severity").and_then(Value::as_u64) {
            Some(2) => DiagnosticSeverity::Warning,
            Some(3) => DiagnosticSeverity::Information,
            Some(4) => DiagnosticSeverity::Hint,
            _ => DiagnosticSeverity::Error,
        };
        let code = value.get("code").and_then(|code| match code {
            Value::Number(number) => Some(number.to_string()),
            code => parse_line(code),
        });
        Some(LspDiagnostic {
            start: parse_range_start(value.get("range")?)?,
            severity,
            message: parse_text(value.get("message")?)?,
            source: value.get("source").and_then(parse_line),
            code,
        })
    })
}

fn parse_location(uri: &Value, range: &Value) -> Option<LspLocation> {
    Some(LspLocation { uri: uri.as_str()?.to_owned(), start: parse_range_start(range)? })
}

fn parse_range_start(range: &Value) -> Option<LspPosition> {
    let start = range.get("start")?;
    let number = |name: &str| start.get(name)?.as_u64().filter(|number| *number <= 1 << 31);
    Some(LspPosition { line: number("line")?, character: number("character")? })
}

/// Returns a string as one line without control characters.
fn parse_line(value: &Value) -> Option<String> {
    Some(zero_core::sanitize::to_line(value.as_str()?))
}

/// Returns a string of several lines without control characters.
fn parse_text(value: &Value) -> Option<String> {
    let text = zero_core::sanitize::replace_unsafe_chars(value.as_str()?);
    Some(shorten_end(text.trim(), TEXT_CHARS_MAX))
}

fn symbol_kind_name(number: u64) -> &'static str {
    const KINDS: [&str; 26] = [
        "file",
        "module",
        "namespace",
        "package",
        "class",
        "method",
        "property",
        "field",
        "constructor",
        "enum",
        "interface",
        "function",
        "variable",
        "constant",
        "string",
        "number",
        "boolean",
        "array",
        "object",
        "key",
        "null",
        "enum member",
        "struct",
        "event",
        "operator",
        "type parameter",
    ];
    let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    index.and_then(|index| KINDS.get(index)).copied().unwrap_or("symbol")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(line: u64, character: u64) -> Value {
        json!({"start": {"line": line, "character": character}, "end": {"line": line, "character": 9}})
    }

    #[test]
    fn location_forms_parse_and_invalid_ones_are_skipped() {
        let place = |uri: &str, line, character| LspLocation {
            uri: uri.to_owned(),
            start: LspPosition { line, character },
        };
        let check = |answer: Value, expected: &[LspLocation], total: usize| {
            let found = parse_locations(&answer).unwrap();
            assert_eq!((&found.items[..], found.total), (expected, total), "{answer}");
        };
        check(Value::Null, &[], 0);
        check(json!({"uri": "file:///a", "range": range(1, 2)}), &[place("file:///a", 1, 2)], 1);
        let link = json!({"targetUri": "file:///b", "targetRange": range(0, 0), "targetSelectionRange": range(3, 4)});
        let bad = [
            json!(7),
            json!({"uri": 1, "range": range(1, 1)}),
            json!({"uri": "x", "range": {"start": {"line": -1, "character": 1e30}}}),
        ];
        let [a, b, c] = bad;
        check(json!([a, link, b, c]), &[place("file:///b", 3, 4)], 4);
        assert_eq!(parse_locations(&json!("text")), None);
    }

    #[test]
    fn hover_contents_parse_in_every_form() {
        for (answer, expected) in [
            (Value::Null, Some(None)),
            (json!({"contents": "plain"}), Some(Some("plain".to_owned()))),
            (
                json!({"contents": {"kind": "markdown", "value": "**x**"}}),
                Some(Some("**x**".to_owned())),
            ),
            (
                json!({"contents": [{"language": "c", "value": "int a"}, "doc"]}),
                Some(Some("```c\nint a\n```\n\ndoc".to_owned())),
            ),
            (json!({"contents": ""}), Some(None)),
            (json!({"contents": 7}), None),
            (json!(7), None),
        ] {
            assert_eq!(parse_hover(&answer), expected, "{answer}");
        }
        let escape = parse_hover(&json!({"contents": "a\u{1b}[2Jb"})).unwrap().unwrap();
        assert!(!escape.contains('\u{1b}'));
    }

    #[test]
    fn symbols_keep_order_and_depth() {
        let inner =
            json!({"name": "go", "kind": 6, "range": range(2, 0), "selectionRange": range(2, 5)});
        let outer = json!({"name": "A", "kind": 5, "range": range(1, 0), "selectionRange": range(1, 6), "children": [inner, {"name": 1}]});
        let flat = json!({"name": "f", "kind": 99, "containerName": "A", "location": {"uri": "file:///x", "range": range(7, 0)}});
        let found = parse_symbols(&json!([outer, flat])).unwrap();
        let shown: Vec<String> = found
            .items
            .iter()
            .map(|s| {
                format!("{} {} {} {}:{}", s.depth, s.kind, s.name, s.place.uri, s.place.start.line)
            })
            .collect();
        assert_eq!(shown, ["0 class A :1", "1 method go :2", "0 symbol f file:///x:7"]);
        assert_eq!(found.total, 4);
        let mut deep = json!({"name": "n", "kind": 5, "selectionRange": range(0, 0)});
        for _ in 0..40 {
            deep =
                json!({"name": "n", "kind": 5, "selectionRange": range(0, 0), "children": [deep]});
        }
        assert_eq!(parse_symbols(&json!([deep])).unwrap().items.len(), DEPTH_MAX + 1);
    }

    #[test]
    fn diagnostics_carry_severity_and_code() {
        let values = [
            json!({"range": range(0, 1), "message": " bad \n", "severity": 1, "source": "cc", "code": "E1"}),
            json!({"range": range(1, 1), "message": "odd", "severity": 2, "code": 7}),
            json!({"message": "nowhere"}),
        ];
        let found = parse_diagnostics(&values);
        let shown: Vec<String> = found
            .items
            .iter()
            .map(|d| format!("{} {} {:?}", d.severity.as_str(), d.message, d.code.as_deref()))
            .collect();
        assert_eq!(shown, ["error bad Some(\"E1\")", "warning odd Some(\"7\")"]);
        assert_eq!(found.total, 3);
    }
}
