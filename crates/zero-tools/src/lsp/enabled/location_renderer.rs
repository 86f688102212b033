//! Turns locations reported by a server into results ([`LocationRenderer`]): paths of the
//! workspace, lines and characters counted from 1, and nothing from files that may not be read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zero_core::PathZone;
use zero_core::text_shortening::shorten_end;
use zero_lsp::response::{LspLocation, LspPosition};
use zero_lsp::{PositionEncoding, position, uri};
use zero_runtime::CallContext;
use zero_sandbox::{FinalLinkMode, ResolvedPath};

use super::output::LspItem;
use super::read_text;

/// Most files that are opened to show the line of a location, and most bytes read of all of them.
/// Locations beyond that are shown without their line.
pub(super) const FILES_MAX: usize = 60;
pub(super) const BYTES_MAX: usize = 16_000_000;
/// Longest line that is shown, in characters.
pub(super) const LINE_CHARS_MAX: usize = 200;

/// The result for a location.
pub(super) enum RenderedLocation {
    /// The location may be shown.
    Item(Box<LspItem>),
    /// The file may not be read.
    Denied,
    /// The location is not in a file of this machine, or the file is gone.
    Missing,
}

/// Turns locations into results.
pub(super) struct LocationRenderer<'a> {
    cx: &'a CallContext,
    encoding: PositionEncoding,
    /// The file that the query is about.
    queried: &'a ResolvedPath,
    lines: HashMap<PathBuf, Option<Arc<[String]>>>,
    bytes: usize,
}

impl<'a> LocationRenderer<'a> {
    /// Creates a renderer for the results of a query about `queried`, whose text is `text`.
    pub(super) fn new(
        cx: &'a CallContext,
        encoding: PositionEncoding,
        queried: &'a ResolvedPath,
        text: &str,
    ) -> Self {
        let lines = HashMap::from([(queried.path().to_owned(), Some(split_lines(text)))]);
        Self { cx, encoding, queried, lines, bytes: text.len() }
    }

    /// Renders a location; one without a URI is in the file of the query. Blocks.
    pub(super) fn render(&mut self, place: &LspLocation) -> RenderedLocation {
        if place.uri.is_empty() {
            return RenderedLocation::Item(Box::new(
                self.build_item(self.queried.path().to_owned(), place.start),
            ));
        }
        let Some(path) = uri::to_path(&place.uri) else { return RenderedLocation::Missing };
        let workspace = self.cx.workspace();
        let Ok(file) = workspace.resolve_path(&path, FinalLinkMode::Follow) else {
            return RenderedLocation::Missing;
        };
        if file.path() != self.queried.path() && !self.may_disclose(&path, &file) {
            return RenderedLocation::Denied;
        }
        self.load_lines(&file);
        RenderedLocation::Item(Box::new(self.build_item(file.path().to_owned(), place.start)))
    }

    fn may_disclose(&self, written: &Path, file: &ResolvedPath) -> bool {
        self.cx.may_read(written, file.path())
            && self.cx.may_read(Path::new(file.display_path()), file.path())
    }

    /// Reads a file of the workspace, so that its lines can be shown.
    fn load_lines(&mut self, file: &ResolvedPath) {
        let is_inside = file.target().zone() == PathZone::Workspace;
        if !is_inside || self.lines.contains_key(file.path()) || self.lines.len() >= FILES_MAX {
            return;
        }
        let rest = BYTES_MAX.saturating_sub(self.bytes) as u64;
        if !file.facts().is_ok_and(|facts| facts.is_some_and(|facts| facts.size <= rest)) {
            return;
        }
        let text = read_text(file, self.cx).ok();
        self.bytes += text.as_ref().map_or(0, |(text, _)| text.len());
        self.lines.insert(file.path().to_owned(), text.map(|(text, _)| split_lines(&text)));
    }

    fn build_item(&self, path: PathBuf, start: LspPosition) -> LspItem {
        let lines = self.lines.get(&path).and_then(Option::as_ref);
        let number = usize::try_from(start.line).unwrap_or(usize::MAX);
        let line = lines.and_then(|lines| lines.get(number));
        let character = match line {
            Some(line) => self.encoding.to_character(line, start.character),
            // Exact for ASCII, and an approximation for other text.
            None => start.character.saturating_add(1),
        };
        LspItem {
            file_path: self.cx.workspace().display_path(&path),
            line: start.line.saturating_add(1),
            character,
            text: line.map(|line| shorten_end(line, LINE_CHARS_MAX)),
            ..LspItem::default()
        }
    }
}

