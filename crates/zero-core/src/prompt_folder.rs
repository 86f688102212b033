//! The folder before a prompt: `[Working directory: ~/project]` and an empty line.
//!
//! Clients put it there for the model. Whatever reads the prompt itself, such as titles and commands,
//! removes it first.

/// Text before the folder.
const PREFIX: &str = "[Working directory: ";
/// Text after the folder.
const SUFFIX: &str = "]\n\n";

/// Puts `folder`, one line, before a prompt.
pub fn add_folder(prompt: &mut String, folder: &str) {
    prompt.insert_str(0, &format!("{PREFIX}{folder}{SUFFIX}"));
}

/// Removes the folder before a prompt.
pub fn strip_folder(prompt: &str) -> &str {
    let after = prompt.strip_prefix(PREFIX).and_then(|rest| rest.split_once(SUFFIX));
    match after {
        Some((folder, text)) if !folder.contains('\n') => text,
        _ => prompt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(prompt: &str, expected: &str) {
        assert_eq!(strip_folder(prompt), expected);
    }

    #[test]
    fn folder_prefix_can_be_stripped() {
        check("[Working directory: ~/project]\n\nhi", "hi");
        check("[Working directory: ~/project] hi", "[Working directory: ~/project] hi");
        check("[Working directory: a\nb]\n\nhi", "[Working directory: a\nb]\n\nhi");
        check("hi [Working directory: x]\n\n", "hi [Working directory: x]\n\n");
        let mut prompt = "hi".to_owned();
        add_folder(&mut prompt, "~/a]b");
        assert_eq!(prompt, "[Working directory: ~/a]b]\n\nhi");
        check(&prompt, "hi");
    }
}
