//! Subcommands that publish, deploy, tear down or prune.
//!
//! A row reads like a command line: `system prune` are words in this order with options anywhere
//! between, `*` is any word, `delete*` and `*:destroy` match parts, and `-f|--force` requires one
//! of these options.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::super::npm;
use super::CriticalFinding;
use crate::program::arguments::known_text;
use crate::shell::ShellArg;
use crate::word_list::words;

struct SubcommandRow {
    programs: &'static [&'static str],
    /// Separated by `;`.
    acts: &'static str,
    why: &'static str,
}

macro_rules! subcommands {
    ($($why:tt $programs:literal $acts:literal;)*) => {
        &[$(SubcommandRow { programs: words!($programs), acts: $acts, why: $why }),*]
    };
}

const PUBLISHES: &str = "publishes for everyone to see";
const REMOVES: &str = "removes what others may depend on";
const DEPLOYS: &str = "changes what is running for others";
const PRUNES: &str = "removes containers, images or volumes";

const ROWS: &[SubcommandRow] = subcommands! {
    PUBLISHES "npm pnpm yarn bun"
        "publish; unpublish; deprecate; undeprecate; npm publish; npm unpublish; pm publish; \
         workspace * publish; workspaces foreach npm publish; workspaces foreach * npm publish; \
         access; owner; dist-tag add; dist-tag rm; token; stage publish; lerna publish; -r \
         publish; workspace * npm publish";
    PUBLISHES "cargo" "publish; yank; owner; release";
    PUBLISHES "twine" "upload";
    PUBLISHES "gem" "push; yank; owner";
    PUBLISHES
        "poetry uv flit hatch pdm rye maturin lerna changeset semantic-release dart flutter mix"
        "publish; upload; pub publish; hex.publish";
    PUBLISHES "python python3" "twine upload -m; setup.py upload";
    PUBLISHES "vsce ovsx" "publish; unpublish";
    PUBLISHES "dotnet" "nuget push; nuget delete";
    PUBLISHES "nuget" "push; delete";
    PUBLISHES "mvn mvnw" "deploy; * deploy; * * deploy; release:*; *:deploy*; * release:*";
    PUBLISHES "gradle gradlew" "publish*; * publish*; *:publish*; * *:publish*; uploadArchives";
    PUBLISHES "docker podman nerdctl"
        "push; image push; manifest push; compose push; buildx build --push; build --push";
    PRUNES "docker podman nerdctl"
        "system prune; system reset; volume rm; volume remove; volume prune; image prune -a|--all; \
         rm -f|--force|-v|--volumes; container rm -f|--force|-v|--volumes; rmi -f|--force; image \
         rm -f|--force; container prune; builder prune -a|--all; compose down -v|--volumes|--rmi; \
         compose rm -f|--force|-v; network prune; swarm leave; stack rm; service rm; secret rm";
    PRUNES "docker-compose podman-compose" "down -v|--volumes|--rmi; rm -f|--force|-v";
    DEPLOYS "helm" "install; upgrade; uninstall; delete; del; un; rollback; push";
    DEPLOYS "helmfile" "apply; sync; destroy; delete";
    DEPLOYS "kubectl oc k k3s microk8s"
        "delete; drain; replace --force; cordon; taint; scale; rollout undo; rollout restart; \
         kubectl delete; kubectl drain; apply --prune; evict";
    DEPLOYS "terraform tofu terragrunt"
        "apply; destroy; state rm; state mv; state push; state replace-provider; import; taint; \
         untaint; force-unlock; workspace delete; apply-all; destroy-all; run-all apply; run-all \
         destroy; run apply; run destroy; run --all apply";
    DEPLOYS "pulumi"
        "up; update; destroy; down; dn; refresh; cancel; stack rm; state delete; import";
    DEPLOYS
        "cdk cdktf sst serverless sls sam copilot amplify wrangler firebase flyctl fly railway eb \
         up dokku kamal nomad cap fastlane skaffold werf render supabase"
        "deploy*; destroy*; remove; delete*; apply; up; down; rollback; publish; *:delete; \
         *:destroy; * delete*; * destroy*; * deploy*; * rollback; * remove; * *:delete; job stop; \
         system gc; db reset; db push";
    DEPLOYS "heroku"
        "*:destroy; *:reset; *:delete; *:remove; container:release; *:rollback; *:promote; \
         destroy; rollback; run";
    DEPLOYS "vercel vc now"
        "--prod; deploy --prod; remove; rm; promote; rollback; * rm; * remove; alias";
    DEPLOYS "netlify ntl" "deploy -p|--prod|--prodIfUnlocked; sites:delete; env:unset";
    DEPLOYS "aws"
        "* delete*; * terminate*; * remove*; * destroy*; * purge*; s3 rm; s3 rb; s3 sync --delete; \
         s3 mv; * deregister*; * stop-*; * revoke*; * disable-*; * detach-*; * \
         schedule-key-deletion; cloudformation deploy; * update-*; * put-*";
    REMOVES
        "gcloud gsutil az doctl linode-cli hcloud ibmcloud oci scw aliyun openstack govc eksctl \
         kops rclone s3cmd mc gh-api"
        "rm; rb; delete*; destroy*; purge*; * delete*; * * delete*; * * * delete*; * * * * \
         delete*; * destroy*; * * destroy*; * rm; * * rm; * purge*; * * purge*; * deploy; * \
         remove*; * * remove*; del; cleanup; sync; mirror --remove; rsync -d";
    REMOVES "gh glab hub"
        "release create; release delete; release delete-asset; release edit; release upload; repo \
         delete; repo archive; repo rename; repo edit; secret delete; variable delete; run delete; \
         cache delete; issue delete; gist delete; ssh-key delete; gpg-key delete; label delete; \
         project delete; codespace delete; workflow disable; api -X|--method";
    "stops the machine" "systemctl"
        "poweroff; reboot; halt; kexec; suspend; hibernate; soft-reboot; hybrid-sleep; emergency; \
         rescue; exit; isolate; default";
    "stops the machine" "loginctl" "poweroff; reboot; terminate-*; kill-*";
    "stops the machine" "init telinit" "0; 6; 1; s; S";
    "changes a disk itself" "zfs zpool btrfs lvm diskutil"
        "destroy; rollback; labelclear; subvolume delete; lvremove; vgremove; pvremove; erase*; \
         reformat; partitionDisk; secureErase; zeroDisk; apfs delete*; remove";
    "opens or closes the machine's network" "iptables ip6tables ebtables"
        "-F|--flush; -X|--delete-chain; -P|--policy; -D|--delete";
    "opens or closes the machine's network" "nft" "flush *; delete *";
    "opens or closes the machine's network" "ufw" "reset; disable; delete; --force";
    "removes data from a database" "mysqladmin mariadb-admin" "drop; shutdown; flush-*";
    "removes data from a database"
        "rails rake prisma sequelize knex alembic flask typeorm drizzle-kit artisan manage.py"
        "db:drop*; db:reset*; db:purge*; db:schema:load; migrate reset; db push \
         --force-reset|--accept-data-loss; downgrade; db downgrade; schema:drop; migrate:fresh; \
         flush; db:truncate*; db:migrate:undo*";
    "changes other machines" "ansible" "-m; -a; *";
    "removes a machine" "vagrant" "destroy";
    "removes a machine" "multipass virsh lxc incus minikube kind k3d colima limactl tart orb"
        "delete*; destroy; undefine; purge; * delete*; cluster delete";
    "removes backups" "tmutil" "delete*; disable";
    "removes backups" "borg restic duplicity kopia"
        "delete; forget; prune; remove-*; snapshot delete";
};

