//! Names of servers' tools in the host: `alias__tool`, as [`ToolName::from_namespaced`] builds
//! them.
//!
//! A name depends only on the tool, not on what else its server lists or in which order, so a
//! permission rule for a name always applies to the same tool. Names that clash, perhaps on
//! purpose, are found here, before a call could reach the wrong tool.

use std::collections::BTreeMap;

use zero_core::ToolName;

use super::sanitize;
use crate::server_definition::ServerAlias;

/// Maximum length of a server's name for a tool, in bytes.
const OWN_NAME_BYTES_MAX: usize = 256;

/// Returns the host's names for the tools that a server calls `own`, in the same order, or why a
/// tool gets none. If two tools would get the same name, it goes to the one whose own name it is,
/// or else to the first by its own name.
pub(crate) fn assign_names<'a>(
    alias: &ServerAlias,
    own: impl IntoIterator<Item = &'a str>,
) -> Vec<Result<ToolName, String>> {
    let named: Vec<_> = own.into_iter().map(|own| (own, build_name(alias, own))).collect();
    let is_own = |name: &ToolName, own: &str| {
        name.as_str().strip_prefix(alias.as_str()).and_then(|rest| rest.strip_prefix("__"))
            == Some(own)
    };
    let mut holders: BTreeMap<ToolName, &str> = BTreeMap::new();
    for (own, name) in &named {
        let Ok(name) = name else { continue };
        let holder = holders.entry(name.clone()).or_insert(own);
        if is_own(name, own) || (!is_own(name, holder) && own < holder) {
            *holder = own;
        }
    }
    let assigned = named.into_iter().map(|(own, name)| {
        let name = name?;
        match holders.get(&name) {
            Some(holder) if *holder != own => Err(format!(
                "its name would be `{name}`, which {} has",
                sanitize::to_quoted_line(holder)
            )),
            _ => Ok(name),
        }
    });
    assigned.collect()
}

fn build_name(alias: &ServerAlias, own: &str) -> Result<ToolName, String> {
    if own.is_empty() || own.len() > OWN_NAME_BYTES_MAX {
        return Err(format!("its name has {} bytes, not 1 to {OWN_NAME_BYTES_MAX}", own.len()));
    }
    ToolName::from_namespaced(alias.as_str(), own).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(own: &[&str], expected: &[&str]) {
        let alias = ServerAlias::new("git-hub").unwrap();
        let names: Vec<String> = assign_names(&alias, own.iter().copied())
            .into_iter()
            .map(|name| name.map_or_else(|why| why, |name| name.to_string()))
            .collect();
        assert_eq!(names, expected, "{own:?}");
    }

    #[test]
    fn tool_name_depends_only_on_the_tool() {
        check(&["create_issue", "1st"], &["git-hub__create_issue", "git-hub__1st"]);
        check(&["a.b", "a_b"], &["git-hub__a_b_e27bcb35", "git-hub__a_b"]);
        check(&["a_b", "a.b"], &["git-hub__a_b", "git-hub__a_b_e27bcb35"]);
        let (long, longest) = ("a".repeat(257), "a".repeat(256));
        check(
            &["", &long],
            &["its name has 0 bytes, not 1 to 256", "its name has 257 bytes, not 1 to 256"],
        );
        let alias = ServerAlias::new("a".repeat(ServerAlias::LEN_MAX)).unwrap();
        let name = build_name(&alias, &longest).unwrap();
        assert_eq!(name.as_str().len(), ToolName::LEN_MAX);
    }

    #[test]
    fn clashing_names_keep_only_one_tool() {
        // A tool whose own name equals the derived name of another keeps it, in any order.
        let taken = "its name would be `git-hub__a_b_e27bcb35`, which `a_b_e27bcb35` has";
        check(&["a.b", "a_b_e27bcb35"], &[taken, "git-hub__a_b_e27bcb35"]);
        check(&["a_b_e27bcb35", "a.b"], &["git-hub__a_b_e27bcb35", taken]);
        // Two names that were searched for: different characters, the same hash suffix.
        let (one, other) = ("\u{12c6b}", "\u{2feed}");
        let taken = format!("its name would be `git-hub____dbd45d73`, which `{one}` has");
        check(&[one, other], &["git-hub____dbd45d73", &taken]);
        check(&[other, one], &[&taken, "git-hub____dbd45d73"]);
    }
}
