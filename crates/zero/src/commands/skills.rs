//! `zero skills`: lists the skills that sessions in a folder can use, and the errors in the others.

use std::fs::File;
use std::path::Path;

use serde_json::{Value, json};
use zero_runtime::rule_policy::is_denied_link;
use zero_runtime::skills::{SKILL_TOOL, ShadowedSkill, Skill, SkillCatalog, SkillSearch};

use crate::AppContext;
use crate::cli::SkillsArgs;
use crate::exit::ExitOutcome;
use crate::terminal::{TextTable, escape_line};

pub(super) fn run(app: &AppContext, args: &SkillsArgs) -> anyhow::Result<ExitOutcome> {
    let workspace = app.config.open_workspace(args.workspace.as_slice())?;
    let settings = app.load_settings(&workspace, &[])?;
    let policy = app.build_policy(&workspace, &settings, None)?;
    let user = app.user_skill_folder().0;
    let search = SkillSearch {
        workspace: &workspace,
        user: user.as_deref(),
        may_read: &|written: &Path, path: &Path| policy.may_read(SKILL_TOOL, written, path),
        is_denied_link: &|file: &File| is_denied_link(&*policy, &workspace, file),
    };
    let catalog = search.list();
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&catalog_to_json(&catalog))?;
        return Ok(ExitOutcome::Ok);
    }
    match catalog.skills.is_empty() {
        true => out.write("no skills; put one into .zero/skills/NAME/SKILL.md\n")?,
        false => {
            let mut table = TextTable::new(["NAME", "SCOPE", "FOLDER", "DESCRIPTION"]);
            for Skill { name, description, scope, folder } in &catalog.skills {
                table.add_row([
                    name.into(),
                    scope.as_str().into(),
                    folder.into(),
                    description.into(),
                ]);
            }
            out.write(&table.render(out))?;
        }
    }
    for ShadowedSkill { skill, used } in &catalog.shadowed {
        app.terminal.print_note(&format!(
            "`{}` is not used, because `{}` has the same name",
            escape_line(&skill.folder),
            escape_line(used)
        ));
    }
    for problem in &catalog.problems {
        let path = escape_line(&problem.path);
        app.terminal.print_error(&format!("`{path}`: {}", escape_line(&problem.message)));
    }
    Ok(ExitOutcome::Ok)
}

fn catalog_to_json(catalog: &SkillCatalog) -> Value {
    let skill = |skill: &Skill| {
        json!({
            "name": skill.name,
            "description": skill.description,
            "scope": skill.scope.as_str(),
            "folder": skill.folder,
        })
    };
    let shadowed = catalog.shadowed.iter().map(|shadowed| {
        let mut fields = skill(&shadowed.skill);
        fields["used"] = json!(shadowed.used);
        fields
    });
    let problems = catalog
        .problems
        .iter()
        .map(|problem| json!({"path": problem.path, "message": problem.message}));
    json!({
        "skills": catalog.skills.iter().map(skill).collect::<Vec<_>>(),
        "shadowed": shadowed.collect::<Vec<_>>(),
        "problems": problems.collect::<Vec<_>>(),
    })
}