/// One action of a program.
struct SubcommandAction {
    words: Vec<&'static str>,
    /// Required options, each as a list of spellings.
    options: Vec<Vec<&'static str>>,
    why: &'static str,
}

/// The actions of each program, in the order of the rows. Every command line is looked up here.
static BY_PROGRAM: LazyLock<HashMap<&str, Vec<SubcommandAction>>> = LazyLock::new(|| {
    let mut actions: HashMap<&str, Vec<SubcommandAction>> = HashMap::new();
    for row in ROWS {
        for program in row.programs {
            let parsed = row.acts.split(';').map(|act| SubcommandAction::parse(act, row.why));
            actions.entry(program).or_default().extend(parsed);
        }
    }
    actions
});

/// Most options that are tried as taking a value. More occur only in attempts to hide something.
const OPTIONS_MAX: usize = 32;

pub(super) fn assess(name: &str, args: &[ShellArg]) -> CriticalFinding {
    let in_full = if name == "npm" { npm::expand_critical_command(args) } else { Vec::new() };
    let args = if name == "npm" { in_full.as_slice() } else { args };
    let Some(actions) = BY_PROGRAM.get(name) else { return CriticalFinding::default() };
    let line = SplitCommandLine::parse(args);
    let mut maybe = line.slack > OPTIONS_MAX;
    for action in actions {
        match line.matches_action(action) {
            Likelihood::Yes => return CriticalFinding::certain(action.why),
            Likelihood::Maybe => maybe = true,
            Likelihood::No => {}
        }
    }
    if maybe {
        return CriticalFinding::possible("an argument that is not known may decide what it does");
    }
    CriticalFinding::default()
}

