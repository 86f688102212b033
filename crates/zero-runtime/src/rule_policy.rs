//! The policy of a host with rules.

mod denied_files;

use std::fs::File;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use zero_core::Effect;
use zero_exec::LocalMachine;
use zero_policy::{
    ConnectDeniedError, ConnectPermission, ConnectRequest, DecisionRequest, GrantScope,
    PermissionMode, PolicyDecision, PolicyEngine, RuleOwner, Verdict,
};
use zero_sandbox::Workspace;
use zero_sandbox::path_survey::{self, HardLinks};

use crate::policy::{CommandPolicy, DeniedChanges, DeniedFiles, Policy, PolicyRequest};

/// Most denied files that are compared with a file that has several names.
const DENIED_MAX: usize = 400;
/// The tool that runs commands.
const COMMAND_TOOL: &str = "Bash";

/// Decides by rules, mode and risk, with facts about this machine.
#[derive(Debug)]
pub struct RulePolicy {
    engine: PolicyEngine,
    /// Folders in which programs are searched.
    search_path: Vec<PathBuf>,
}

impl RulePolicy {
    /// A policy with this engine, on a machine with this `PATH`.
    pub fn new(engine: PolicyEngine, search_path: Vec<PathBuf>) -> Self {
        Self { engine, search_path }
    }
}

impl RulePolicy {
    fn decide_with(&self, engine: &PolicyEngine, request: &PolicyRequest<'_>) -> PolicyDecision {
        engine.decide(DecisionRequest {
            tool: request.spec.name.as_str(),
            risk: request.spec.risk,
            effects: request.effects,
            arguments: request.arguments,
            grants: request.grants,
            mode: request.mode,
            machine: &LocalMachine::new(&self.search_path)
                .with_commands(request.commands)
                .with_temp(request.temp, request.workspace.roots()),
        })
    }

    /// Why a file that a tool names may not be used: it is a denied file by another name.
    fn find_denied_name(
        &self,
        request: &PolicyRequest<'_>,
        decision: &PolicyDecision,
    ) -> Option<String> {
        if decision.verdict == Verdict::Deny || !self.engine.has_read_guards() {
            return None;
        }
        let named = request.effects.iter().filter_map(|effect| match effect {
            Effect::Read(path) | Effect::Write(path) | Effect::Delete(path) => {
                Some(path.canonical())
            }
            _ => None,
        });
        let named: Vec<(&Path, HardLinks)> =
            named.filter_map(|path| Some((path, read_several_links(path)?))).collect();
        if named.is_empty() {
            return None;
        }
        // If they cannot be listed, no command runs either.
        let Some(denied) = find_linked_denied_files(self, request.workspace) else {
            let (path, _) = named.first()?;
            return Some(format!(
                "`{}` has another name (a hard link), and rules deny too many files to compare",
                path.display()
            ));
        };
        named.iter().find_map(|(path, links)| {
            let is_same = |(other, identity): &&(PathBuf, (u64, u64))| {
                *identity == links.identity && other.as_path() != *path
            };
            let (other, _) = denied.iter().find(is_same)?;
            Some(format!(
                "`{}` is another name (a hard link) of `{}`, which a rule denies",
                path.display(),
                other.display()
            ))
        })
    }
}

/// The links of a file with several names.
fn read_several_links(path: &Path) -> Option<HardLinks> {
    path_survey::read_hard_links(path).filter(|links| links.names > 1)
}

/// The denied files that have several names, with their identities; `None` if there are too many
/// denied files to list.
pub(crate) fn find_linked_denied_files(
    policy: &(impl CommandPolicy + ?Sized),
    workspace: &Workspace,
) -> Option<Vec<(PathBuf, (u64, u64))>> {
    let DeniedFiles::All(denied) = policy.denied_files(workspace, DENIED_MAX) else { return None };
    let linked = |path: PathBuf| {
        let identity = read_several_links(&path)?.identity;
        Some((path, identity))
    };
    Some(denied.into_iter().filter_map(linked).collect())
}

/// Whether a file that was opened for the context is one that a rule denies, by another name (a hard
/// link). It counts as one if there are too many denied files to compare.
pub fn is_denied_link(policy: &dyn Policy, workspace: &Workspace, file: &File) -> bool {
    if !policy.filters_reads() {
        return false;
    }
    let Ok(facts) = file.metadata() else { return true };
    if facts.nlink() <= 1 {
        return false;
    }
    let identity = (facts.dev(), facts.ino());
    let denied = find_linked_denied_files(policy, workspace);
    denied.is_none_or(|denied| denied.iter().any(|(_, other)| *other == identity))
}

impl Policy for RulePolicy {
    fn decide(&self, request: PolicyRequest<'_>) -> PolicyDecision {
        let decision = self.decide_with(&self.engine, &request);
        match self.find_denied_name(&request, &decision) {
            Some(reason) => PolicyDecision {
                verdict: Verdict::Deny,
                reason,
                rule: None,
                source: None,
                grants: Vec::new(),
                ..decision
            },
            None => decision,
        }
    }

