//! The instructions for agents that are proposed for a project without any.

use super::project_rules::CommandPurpose;
use super::project_survey::ProjectSurvey;

/// The text of `AGENTS.md`: only what the files of the project say.
pub(super) fn agents_text(survey: &ProjectSurvey) -> String {
    let mut text = format!("# {}\n", survey.name);
    if !survey.languages.is_empty() {
        text += &format!("\nLanguages: {}.", survey.languages.join(", "));
        if !survey.build_tools.is_empty() {
            text += &format!(" Build tools: {}.", survey.build_tools.join(", "));
        }
        text.push('\n');
    }
    if !survey.commands.is_empty() {
        text += "\n## Commands\n\n";
        let names = [
            (CommandPurpose::Build, "Build"),
            (CommandPurpose::Test, "Test"),
            (CommandPurpose::Check, "Check"),
        ];
        for (purpose, name) in names {
            let commands = survey.commands.iter().filter(|command| command.purpose == purpose);
            let commands: Vec<String> =
                commands.map(|command| format!("`{}`", command.rule)).collect();
            if !commands.is_empty() {
                text += &format!("- {name}: {}\n", commands.join(", "));
            }
        }
        text += "\nRun the tests before you say that something works.\n";
    }
    let rules: Vec<&String> = survey
        .other_agents
        .iter()
        .filter(|agent| agent.import.is_none())
        .flat_map(|agent| &agent.files)
        .collect();
    if !rules.is_empty() {
        text += "\n## Rules\n\nRead these files before you change code:\n\n";
        rules.iter().for_each(|file| text += &format!("- `{file}`\n"));
    }
    text
}