fn split_lines(text: &str) -> Arc<[String]> {
    position::lines(text).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::json;
    use zero_core::{Effects, RiskLevel, ToolError};
    use zero_runtime::{Tool, ToolInfo, ToolReply, erase};
    use zero_sandbox::Workspace;

    use super::*;
    use crate::test_host::TestHost;

    /// Renders the first location in each of some files, as for a query about the first of them.
    struct RenderLocationsTool;

    #[derive(Debug, Deserialize, JsonSchema)]
    struct RenderLocationsArgs {
        files: Vec<String>,
    }

    #[derive(Debug, Serialize, JsonSchema)]
    struct RenderLocationsOutput {
        lines: Vec<Option<String>>,
    }

    impl Tool for RenderLocationsTool {
        type Args = RenderLocationsArgs;
        type Output = RenderLocationsOutput;
        type Plan = Vec<ResolvedPath>;
        const NAME: &'static str = "Telling";

        fn info(&self) -> ToolInfo {
            ToolInfo::new("Tell places", RiskLevel::Low)
        }

        fn plan(&self, args: RenderLocationsArgs, at: &Workspace) -> Result<Self::Plan, ToolError> {
            args.files.iter().map(|file| at.resolve(file, FinalLinkMode::Follow)).collect()
        }

        fn effects(&self, _: &Self::Plan) -> Effects {
            Vec::new()
        }

        async fn run(
            &self,
            plan: Arc<Self::Plan>,
            cx: CallContext,
        ) -> Result<ToolReply<RenderLocationsOutput>, ToolError> {
            let rendered = cx.run_blocking(move |cx| {
                let mut teller =
                    LocationRenderer::new(cx, PositionEncoding::Utf8, &plan[0], "first\n");
                let tell = |file: &ResolvedPath| {
                    let place = LspLocation {
                        uri: uri::from_path(file.path()),
                        start: LspPosition::default(),
                    };
                    match teller.render(&place) {
                        RenderedLocation::Item(item) => item.text,
                        RenderedLocation::Denied | RenderedLocation::Missing => {
                            panic!("{}", file.display_path())
                        }
                    }
                };
                Ok(RenderLocationsOutput { lines: plan.iter().map(tell).collect() })
            });
            Ok(ToolReply::from_text("", rendered.await?))
        }
    }

    fn rendered_lines(host: &TestHost, files: &[String]) -> Vec<Option<String>> {
        let rendered = host.ok("Telling", json!({ "files": files })).structured;
        let lines = rendered["lines"].as_array().unwrap().iter();
        lines.map(|line| line.as_str().map(str::to_owned)).collect()
    }

    fn sample_host() -> TestHost {
        let host = TestHost::new();
        host.write_file("asked", b"first\n");
        host.add_tool(erase(RenderLocationsTool));
        host
    }

    #[test]
    fn bytes_read_for_locations_are_bounded() {
        let host = sample_host();
        let large = usize::try_from(super::super::FILE_BYTES_MAX).unwrap();
        let fit = BYTES_MAX / large;
        let mut text = b"large\n".to_vec();
        text.resize(large, b'x');
        let mut files = vec!["asked".to_owned()];
        // The bytes of the queried file count too, so that one file less fits.
        for number in 0..fit {
            files.push(format!("large{number}"));
            host.write_file(&format!("large{number}"), &text);
        }
        host.write_file("small", b"small\n");
        files.push("small".to_owned());
        let rendered = rendered_lines(&host, &files);
        let mut expected = vec![Some("first".to_owned())];
        expected.extend(vec![Some("large".to_owned()); fit - 1]);
        // A file that is too large is shown without its line, and the ones after it still fit.
        expected.extend([None, Some("small".to_owned())]);
        assert_eq!(rendered, expected);
    }

    #[test]
    fn files_opened_for_locations_are_bounded() {
        let host = sample_host();
        let mut files = vec!["asked".to_owned()];
        for number in 0..FILES_MAX {
            files.push(format!("f{number}"));
            host.write_file(&format!("f{number}"), b"other\n");
        }
        let rendered = rendered_lines(&host, &files);
        assert_eq!(rendered.iter().flatten().count(), FILES_MAX);
        assert_eq!(rendered.last(), Some(&None));
    }
}
