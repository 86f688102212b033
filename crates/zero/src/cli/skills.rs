//! Command-line arguments of `zero skills`.

use std::path::PathBuf;

use clap::Args;

/// `zero skills`
#[derive(Debug, Args)]
#[command(
    after_help = "A skill is a folder with a SKILL.md, which explains how to do one kind of task. Sessions have the
names and descriptions in their context and load the text when they use a skill. zero reads your
skills in zero/skills beside your settings, then those of the workspace in .zero/skills,
.agents/skills and .claude/skills. If two have the same name, the first one is used.

Examples:
  zero skills                       list the skills, and the errors in those that cannot be used
  zero skills --json | jq .skills
  zero tools call Skill '{\"skill\": \"deploy\"}'

Exit codes: 0 done, 1 error, 2 wrong usage."
)]
pub struct SkillsArgs {
    /// Workspace folder [default: current folder]
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
