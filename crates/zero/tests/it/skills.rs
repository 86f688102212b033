//! `zero skills`, and what a session does with skills.

use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

const SKILL: &str = "---\nname: release\ndescription: How to release.\nallowed-tools: Bash\n---\nRun `scripts/go.sh` first.\n";

#[test]
fn skills_are_listed_with_what_is_wrong_with_others() {
    let zero = TestProgram::new();
    insta::assert_snapshot!(zero.run(&["skills"]), @"
    exit 0
    no skills; put one into .zero/skills/NAME/SKILL.md
    ");
    write_file(&zero, ".zero/skills/release/SKILL.md", SKILL);
    write_file(&zero, ".claude/skills/release/SKILL.md", SKILL);
    write_file(&zero, ".agents/skills/bad/SKILL.md", "---\ndescription: *x\n---\n");
    write_file(&zero, "home/.config/zero/skills/mine/SKILL.md", "---\ndescription: Mine.\n---\nx");
    let seen = zero.run(&["skills"]);
    assert!(seen.starts_with("exit 0\n"), "{seen}");
    for text in [
        "How to release.",
        "note: `.claude/skills/release` is not used, because `.zero/skills/release` has the same name",
        "error: `.agents/skills/bad/SKILL.md`: line 2: `*` has a special meaning",
    ] {
        assert!(seen.contains(text), "no `{text}`: {seen}");
    }
    let list: Value = serde_json::from_str(&zero.stdout(&["skills", "--json"])).unwrap();
    let names: Vec<&str> =
        list["skills"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["mine", "release"]);
    assert_eq!(list["skills"][0]["scope"], "user");
    assert_eq!(list["shadowed"][0]["used"], ".zero/skills/release");
    assert_eq!(list["problems"].as_array().unwrap().len(), 1);
}

#[test]
fn session_lists_skills_and_loads_one_that_grants_nothing() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    zero.stdout(&["run", "hi"]);
    let offers_skills = |at: usize| {
        let request = &model.requests()[at];
        let tools = request["tools"].as_array().unwrap().clone();
        tools.iter().any(|tool| tool["function"]["name"] == "Skill")
    };
    assert!(!offers_skills(0), "there are none");
    write_file(&zero, ".zero/skills/release/SKILL.md", SKILL);
    write_file(&zero, ".zero/skills/release/scripts/go.sh", "touch made.txt\n");
    let script = "script:\ncall Skill {\"skill\": \"release\"}\nturn\ncall Bash {\"command\": \"sh .zero/skills/release/scripts/go.sh\"}\nturn\nsay Done.";
    let seen = zero.run(&["run", script]);
    // The skill names a tool and its script; both are judged as without it.
    assert!(seen.starts_with("exit 3\n"), "{seen}");
    assert!(seen.contains("● Load the skill `release`"), "{seen}");
    assert!(!zero.folder().join("made.txt").exists());
    assert!(offers_skills(1));
    let requests = model.requests();
    let system = requests[1]["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("- release (project): How to release."), "{system}");
    assert!(!system.contains("scripts/go.sh"), "the text is not loaded yet: {system}");
    let loaded = requests[2]["messages"].as_array().unwrap().last().unwrap().to_string();
    assert!(loaded.contains("Run `scripts/go.sh` first."), "{loaded}");
}