impl SubcommandAction {
    fn parse(text: &'static str, why: &'static str) -> Self {
        let (options, words): (Vec<&str>, Vec<&str>) =
            text.split_whitespace().partition(|part| part.starts_with('-'));
        let options = options.iter().map(|option| option.split('|').collect()).collect();
        Self { words, options, why }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Likelihood {
    No,
    Maybe,
    Yes,
}

struct SplitCommandLine<'a> {
    words: Vec<&'a ShellArg>,
    options: Vec<&'a ShellArg>,
    /// How many of the first words may be values of options.
    slack: usize,
    /// The same for the words after the first.
    slack_after_first: usize,
    /// Whether an argument may expand to any option.
    open: bool,
}

impl<'a> SplitCommandLine<'a> {
    fn parse(args: &'a [ShellArg]) -> Self {
        let mut line = Self {
            words: Vec::new(),
            options: Vec::new(),
            slack: 0,
            slack_after_first: 0,
            open: false,
        };
        for arg in args {
            let start = arg.known_prefix();
            // `cargo +nightly publish` names a toolchain.
            if line.words.is_empty() && start.starts_with('+') {
                continue;
            }
            if !start.starts_with('-') {
                line.open |= arg.as_known().is_none() && start.is_empty();
                line.words.push(arg);
                continue;
            }
            line.options.push(arg);
            // It is unknown whether the next word is the option's value; versions differ. Both are
            // tried.
            if !start.contains('=') {
                if line.words.len() <= line.slack {
                    line.slack += 1;
                } else {
                    line.slack_after_first += 1;
                }
            }
        }
        line
    }

    fn matches_action(&self, action: &SubcommandAction) -> Likelihood {
        let by_words = (0..=self.slack.min(OPTIONS_MAX))
            .flat_map(|from| {
                (0..=self.slack_after_first.min(OPTIONS_MAX)).map(move |gap| (from, gap))
            })
            .map(|(from, gap)| self.match_words(&action.words, from, gap))
            .max()
            .unwrap_or(Likelihood::No);
        let by_options = action
            .options
            .iter()
            .map(|spellings| {
                if spellings.iter().any(|option| self.has_option(option)) {
                    Likelihood::Yes
                } else if self.open {
                    Likelihood::Maybe
                } else {
                    Likelihood::No
                }
            })
            .min()
            .unwrap_or(Likelihood::Yes);
        by_words.min(by_options)
    }

