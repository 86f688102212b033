//! The tools and their options.

use super::super::options::OptionGrammar;
use super::{OperandKind, OverrideRow};

const ROW: OverrideRow = OverrideRow {
    names: &[],
    grammar: grammar_with_values("", &[]),
    code: "",
    folder: "",
    path: "",
    telling: &[],
    operands: OperandKind::Words,
};

const fn grammar_with_values(
    short_values: &'static str,
    long_values: &'static [&'static str],
) -> OptionGrammar {
    OptionGrammar {
        short_values,
        long_values,
        long_flags: &[],
        stops_at_operand: false,
        single_dash_long: false,
    }
}

pub(super) static ROWS: &[OverrideRow] = &[
    OverrideRow {
        names: &["npm"],
        grammar: grammar_with_values(
            "Cw",
            &[
                "script-shell",
                "shell",
                "node-options",
                "globalconfig",
                "userconfig",
                "onload-script",
                "node-gyp",
                "git",
                "editor",
                "viewer",
                "browser",
                "init-module",
                "prefix",
                "workspace",
            ],
        ),
        code: "script-shell shell node-options globalconfig userconfig onload-script node-gyp git \
               editor viewer browser init-module",
        folder: "C prefix",
        path: "w workspace",
        ..ROW
    },
    OverrideRow {
        names: &["pnpm", "yarn", "bun"],
        grammar: grammar_with_values(
            "Cc",
            &[
                "dir",
                "cwd",
                "script-shell",
                "node-options",
                "use-yarnrc",
                "use-node-version",
                "config",
                "preload",
            ],
        ),
        code: "script-shell node-options use-yarnrc use-node-version",
        folder: "C dir cwd",
        path: "c config preload",
        ..ROW
    },
    OverrideRow {
        names: &["cargo"],
        grammar: grammar_with_values(
            "CZpFj",
            &[
                "config",
                "manifest-path",
                "target-dir",
                "lockfile-path",
                "artifact-dir",
                "out-dir",
                "package",
                "features",
            ],
        ),
        code: "config Z",
        folder: "C",
        path: "manifest-path target-dir lockfile-path artifact-dir out-dir",
        ..ROW
    },
    OverrideRow {
        names: &["go"],
        grammar: OptionGrammar {
            single_dash_long: true,
            ..grammar_with_values(
                "Co",
                &[
                    "exec", "toolexec", "overlay", "vettool", "modfile", "pkgdir", "ldflags",
                    "run", "tags", "count", "timeout",
                ],
            )
        },
        code: "exec toolexec overlay vettool",
        folder: "C",
        path: "modfile pkgdir o",
        telling: &[("ldflags", &["extld"])],
        ..ROW
    },
    OverrideRow {
        names: &["make", "gmake"],
        grammar: grammar_with_values(
            "CfIEoWjl",
            &["directory", "file", "makefile", "include-dir", "eval", "old-file", "what-if"],
        ),
        code: "eval E",
        folder: "C directory",
        path: "f file makefile I include-dir",
        operands: OperandKind::Variables,
        ..ROW
    },
    OverrideRow {
        names: &["ninja", "samu"],
        grammar: grammar_with_values("Cfjkl", &[]),
        folder: "C",
        path: "f",
        ..ROW
    },
    OverrideRow {
        names: &["just"],
        grammar: grammar_with_values(
            "fdc",
            &["justfile", "working-directory", "shell", "command", "shell-arg"],
        ),
        code: "shell command c shell-arg",
        folder: "d working-directory",
        path: "f justfile",
        ..ROW
    },
    OverrideRow {
        names: &["pytest", "py.test"],
        grammar: grammar_with_values(
            "pcokmnrW",
            &[
                "override-ini",
                "pdbcls",
                "config-file",
                "rootdir",
                "confcutdir",
                "basetemp",
                "deselect",
                "ignore",
                "maxfail",
                "tb",
            ],
        ),
        code: "o override-ini pdbcls",
        path: "c config-file rootdir confcutdir basetemp",
        telling: &[("p", &[])],
        operands: OperandKind::Paths,
        ..ROW
    },
    OverrideRow {
        names: &["tsc"],
        grammar: grammar_with_values(
            "pb",
            &["project", "build", "outdir", "outDir", "rootDir", "module", "target"],
        ),
        path: "p project b build outdir outDir",
        ..ROW
    },
    OverrideRow {
        names: &["gradle", "gradlew"],
        grammar: grammar_with_values(
            "IbcpgxDP",
            &[
                "init-script",
                "build-file",
                "settings-file",
                "project-dir",
                "include-build",
                "gradle-user-home",
                "tests",
            ],
        ),
        code: "I init-script",
        folder: "p project-dir",
        path: "b build-file c settings-file include-build g gradle-user-home",
        telling: &[("D P", &["java.home", "jvmargs", "init"])],
        ..ROW
    },
    OverrideRow {
        names: &["mvn", "mvnw"],
        grammar: OptionGrammar {
            single_dash_long: true,
            ..grammar_with_values(
                "fstDPTl",
                &[
                    "file",
                    "settings",
                    "global-settings",
                    "gs",
                    "toolchains",
                    "gt",
                    "pl",
                    "projects",
                ],
            )
        },
        code: "s settings gs global-settings t toolchains gt global-toolchains",
        path: "f file",
        ..ROW
    },
    OverrideRow {
        names: &["cmake"],
        grammar: grammar_with_values(
            "PCDSBGTA",
            &["preset", "toolchain", "build", "install-prefix", "target", "config"],
        ),
        path: "P C S B toolchain build",
        telling: &[(
            "D",
            &["LAUNCHER", "COMPILER", "TOOLCHAIN", "PROGRAM", "LINKER", "RULE", "INCLUDE"],
        )],
        ..ROW
    },
    OverrideRow {
        names: &["docker", "podman", "nerdctl"],
        grammar: OptionGrammar {
            stops_at_operand: true,
            ..grammar_with_values("Hc", &["host", "context", "config", "connection", "url"])
        },
        code: "H host c context config connection url",
        ..ROW
    },
    OverrideRow {
        names: &["kubectl", "oc", "k"],
        grammar: grammar_with_values(
            "snlof",
            &["kubeconfig", "server", "namespace", "output", "selector", "token"],
        ),
        code: "kubeconfig s server",
        ..ROW
    },
    OverrideRow {
        names: &["jest", "vitest", "mocha", "eslint", "prettier", "webpack", "rollup", "vite"],
        grammar: grammar_with_values(
            "cr",
            &[
                "config",
                "root",
                "rootDir",
                "rulesdir",
                "require",
                "import",
                "preset",
                "resolver",
                "plugin-search-dir",
                "resolve-plugins-relative-to",
                "package",
            ],
        ),
        path: "c config root rootDir rulesdir r require import preset resolver plugin-search-dir \
               resolve-plugins-relative-to package",
        ..ROW
    },
    OverrideRow {
        names: &["rake", "tox", "nox", "ant", "invoke"],
        grammar: grammar_with_values(
            "fcRIeE",
            &["rakefile", "conf", "noxfile", "execute", "libdir"],
        ),
        code: "e E execute",
        path: "f c R I rakefile conf noxfile libdir",
        ..ROW
    },
];
