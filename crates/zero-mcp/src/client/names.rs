//! The names that tools of servers have here: `alias__tool`.
//!
//! A name that survives as it is stays as it is. Every other, because a character had to be
//! replaced or because it had to be cut, ends in a hash of the server's own name for it: always,
//! and not only where it would clash with a neighbour. So a tool has the same name whatever else
//! its server lists, and in whatever order, and what a person allowed by name stays allowed to
//! that tool and no other.

use zero_core::ToolName;
use zero_sandbox::journal::sha256;

use crate::definition::Alias;

/// Digits of the hash at the end of a changed name.
const HASH_DIGITS: usize = 6;
/// Longest name of a server's own, in bytes, that is looked at.
const OWN_NAME_BYTES_MAX: usize = 256;

/// The name here of a tool that its server calls `own`; otherwise, why it can have none.
pub(crate) fn name(alias: &Alias, own: &str) -> Result<ToolName, String> {
    if own.is_empty() || own.len() > OWN_NAME_BYTES_MAX {
        return Err(format!("its name has {} bytes, not 1 to {OWN_NAME_BYTES_MAX}", own.len()));
    }
    ToolName::new(format!("{alias}__{own}"))
        .or_else(|_| ToolName::new(changed(alias, own)))
        .map_err(|error| error.to_string())
}

/// The nearest name that can be one, with the hash that makes it the only one.
fn changed(alias: &Alias, own: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let room = ToolName::LEN_MAX - alias.as_str().len() - "__".len() - "_".len() - HASH_DIGITS;
    let clean: String = own.chars().map(|c| if fits(c) { c } else { '_' }).take(room).collect();
    let hash: String = sha256(own.as_bytes()).chars().take(HASH_DIGITS).collect();
    format!("{alias}__{clean}_{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(own: &str, expected: &str) {
        let name = name(&Alias::new("git-hub").unwrap(), own);
        assert_eq!(name.map_or_else(|why| why, |name| name.to_string()), expected, "{own:?}");
    }

    #[test]
    fn a_name_depends_on_the_tool_alone() {
        check("create_issue", "git-hub__create_issue");
        check("1st", "git-hub__1st");
        check("__x__", "git-hub____x__");
        check("a-b", "git-hub__a-b");
        check("a_b", "git-hub__a_b");
        check("a.b", "git-hub__a_b_2e7336");
        check("a/b", "git-hub__a_b_c14cdd");
        check("é", "git-hub____4a9955");
        check("a\nb", "git-hub__a_b_7e18f7");
        check("", "its name has 0 bytes, not 1 to 256");
        check(&"a".repeat(257), "its name has 257 bytes, not 1 to 256");
    }

    #[test]
    fn a_long_name_is_cut_and_stays_the_only_one() {
        let longest = "a".repeat(55);
        check(&longest, &format!("git-hub__{longest}"));
        let alias = Alias::new("a".repeat(Alias::LEN_MAX)).unwrap();
        for (one, other) in
            [("x".repeat(60) + "1", "x".repeat(60) + "2"), ("a.b".into(), "a/b".into())]
        {
            let [one, other] = [one, other].map(|own| name(&alias, &own).unwrap());
            assert!(one != other && one.as_str().len() <= ToolName::LEN_MAX, "{one} {other}");
        }
    }
}
