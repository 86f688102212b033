//! The table of tools and their options.

use super::{OperandKind, OverrideRow};
use crate::program::options::options;
use crate::word_list::words;

const ROW: OverrideRow = OverrideRow {
    names: &[],
    table: options!(""),
    decisive_names: (&[], &[]),
    operands: OperandKind::Words,
};

pub(super) static ROWS: &[OverrideRow] = &[
    OverrideRow {
        names: &["npm"],
        table: options!(
            "script-shell,shell,node-options,globalconfig,userconfig,onload-script,node-gyp:!code \
             git,editor,viewer,browser,init-module:!code C,prefix:folder w,workspace:path"
        ),
        ..ROW
    },
    OverrideRow {
        names: &["pnpm", "yarn", "bun"],
        table: options!(
            "script-shell,node-options,use-yarnrc,use-node-version:!code C,dir,cwd:folder \
             c,config,preload:path"
        ),
        ..ROW
    },
    OverrideRow {
        names: &["cargo"],
        table: options!(
            "config,Z:!code C:folder manifest-path,target-dir,lockfile-path,artifact-dir:path \
             out-dir:path -pFj: package: features:"
        ),
        ..ROW
    },
    OverrideRow {
        names: &["go"],
        table: options!(
            "exec,toolexec,overlay,vettool:!code C:folder modfile,pkgdir,o:path ldflags: run: \
             tags: count: timeout:"
        )
        .single_dash(),
        decisive_names: (&["ldflags"], &["extld"]),
        ..ROW
    },
    OverrideRow {
        names: &["make", "gmake"],
        table: options!(
            "eval,E:!code C,directory:folder f,file,makefile,I,include-dir:path -oWjl: old-file: \
             what-if:"
        ),
        operands: OperandKind::Variables,
        ..ROW
    },
    OverrideRow { names: &["ninja", "samu"], table: options!("C:folder f:path -jkl:"), ..ROW },
    OverrideRow {
        names: &["just"],
        table: options!(
            "shell,command,c,shell-arg:!code d,working-directory:folder f,justfile:path"
        ),
        ..ROW
    },
    OverrideRow {
        names: &["pytest", "py.test"],
        table: options!(
            "o,override-ini,pdbcls:!code c,config-file,rootdir,confcutdir,basetemp:path -pkmnrW: \
             deselect: ignore: maxfail: tb:"
        ),
        decisive_names: (&["p"], &[]),
        operands: OperandKind::Paths,
    },
    OverrideRow {
        names: &["tsc"],
        table: options!("p,project,b,build,outdir,outDir:path rootDir: module: target:"),
        ..ROW
    },
    OverrideRow {
        names: &["gradle", "gradlew"],
        table: options!(
            "I,init-script:!code p,project-dir:folder b,build-file,c,settings-file:path \
             include-build,g,gradle-user-home:path -xDP: tests:"
        ),
        decisive_names: (&["D", "P"], &["java.home", "jvmargs", "init"]),
        ..ROW
    },
    OverrideRow {
        names: &["mvn", "mvnw"],
        table: options!(
            "s,settings,gs,global-settings,t,toolchains,gt:!code =global-toolchains!code \
             f,file:path -DPTl: pl: projects:"
        )
        .single_dash(),
        ..ROW
    },
    OverrideRow {
        names: &["cmake"],
        table: options!(
            "P,C,S,B,toolchain,build:path -DGTA: preset: install-prefix: target: config:"
        ),
        decisive_names: (&["D"], words!("LAUNCHER COMPILER TOOLCHAIN PROGRAM LINKER RULE INCLUDE")),
        ..ROW
    },
    OverrideRow {
        names: &["docker", "podman", "nerdctl"],
        table: options!("H,host,c,context,config,connection,url:!code").until_operand(),
        ..ROW
    },
    OverrideRow {
        names: &["kubectl", "oc", "k"],
        table: options!("kubeconfig,s,server:!code -nlof: namespace: output: selector: token:"),
        ..ROW
    },
    OverrideRow {
        names: words!("jest vitest mocha eslint prettier webpack rollup vite"),
        table: options!(
            "c,config,root,rootDir,rulesdir,r,require,import,preset,resolver,package:path \
             plugin-search-dir,resolve-plugins-relative-to:path"
        ),
        ..ROW
    },
    OverrideRow {
        names: &["rake", "tox", "nox", "ant", "invoke"],
        table: options!("e,E,execute:!code f,c,R,I,rakefile,conf,noxfile,libdir:path"),
        ..ROW
    },
];