    fn would_allow(
        &self,
        request: PolicyRequest<'_>,
        rules: &[GrantScope],
        owner: RuleOwner,
    ) -> bool {
        let request = PolicyRequest { grants: &[], ..request };
        let engine = self.engine.with_allow_rules(rules, owner);
        engine.is_some_and(|engine| self.decide_with(&engine, &request).verdict == Verdict::Allow)
    }

    fn default_mode(&self) -> PermissionMode {
        self.engine.mode()
    }

    fn may_read(&self, tool: &str, written: &Path, canonical: &Path) -> bool {
        self.engine.may_read(tool, written, canonical)
    }

    fn allows_read(&self, canonical: &Path, grants: &[GrantScope]) -> bool {
        self.engine.allows_read(canonical, grants)
    }

    fn filters_reads(&self) -> bool {
        self.engine.filters_reads()
    }

    fn filters_reads_in(&self, folder: &Path) -> bool {
        self.engine.filters_reads() || self.engine.contains_own_files(folder)
    }
}

impl CommandPolicy for RulePolicy {
    fn may_change(&self, canonical: &Path) -> bool {
        self.engine.may_change(canonical)
    }

    fn denied_files(&self, workspace: &Workspace, most: usize) -> DeniedFiles {
        // zero's own files are hidden from commands anyway.
        if !self.engine.has_read_guards() {
            return DeniedFiles::All(Vec::new());
        }
        let roots = workspace.roots().map(Path::to_owned);
        let starts: Vec<PathBuf> = roots.chain(self.engine.denied_read_roots()).collect();
        let may_read = |path: &Path, denotes: &Path| self.may_read(COMMAND_TOOL, path, denotes);
        denied_files::find(starts, most, &may_read).map_or_else(
            || DeniedFiles::TooMany { rules: self.engine.count_read_guards() },
            DeniedFiles::All,
        )
    }

    fn readable_paths(&self) -> Vec<PathBuf> {
        self.engine.allowed_read_roots()
    }

    fn denied_changes(&self, workspace: &Workspace, most: usize) -> Option<DeniedChanges> {
        let rules = self.engine.count_change_guards();
        if rules == 0 {
            return None;
        }
        let roots = workspace.roots().map(Path::to_owned).collect();
        let may_change = |path: &Path, denotes: &Path| !self.engine.denies_change(path, denotes);
        let found = denied_files::search(roots, most, &may_change);
        Some(DeniedChanges {
            paths: found.paths.into_iter().chain(found.links).collect(),
            link_targets: found.link_targets,
            too_many: (!found.is_complete).then_some(rules),
        })
    }

    fn authorize_host(
        &self,
        connect_request: ConnectRequest<'_>,
    ) -> Result<ConnectPermission, ConnectDeniedError> {
        self.engine.may_connect(connect_request)
    }

    fn can_allow_any_host(&self, grants: &[GrantScope]) -> bool {
        self.engine.can_connect_anywhere(grants)
    }

    fn authorize_address(
        &self,
        address: IpAddr,
        inside: Option<&'static str>,
    ) -> Result<(), ConnectDeniedError> {
        self.engine.may_connect_to_address(address, inside)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use zero_policy::rule::{PolicyRule, RuleOwner, RuleSource};
    use zero_policy::{PermissionMode, PolicyEngineConfig};

    #[test]
    fn denied_files_outside_workspace_are_found() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        for name in ["home/notes/a", "home/other", "work/.env", "work/deep/.env", "out/key"] {
            std::fs::create_dir_all(base.join(name).parent().unwrap()).unwrap();
            std::fs::write(base.join(name), "").unwrap();
        }
        let workspace = Workspace::open(&[base.join("work")], None).unwrap();
        let denied = |rules: &[String]| {
            let rules = rules.iter().map(|text| {
                let source =
                    RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
                PolicyRule::parse(text, Verdict::Deny, source).unwrap()
            });
            let engine = PolicyEngine::new(PolicyEngineConfig {
                rules: rules.collect(),
                mode: PermissionMode::Ask,
                roots: vec![base.join("work")],
                home: Some(base.join("home")),
                ..PolicyEngineConfig::default()
            });
            RulePolicy::new(engine, Vec::new()).denied_files(&workspace, 100)
        };
        #[track_caller]
        fn check(found: DeniedFiles, base: &Path, expected: &[&str]) {
            let expected: Vec<PathBuf> = expected.iter().map(|name| base.join(name)).collect();
            assert_eq!(found, DeniedFiles::All(expected));
        }
        check(denied(&["Read(.env)".to_owned()]), &base, &["work/.env", "work/deep/.env"]);
        check(denied(&["Read(~/notes/**)".to_owned()]), &base, &["home/notes"]);
        check(denied(&["Read(~/notes/a)".to_owned()]), &base, &["home/notes/a"]);
        check(denied(&["Read(//etc/passwd)".to_owned()]), &base, &["/etc/passwd"]);
        let pattern = format!("Read(/{}/out/**/k*)", base.display());
        check(denied(&[pattern]), &base, &["out/key"]);
        // A name that is denied everywhere is hidden everywhere, or no command runs.
        let everywhere = denied(&["Read(//**/zero-no-such-name)".to_owned()]);
        let expected = [DeniedFiles::TooMany { rules: 1 }, DeniedFiles::All(Vec::new())];
        assert!(expected.contains(&everywhere));
    }
}
