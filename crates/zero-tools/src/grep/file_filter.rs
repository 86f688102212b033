//! The filters that select the files of a Grep ([`GrepFileFilter`]).

use std::path::Path;

use ignore::types::{Types, TypesBuilder};
use zero_core::{ErrorReason, ToolError};
use zero_runtime::name_suggestions::suggest_names;

use crate::path_glob_set::PathGlobSet;
use crate::walk::{FileWalk, WalkEntryKind};

/// Selects the files to search, in addition to what the walk excludes.
#[derive(Clone, Default)]
pub(super) struct GrepFileFilter {
    only: Option<PathGlobSet>,
    exclude: Option<PathGlobSet>,
    types: Option<Types>,
}

impl GrepFileFilter {
    pub(super) fn parse(
        glob: Option<&str>,
        exclude: Option<&[String]>,
        file_type: Option<&str>,
    ) -> Result<Self, ToolError> {
        let (only, negated) = match glob.map(|glob| glob.strip_prefix('!').ok_or(glob)) {
            None => (None, None),
            Some(Err(only)) => (Some(PathGlobSet::from_name_globs([only])?), None),
            Some(Ok(negated)) => (None, Some(negated)),
        };
        // `dist/` and `dist` exclude the same files.
        let exclude: Vec<&str> = negated
            .into_iter()
            .chain(exclude.unwrap_or_default().iter().map(String::as_str))
            .map(|glob| glob.strip_suffix('/').unwrap_or(glob))
            .collect();
        let exclude =
            (!exclude.is_empty()).then(|| PathGlobSet::from_name_globs(exclude)).transpose()?;
        Ok(Self { only, exclude, types: file_type.map(file_types).transpose()? })
    }

    pub(super) fn build_walk(&self) -> FileWalk {
        let exclude = self.exclude.clone();
        FileWalk {
            hidden: self.only.as_ref().is_some_and(PathGlobSet::matches_hidden),
            types: self.types.clone(),
            enter: exclude.map(|exclude| {
                Box::new(move |path: &Path, _: WalkEntryKind| !exclude.is_match(path)) as _
            }),
            ..FileWalk::default()
        }
    }

    pub(super) fn accepts(&self, relative: &Path) -> bool {
        self.only.as_ref().is_none_or(|only| only.is_match(relative))
    }
}

fn file_types(name: &str) -> Result<Types, ToolError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults().select(name);
    builder.build().map_err(|_| {
        let known = builder.definitions();
        let similar = suggest_names(name, known.iter().map(|known| known.name()), 3);
        let advice = match similar.is_empty() {
            true => {
                "use a name such as `rust`, `ts` or `py`, or a `glob` such as `*.rs`".to_owned()
            }
            false => format!(
                "did you mean `{}`? otherwise use a `glob` such as `*.rs`",
                similar.join("`, `")
            ),
        };
        ToolError::invalid(
            ErrorReason::BadPattern,
            format!("there is no file type `{name}`; {advice}"),
        )
        .with_detail("type", name)
    })
}
