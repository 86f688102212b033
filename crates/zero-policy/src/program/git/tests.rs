//! Tests of git's commands, one row each: read-only ones and others.

use super::super::analysis_text::check;

#[test]
fn git_read_commands_need_no_rule() {
    for line in [
        "git",
        "git status -sb",
        "git log --oneline -5",
        "git log --graph --all",
        "git diff",
        "git diff --stat",
        "git branch",
        "git branch -a",
        "git branch -vv --list x",
        "git branch --show-current",
        "git branch --contains abc",
        "git tag",
        "git tag -l v*",
        "git tag -n3",
        "git remote",
        "git remote -v",
        "git remote get-url origin",
        "git stash list",
        "git config --get user.name",
        "git config user.name",
        "git config --list",
        "git config get x.y",
        "git worktree list",
        "git submodule status",
        "git reflog",
        "git rev-parse --show-toplevel",
        "git symbolic-ref HEAD",
        "git --no-pager log",
        "git -P log",
        "git --version",
        "git help log",
        "git fsck",
        "git -c color.ui=always log",
        "git -c core.pager=cat log",
        "git for-each-ref",
    ] {
        let written = line.split_once(" -- ").map_or(line, |(line, _)| line);
        let argv: Vec<_> =
            written.split_whitespace().map(super::super::analysis_text::parse_argument).collect();
        let study = super::super::analyze(&argv);
        assert_eq!(study.class, super::super::CommandClass::ReadOnly, "{line}");
        assert!(study.caution.is_none() && study.runs.is_empty(), "{line}");
    }
}

#[test]
fn git_shown_files_are_recorded_as_reads() {
    check("git show HEAD:.env", "read-only read(.env)");
    check("git cat-file -p HEAD:a/b", "read-only read(a/b)");
    check("git show :2:.env", "read-only read(.env)");
    check("git log -p -- .env", "read-only read(.env)");
    check("git diff -- :(top).env :!x", "read-only read(.env)");
    check("git log -L1,5:.env", "read-only read(.env)");
    check("git blame -L 1,5 f", "read-only read(f)");
    check("git diff --no-index a b", "read-only read(a) read(b)");
    check("git -C sub show HEAD:f", "read-only read(f) in(sub)");
    check("git -C a -C b log -- f", "read-only read(f) in(a/b)");
    check("git -C $X log -- f", "program read(f) in($X) caution");
    check("git grep x", "read-only read(./**)");
    check("git grep -n -e x -- src", "read-only read(src/**)");
    check("git grep -f list", "read-only read(list) read(./**)");
    check("git archive HEAD src", "read-only read(src/**)");
}

#[test]
fn git_writing_options_are_found_in_any_spelling() {
    check("git diff --output=f", "files write(f)");
    check("git diff --output f", "files write(f)");
    check("git log --outp=f", "files write(f)");
    check("git diff --ext-diff", "program caution");
    check("git log --tags --output=f", "files write(f)");
    check("git log --grep --output=f", "files write(f)");
    check("git log -n --output=f", "files write(f)");
    check("git log --since $X", "program caution");
    check("git log --tags HEAD:.env", "read-only read(.env)");
    check("git log --ext", "program caution");
    check("git show --textconv x", "program read(x) caution");
    check("git log --text", "read-only");
    check("git cat-file --filters x", "program read(x) caution");
    check("git diff $X", "program read($X) caution");
    check("git diff -- $X", "read-only read($X)");
    check("git grep -Orm x", "program read(./**) script[rm] caution");
    check("git grep --open=rm x", "program read(./**) script[rm] caution");
    check("git archive -o f HEAD", "files write(f)");
    check(
        "git archive --remote=ssh://h/x --exec=rm_x HEAD",
        "program host(ssh://h/x) script[rm x] caution",
    );
}

#[test]
fn git_settings_that_run_commands_are_found() {
    check("git -c alias.x=!rm_x x", "program script[rm x] caution");
    check("git -c core.pager=rm_x log", "program script[rm x] caution");
    check("git -c core.sshCommand=rm_x fetch", "program script[rm x] caution");
    check("git -c CORE.FSMONITOR=rm_x status", "program script[rm x] caution");
    check("git -c diff.external=rm diff", "program script[rm] caution");
    check("git -c core.hooksPath=x commit", "program caution");
    check("git -c include.path=x status", "program script[x] caution");
    check("git -c protocol.ext.allow=always fetch", "program caution");
    check("git -c filter.x.clean=rm add x", "program script[rm] caution");
    check("git -c $X status", "program caution");
    check("git -c user.name=x commit", "program");
    check("git --exec-path=x status", "program caution");
    check("git --git-dir x status", "program caution");
    check("git --config-env=core.pager=X log", "program caution");
    check("git $X status", "program caution");
    check("git --strange status", "program caution");
    check("git config core.editor rm_x", "program write(.git/config) script[rm x] caution");
    check("git config --global alias.x !rm_x", "program write(~/.gitconfig) script[rm x] caution");
    check("git config user.name me", "program write(.git/config)");
    check("git config -f f a.b c", "program write(f) caution");
    check("git config -f f --no-fi user.name x", "program write(f) write(.git/config)");
    check("git config -e", "program write(.git/config) caution");
}