    /// Whether the words from `from` on match, with a gap after the first.
    fn match_words(&self, wanted: &[&str], from: usize, gap: usize) -> Likelihood {
        let mut likely = Likelihood::Yes;
        let mut before: Option<&ShellArg> = None;
        for (at, pattern) in wanted.iter().enumerate() {
            let place = from + at + if at > 0 { gap } else { 0 };
            let Some(argument) = self.words.get(place) else {
                // An unknown word may expand to the missing ones.
                let open = before.is_some_and(|last| last.as_known().is_none());
                return if open { Likelihood::Maybe } else { Likelihood::No };
            };
            before = Some(argument);
            if *pattern == "*" {
                continue;
            }
            if argument.as_known().is_some() {
                if !matches_word(known_text(Some(argument)), pattern) {
                    return Likelihood::No;
                }
            } else if pattern.starts_with('*') || pattern.starts_with(argument.known_prefix()) {
                likely = Likelihood::Maybe;
            } else {
                return Likelihood::No;
            }
        }
        likely
    }

    fn has_option(&self, option: &str) -> bool {
        self.options.iter().any(|argument| {
            let start = argument.known_prefix();
            let name = start.split('=').next().unwrap_or(start);
            match option.strip_prefix("--") {
                Some(_) => name == option,
                None => {
                    let letter = option.trim_start_matches('-');
                    let single = start.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
                    single.is_some_and(|cluster| {
                        cluster.starts_with(letter)
                            || (letter.len() == 1 && cluster.contains(letter))
                    })
                }
            }
        })
    }
}

fn matches_word(word: &str, pattern: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(middle), Some(_)) => word.contains(middle.trim_end_matches('*')),
        (Some(end), None) => word.ends_with(end),
        (None, Some(start)) => word.starts_with(start),
        (None, None) => word == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::analysis_text::{check, check_critical};

    #[test]
    fn publish_behind_options_is_critical() {
        for line in [
            "npm publish",
            "npm --prefix d publish",
            "npm --strange d publish",
            "pnpm -r publish",
            "pnpm -w publish",
            "yarn npm publish",
            "bun publish",
            "cargo publish",
            "cargo +nightly publish",
            "cargo yank x",
            "twine upload dist/x",
            "gem push x",
            "poetry publish",
            "uv publish",
            "docker push x",
            "docker --host h push x",
            "mvn clean deploy",
            "gradle :a:publish",
            "gh release create v1",
            "gh -R a/b repo delete x",
            "vsce publish",
            "dotnet nuget push x",
        ] {
            check_critical(line);
        }
        check("npm test", "program");
        check("npm run publish-docs", "program");
        check("cargo build --features publish", "program");
        check("gh pr view", "program host(github.com)");
        check("npm $X", "program unknown caution");
        check("cargo $X", "program caution");
        check("cargo test $X", "program caution");
    }

    #[test]
    fn teardown_behind_options_is_critical() {
        for line in [
            "terraform destroy",
            "terraform -chdir=x destroy",
            "terraform apply -auto-approve",
            "terraform state rm x",
            "tofu apply",
            "pulumi up",
            "kubectl delete pod y",
            "kubectl -n x delete pod y",
            "kubectl -n x --context y delete pod z",
            "kubectl --strange x delete pod y",
            "kubectl drain n",
            "kubectl replace --force -f x",
            "helm uninstall x",
            "aws ec2 terminate-instances",
            "aws --profile p s3 rm s3://x",
            "aws s3 rb x",
            "gcloud compute instances delete x",
            "az group delete -n x",
            "docker system prune",
            "docker --host x system prune -af",
            "docker volume rm v",
            "docker rm -f c",
            "docker image prune -a",
            "ansible-playbook x",
            "serverless deploy",
            "cdk destroy",
            "flyctl deploy",
            "heroku apps:destroy x",
            "vercel --prod",
            "firebase deploy",
            "netlify deploy --prod",
            "mysqladmin drop x",
            "iptables -F",
            "zfs destroy x",
        ] {
            check_critical(line);
        }
        check("docker compose down -v", "program critical");
        check("docker-compose down --volumes", "program critical");
        check("terraform plan", "program");
        check("kubectl get pods", "read-only");
        check("docker run --rm -it image push", "program runs[push]");
        check("docker rm c", "program");
        check("docker image prune", "program");
        check("vercel", "program");
        check("aws s3 ls", "program");
        check("terraform $X", "program caution");
        check("kubectl $X pod", "program caution");
        check("docker rm $X c", "program caution");
    }
}
