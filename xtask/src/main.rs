//! Tasks of the repository: `cargo xtask tidy | test | bench | chaos | book | reference | dist | release`.
//!
//! They are written in Rust, in the workspace, so that a fresh machine with only a Rust toolchain
//! can run them and the compiler checks them like everything else.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a chore runs other programs, reads the repository's own files and talks to a terminal"
)]

mod bench;
mod book;
mod chaos;
mod dist;
mod markdown_links;
mod reference;
mod repository;
mod required_programs;
mod test_runner;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
Repository chores.

Usage: cargo xtask <chore>

  tidy                 check dependencies, import cycles, module docs and file names
  test [ARGS…]         check the format, run the linter and every test; ARGS go to nextest
  reference            write docs/reference/tools.md anew, from the tools and what their examples
                       answer
  book                 build the documentation as a book with search, into target/book/html; installs
                       mdBook into target/tools, once
  bench [--quick] [--write | --only PART]
                       measure zero against ripgrep and cat; --quick takes fewer runs,
                       --write puts the table into docs/reference/performance.md, --only measures
                       one of files, policy, sandbox, mcp, gateway and acp, or, in about an hour,
                       build: how long a newcomer waits for builds and tests
  chaos [--minutes N | --faults N] [--seed N] [--write]
                       let faults happen to three gateways with a real database and bus, and check
                       that nothing is lost or repeated; --write puts the report into
                       docs/reference/chaos.md
  dist [--target PLATFORM… | --program FILE…] [--out DIR] [--address URL] [--sign KEYFILE] [--check]
                       build the packages of a release into target/dist-release: archives, deb, rpm,
                       npm, wheel, bill of materials, sums. --target builds for one of x86_64-linux
                       and aarch64-linux only, --program packs a program that is already built,
                       --address is where the files will be fetched from, --sign signs the sums with
                       a key of minisign, --check builds and packs again and compares the bytes, and
                       installs the Debian package in a new system
  release --dry-run [DIST OPTIONS…]
                       check that everything is committed, the version is new and in the changelog,
                       and the lock file fits, then build the packages; see RELEASING.md

Exit code: 0 all well, 1 something failed, 2 wrong usage or a missing program.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (chore, rest) = match args.split_first() {
        Some((chore, rest)) => (chore.as_str(), rest),
        None => ("--help", &[][..]),
    };
    let done = match (chore, rest) {
        ("tidy", []) => tidy::run(),
        ("bench", rest) => bench::run(rest),
        ("chaos", rest) => chaos::run(rest),
        ("test", rest) => test_runner::run(rest),
        ("dist", rest) => dist::run(rest),
        ("release", rest) => dist::dry_run_release(rest),
        ("reference", []) => reference::run(),
        ("book", []) => book::run(),
        ("--help" | "-h" | "help", _) => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            eprint!("`{}` is not a task.\n\n{HELP}", args.join(" "));
            Ok(ExitCode::from(2))
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