#[test]
fn git_inner_commands_are_found() {
    check("git rebase -x rm_x main", "program script[rm x]");
    check("git rebase --exec=rm_x main", "program script[rm x]");
    check("git rebase --ex rm_x main", "program script[rm x]");
    check("git bisect run rm x", "program runs[rm x]");
    check("git submodule foreach rm x", "program script[rm x]");
    check("git submodule foreach --recursive rm_x", "program script[rm x]");
    check("git filter-branch --tree-filter rm_x", "program script[rm x] critical");
    check("git difftool -x rm_x", "program script[rm x] caution");
    check("git hook run pre-commit", "program unknown");
    check("git unknown-command", "program caution");
    check("git clone -u rm_x h:r", "program write(r/**) host(h:r) script[rm x] caution");
    check("git clone --upload=rm_x h:r", "program write(r/**) host(h:r) script[rm x] caution");
    check("git clone ext::rm_x", "program write(rm x/**) script[rm x] caution");
    check(
        "git clone -c core.sshCommand=rm h:r",
        "program write(r/**) host(h:r) script[rm] caution",
    );
    check("git clone --template=t h:r", "program read(t/**) write(r/**) host(h:r) caution");
    check("git fetch --upload-pack rm_x origin", "program script[rm x] caution");
    check("git push --receive-pack=rm_x origin", "program script[rm x] caution");
    check("git ls-remote --upload-pack=rm_x h:r", "program host(h:r) script[rm x] caution");
    check("git ls-remote ext::rm_x", "program script[rm x] caution");
}

#[test]
fn git_address_is_host_but_remote_name_is_not() {
    check("git clone https://h/r dir", "files write(dir/**) host(https://h/r)");
    check("git clone git@h:r", "files write(r/**) host(git@h:r)");
    check("git clone ./a b", "files read(./a/**) write(b/**)");
    check("git fetch origin", "program");
    check("git push https://h/r main", "program host(https://h/r)");
    check("git remote add o https://h/r", "program write(.git/config) host(https://h/r)");
    check("git ls-remote https://h/r", "read-only host(https://h/r)");
    check("git ls-remote origin", "program");
    check("git submodule add https://h/r sub", "program write(sub/**) host(https://h/r)");
}

#[test]
fn git_discarding_work_is_critical() {
    for line in [
        "git reset --hard",
        "git reset --ha HEAD~1",
        "git stash drop",
        "git stash clear",
        "git branch -D x",
        "git branch -d -f x",
        "git branch --delete --force x",
        "git push --force",
        "git push -f",
        "git push -uf origin x",
        "git push --force-with-lease",
        "git push --mirror",
        "git push origin --delete x",
        "git push origin :x",
        "git push origin +x",
        "git reflog expire --all",
        "git reflog delete x",
        "git gc --prune=now",
        "git filter-repo",
        "git update-ref -d x",
        "git tag -d x",
        "git switch -f x",
        "git switch --discard-changes x",
        "git checkout -f",
    ] {
        check(line, "program critical");
    }
    check("git clean -fdx", "program delete(./**) critical");
    check("git clean -fdn", "program");
    check("git clean $X", "program delete($X/**) critical caution");
    check("git checkout .", "program write(./**) critical");
    check("git checkout -- a b", "program write(a/**) write(b/**) critical");
    check("git checkout HEAD -- a", "program write(a/**) critical");
    check("git checkout src/a.rs", "program write(src/a.rs/**) critical");
    check("git checkout main", "program");
    check("git checkout feature/x", "program");
    check("git checkout -b x origin/x", "program");
    check("git restore a", "program write(a/**) critical");
    check("git restore --staged a", "program");
    check("git restore -SW a", "program write(a/**) critical");
    check("git rm -r a", "program delete(a/**) critical");
    check("git rm --cached -r a", "program");
    check("git rm a", "program delete(a)");
    check("git worktree remove -f w", "program delete(w/**) critical");
    check("git -C d clean -f", "program delete(./**) in(d) critical");
    check("git push", "program");
    check("git push origin main", "program");
    check("git push $X", "program caution");
    check("git push origin $X", "program caution");
    check("git reset $X", "program caution");
    check("git commit -m x", "program");
}

#[test]
fn negated_option_protects_nothing() {
    for line in [
        "git clean -fdn --no-dry-run",
        "git clean -fdn --no-dry",
        "git clean --no-d -nf",
        "git clean -nf --no",
    ] {
        check(line, "program delete(./**) critical");
    }
    check("git clean -fdn --no-quiet", "program");
    check("git rm --cached --no-cached a", "program delete(a)");
    check("git rm --cached --no-ca -r a", "program delete(a/**) critical");
    check("git apply --stat --no-stat p", "program read(p) write(./**)");
    check("git apply --check --no-ch p", "program read(p) write(./**)");
    check("git apply --check p", "program read(p)");
    check("git restore --staged --no-staged a", "program write(a/**) critical");
    check("git restore -S --no-st a", "program write(a/**) critical");
    check("git checkout --detach --no-det a b", "program write(a/**) write(b/**) critical");
    check("git checkout -b x --no-orphan a b", "program write(a/**) write(b/**) critical");
}

#[test]
fn git_plumbing_names_its_files_and_programs() {
    check("git merge-file a b c", "program read(a) read(b) read(c) write(a)");
    check("git merge-file -p a b c", "program read(a) read(b) read(c)");
    check("git merge-file -p --no-st a b c", "program read(a) read(b) read(c) write(a)");
    check("git merge-index -o rm -a", "program runs[rm ...]");
    check("git fast-export --export-marks=f HEAD", "program write(f)");
    check("git fast-export --import-m=f HEAD", "program read(f)");
    check("git mailsplit -od m", "program read(m) write(d/**)");
    check("git mailinfo a b", "program write(a) write(b)");
    check("git interpret-trailers --in-pl a", "program read(a) write(a)");
    check("git pack-objects a", "program write(a…)");
    check("git bugreport -o d", "program write(d/**)");
    check("git checkout-index a", "program write(a)");
    check("git cat-file --batch", "read-only read(what - names)");
    check("git diff-tree --stdin -p", "read-only read(what - names)");
}
