//! Skills of real folders: which are found, which win, and what hostile ones do.
#![expect(clippy::disallowed_methods, reason = "tests set up real files")]

use std::os::unix::fs::symlink;

use super::*;
use crate::policy::RiskPolicy;
use crate::rule_policy::is_denied_link;

struct SkillsFixture {
    temp: tempfile::TempDir,
}

impl SkillsFixture {
    fn new(files: &[(&str, &str)]) -> Self {
        let fixture = Self { temp: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(fixture.path("work")).unwrap();
        for (name, text) in files {
            fixture.write(name, text.as_bytes());
        }
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn search<T>(&self, denied: &str, run: impl FnOnce(&SkillSearch<'_>) -> T) -> T {
        let workspace = Workspace::open(&[self.path("work")], None).unwrap();
        let user = self.path("user");
        let may_read = |_: &Path, path: &Path| denied.is_empty() || !path.ends_with(denied);
        run(&SkillSearch {
            workspace: &workspace,
            user: Some(&user),
            may_read: &may_read,
            is_denied_link: &|file: &File| is_denied_link(&RiskPolicy, &workspace, file),
        })
    }

    fn list(&self) -> SkillCatalog {
        self.search("", |search| search.list())
    }

    /// Checks the skills as `name (scope) folder`, the shadowed ones and the problems.
    #[track_caller]
    fn check(&self, skills: &[&str], shadowed: &[&str], problems: &[&str]) {
        let catalog = self.list();
        let base = self.path("").display().to_string();
        let short = |text: String| text.replace(&base, "");
        let shown = |skill: &Skill| {
            short(format!("{} ({}) {}", skill.name, skill.scope.as_str(), skill.folder))
        };
        assert_eq!(catalog.skills.iter().map(shown).collect::<Vec<_>>(), skills);
        let hidden = catalog.shadowed.iter().map(|hidden| shown(&hidden.skill));
        assert_eq!(hidden.collect::<Vec<_>>(), shadowed);
        let found: Vec<String> = catalog
            .problems
            .iter()
            .map(|problem| short(format!("{}: {}", problem.path, problem.message)))
            .collect();
        assert_eq!(found.len(), problems.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(problems) {
            assert!(found.starts_with(expected), "{found} is not {expected}");
        }
    }

    fn load(&self, name: &str) -> Result<SkillText, SkillError> {
        self.search("", |search| search.load(name))
    }
}

const SKILL: &str = "---\ndescription: Does it.\n---\n\nDo it well.\n";

#[test]
fn skills_of_every_folder_are_found_and_first_one_wins() {
    let fixture = SkillsFixture::new(&[
        ("user/deploy/SKILL.md", SKILL),
        ("work/.zero/skills/deploy/SKILL.md", SKILL),
        ("work/.zero/skills/review/SKILL.md", SKILL),
        ("work/.agents/skills/review/SKILL.md", SKILL),
        ("work/.agents/skills/test/SKILL.md", SKILL),
        ("work/.claude/skills/test/SKILL.md", SKILL),
        ("work/.claude/skills/pdf/SKILL.md", SKILL),
        ("work/.claude/skills/none/README.md", "no skill"),
        ("work/.claude/skills/file.md", "no skill"),
    ]);
    fixture.check(
        &[
            "deploy (user) user/deploy",
            "pdf (project) .claude/skills/pdf",
            "review (project) .zero/skills/review",
            "test (project) .agents/skills/test",
        ],
        &[
            "deploy (project) .zero/skills/deploy",
            "review (project) .agents/skills/review",
            "test (project) .claude/skills/test",
        ],
        &[],
    );
    assert_eq!(fixture.load("deploy").unwrap().skill.scope, SkillScope::User);
}

#[test]
fn broken_skill_is_reported_and_others_load() {
    let fixture = SkillsFixture::new(&[
        ("work/.zero/skills/good/SKILL.md", SKILL),
        ("work/.zero/skills/none/SKILL.md", "Just text."),
        ("work/.zero/skills/other/SKILL.md", "---\nname: x\ndescription: y\n---\nz"),
        ("work/.zero/skills/tag/SKILL.md", "---\ndescription: !!js/function x\n---\nz"),
        ("work/.zero/skills/Wrong Name/SKILL.md", SKILL),
        ("work/.zero/skills/open/SKILL.md", "---\ndescription: y\n"),
    ]);
    let long = format!("---\ndescription: {}\n---\nz", "x".repeat(DESCRIPTION_CHARS_MAX + 1));
    fixture.write("work/.zero/skills/long/SKILL.md", long.as_bytes());
    let front = format!("---\ndescription: y\nother: {}\nmore: z\n---\nz", "x".repeat(20_000));
    fixture.write("work/.zero/skills/front/SKILL.md", front.as_bytes());
    let huge = format!("{SKILL}{}", "x".repeat(SKILL_BYTES_MAX));
    fixture.write("work/.zero/skills/huge/SKILL.md", huge.as_bytes());
    fixture.write("work/.zero/skills/binary/SKILL.md", b"---\ndescription: \xff\n---\nz");
    fixture.check(
        &["good (project) .zero/skills/good"],
        &[],
        &[
            ".zero/skills/Wrong Name/SKILL.md: a skill's folder must be named with 1 to 64",
            ".zero/skills/binary/SKILL.md: it is not UTF-8 text",
            ".zero/skills/front/SKILL.md: line 1: the front matter is larger than 16384 bytes",
            ".zero/skills/huge/SKILL.md: it is larger than 65536 bytes",
            ".zero/skills/long/SKILL.md: line 2: `description` has 1025 characters",
            ".zero/skills/none/SKILL.md: `description` is missing",
            ".zero/skills/open/SKILL.md: line 1: the front matter has no end",
            ".zero/skills/other/SKILL.md: line 2: `name` is `x`, but the folder is `other`",
            ".zero/skills/tag/SKILL.md: line 2: `!` has a special meaning",
        ],
    );
    let error = fixture.load("huge").unwrap_err().to_string();
    assert!(error.starts_with("the skill `huge` cannot be used: `.zero/skills/huge"), "{error}");
}

#[test]
fn links_are_not_followed() {
    let fixture = SkillsFixture::new(&[
        ("elsewhere/leak/SKILL.md", SKILL),
        ("elsewhere/leak/secret.txt", "secret"),
        ("work/.zero/skills/a/notes.md", "x"),
        ("user/kept/notes.md", "x"),
    ]);
    symlink("../../../elsewhere/leak", fixture.path("work/.zero/skills/leak")).unwrap();
    symlink("../../../../elsewhere/leak/SKILL.md", fixture.path("work/.zero/skills/a/SKILL.md"))
        .unwrap();
    symlink("../../elsewhere/leak/SKILL.md", fixture.path("user/kept/SKILL.md")).unwrap();
    std::fs::create_dir(fixture.path("work/.claude")).unwrap();
    symlink("../../elsewhere", fixture.path("work/.claude/skills")).unwrap();
    let folder = ".claude/skills: a link is on the way";
    fixture.check(
        &[],
        &[],
        &[
            folder,
            "user/kept/SKILL.md: it is not an ordinary file",
            ".zero/skills/a/SKILL.md: it is not an ordinary file",
            ".zero/skills/leak/SKILL.md: the folder is a link",
        ],
    );
    // The user may keep a whole skill elsewhere, but no file of it leads out of its folder.
    symlink("../elsewhere/leak", fixture.path("user/mine")).unwrap();
    symlink("/etc/passwd", fixture.path("elsewhere/leak/passwd")).unwrap();
    let loaded = fixture.load("mine").unwrap();
    assert_eq!(
        (loaded.text.as_str(), &loaded.files[..]),
        ("Do it well.", &["secret.txt".to_owned()][..])
    );
    let file = |file: &str| fixture.search("", |search| search.load_user_file("mine", file));
    assert_eq!(file("secret.txt").unwrap(), "secret");
    for outside in ["passwd", "../../work/x", "/etc/passwd", ""] {
        assert!(file(outside).is_err(), "{outside}");
    }
}

#[test]
fn text_and_files_are_loaded_when_used() {
    let fixture = SkillsFixture::new(&[
        (
            "work/.zero/skills/pdf/SKILL.md",
            "---\nname: pdf\ndescription: >\n  Reads\n  PDFs.\nallowed-tools: Bash\n---\n# PDF\n\nUse `scripts/read.py`.\n",
        ),
        ("work/.zero/skills/pdf/scripts/read.py", "x"),
        ("work/.zero/skills/pdf/secret.md", "x"),
        ("work/.zero/skills/pdf/.hidden", "x"),
        ("work/.zero/skills/empty/SKILL.md", "---\ndescription: x\n---\n \n"),
    ]);
    let loaded = fixture.search("secret.md", |search| search.load("pdf")).unwrap();
    assert_eq!(loaded.skill.description, "Reads PDFs.");
    assert_eq!(loaded.text, "# PDF\n\nUse `scripts/read.py`.");
    assert_eq!((loaded.files, loaded.has_more_files), (vec!["scripts/read.py".to_owned()], false));
    let error = |name: &str| fixture.load(name).unwrap_err().to_string();
    assert!(error("empty").contains("there is no text after the front matter"));
    assert_eq!(error("pfd"), "there is no skill `pfd`; did you mean `pdf`?");
    assert!(error("../pdf").starts_with("there is no skill `../pdf`"));
    let file = fixture.search("", |search| search.load_user_file("pdf", "scripts/read.py"));
    assert!(file.unwrap_err().to_string().contains("use Read with this path"));
    // A skill that may not be read is not there.
    assert_eq!(fixture.search(SKILL_FILE, |search| search.list()), SkillCatalog::default());
}

#[test]
fn list_in_context_is_bounded() {
    assert_eq!(render_list(&[]), None);
    let skill = |at: usize| Skill {
        name: format!("skill-{at}"),
        description: "word ".repeat(200),
        scope: SkillScope::Project,
        folder: String::new(),
    };
    let skills: Vec<Skill> = (0..400).map(skill).collect();
    let text = render_list(&skills).unwrap();
    assert!(text.len() < LISTED_BYTES_MAX + 2_200, "{}", text.len());
    assert!(text.contains("\n- skill-0 (project): word word"), "{text}");
    assert!(text.contains("There is no room to describe these: skill-"), "{text}");
    let fixture = SkillsFixture::new(&[]);
    for at in 0..SKILLS_MAX + 5 {
        fixture.write(&format!("user/s{at}/SKILL.md"), SKILL.as_bytes());
    }
    let catalog = fixture.list();
    assert_eq!((catalog.skills.len(), catalog.problems.len()), (SKILLS_MAX, 1));
}
