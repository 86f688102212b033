//! The built-in tools, one file each.
//!
//! A tool turns validated arguments into a plan (paths resolved, patterns compiled), declares the
//! effects of the plan, and runs it. It never asks for permission, starts a process or enforces its
//! deadline itself: the runtime does that. It accesses files only through the handles that its plan
//! resolved.

use std::sync::Arc;

use zero_runtime::{AnyTool, MissingTool, erase};

pub use self::file_listing::list_files;
pub use self::readable_file::image_media_type;

pub mod ask_user_question;
pub mod bash;
pub mod bash_kill;
pub mod bash_output;
pub mod delete;
pub mod diff;
pub mod edit;
mod editor_change_note;
pub mod examples;
mod file_backup;
mod file_glob;
mod file_listing;
mod file_page;
mod file_path;
pub mod glob;
pub mod grep;
pub mod ls;
pub mod lsp;
pub mod memory;
pub mod paging;
mod path_glob_set;
pub mod path_not_found;
pub mod plan;
pub mod preview_fingerprint;
pub mod read;
pub mod read_many;
mod readable_file;
pub mod skill;
pub mod task_list;
#[cfg(test)]
mod test_host;
pub mod text_encoding;
mod text_format;
pub mod todo_write;
pub mod tool_discovery;
#[cfg(feature = "web")]
mod untrusted_text;
mod walk;
mod web;
#[cfg(feature = "web")]
mod web_address;
#[cfg(feature = "web")]
pub mod web_fetch;
#[cfg(feature = "web")]
pub mod web_request;
#[cfg(feature = "web")]
pub mod web_search;
pub mod write;

/// Returns the tools that this build has.
pub fn builtin_tools() -> Vec<Arc<dyn AnyTool>> {
    let files_and_commands = vec![
        erase(read::ReadTool),
        erase(read_many::ReadManyTool),
        erase(write::WriteTool),
        erase(edit::EditTool),
        erase(delete::DeleteTool),
        erase(ls::LsTool),
        erase(glob::GlobTool),
        erase(grep::GrepTool),
        erase(bash::BashTool),
        erase(bash_output::BashOutputTool),
        erase(bash_kill::BashKillTool),
    ];
    let work = vec![
        erase(todo_write::TodoWriteTool),
        erase(plan::PlanTool),
        erase(memory::MemoryTool),
        erase(skill::SkillTool),
        erase(ask_user_question::AskUserQuestionTool::default()),
    ];
    [files_and_commands, lsp::tools(), web::tools(), work].concat()
}

/// Returns the tools that this build lacks, because it was made without some features.
pub fn missing_tools() -> Vec<MissingTool> {
    [lsp::MISSING, web::MISSING].concat()
}

#[cfg(test)]
mod tests {
    use zero_runtime::ToolNotes;
    use zero_runtime::schema::foreign_schema;

    #[test]
    fn input_schemas_pass_vetting() {
        for tool in super::builtin_tools() {
            let spec = tool.spec();
            let mut schema = spec.input_schema.clone();
            assert_eq!(foreign_schema::vet_input(&mut schema), Ok(()), "{}", spec.name);
            assert_eq!(schema, spec.input_schema, "{}", spec.name);
        }
    }

    #[test]
    fn every_tool_describes_its_effects_and_bounds() {
        for tool in super::builtin_tools() {
            let (name, notes) = (&tool.spec().name, tool.notes());
            assert_ne!(notes.effects, ToolNotes::default().effects, "{name}");
            let mut whats: Vec<&str> = notes.bounds.iter().map(|bound| bound.what).collect();
            whats.sort_unstable();
            // Two bounds with the same label have different units, such as lines and bytes.
            assert!(whats.chunk_by(|a, b| a == b).all(|same| same.len() <= 2), "{name}: {whats:?}");
        }
    }
}
