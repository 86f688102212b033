//! The canonical tools, one file each.
//!
//! A tool turns checked arguments into a plan (paths located, patterns compiled), says what the
//! plan will touch, and runs it. It never asks, spawns or times itself, and reaches files only
//! through the handles its plan located: the pipeline and the workspace do the rest.

use std::sync::Arc;

use zero_runtime::{AnyTool, erase};

pub use self::document::picture_type;

pub mod ask_user_question;
pub mod bash;
pub mod bash_kill;
pub mod bash_output;
pub mod delete;
pub mod diff;
pub mod discovered;
mod document;
pub mod edit;
pub mod examples;
mod file_glob;
mod file_page;
mod file_path;
pub mod glob;
pub mod grep;
mod landed;
pub mod ls;
pub mod lsp;
pub mod memory;
pub mod missing;
pub mod paging;
mod path_pattern;
pub mod plan;
pub mod previewed;
pub mod read;
pub mod read_many;
pub mod task_list;
#[cfg(test)]
mod testing;
pub mod text;
pub mod todo_write;
mod untrusted;
mod walk;
mod web_address;
pub mod web_fetch;
pub mod web_request;
pub mod web_search;
mod wording;
pub mod write;

/// The tools that come with zero.
pub fn builtin() -> Vec<Arc<dyn AnyTool>> {
    vec![
        erase(read::Read),
        erase(read_many::ReadMany),
        erase(write::Write),
        erase(edit::Edit),
        erase(delete::Delete),
        erase(ls::Ls),
        erase(glob::Glob),
        erase(grep::Grep),
        erase(bash::Bash),
        erase(bash_output::BashOutput),
        erase(bash_kill::BashKill),
        erase(lsp::Lsp),
        erase(web_fetch::WebFetch::default()),
        erase(web_search::WebSearch::default()),
        erase(web_request::WebRequest),
        erase(todo_write::TodoWrite),
        erase(plan::Plan),
        erase(memory::Memory),
        erase(ask_user_question::AskUserQuestion::default()),
    ]
}

#[cfg(test)]
mod tests {
    use zero_runtime::Particulars;
    use zero_runtime::schema::foreign;

    #[test]
    fn every_input_schema_is_fit_to_be_offered() {
        for tool in super::builtin() {
            let spec = tool.spec();
            let mut schema = spec.input_schema.clone();
            assert_eq!(foreign::vet_input(&mut schema), Ok(()), "{}", spec.name);
            assert_eq!(schema, spec.input_schema, "{}", spec.name);
        }
    }

    #[test]
    fn every_tool_says_what_it_does_to_the_world() {
        for tool in super::builtin() {
            let (name, said) = (&tool.spec().name, tool.particulars());
            assert_ne!(said.effects, Particulars::default().effects, "{name}");
            let mut whats: Vec<&str> = said.bounds.iter().map(|bound| bound.what).collect();
            whats.sort_unstable();
            // Two bounds on one thing are of different kinds, such as lines and bytes.
            assert!(whats.chunk_by(|a, b| a == b).all(|same| same.len() <= 2), "{name}: {whats:?}");
        }
    }
}
