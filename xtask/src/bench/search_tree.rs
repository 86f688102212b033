//! The files that both sides search: many, nested and unfriendly, and the same on every machine.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

/// Changes whenever the generated files do, so that an older tree is generated again.
const VERSION: &str = "3";
/// Written last, into git's own folder: a tree without it is incomplete.
const STAMP: &str = ".git/zero-bench-version";

const PARTS: usize = 32;
const FOLDERS_PER_PART: usize = 80;
const FILES_PER_FOLDER: usize = 20;
const LARGE_FILE_BYTES: u64 = 500_000_000;

const _: () =
    assert!(PARTS * FOLDERS_PER_PART * FILES_PER_FOLDER >= 50_000, "the tree is to be large");

const WORDS: &[&str] = &[
    "buffer", "return", "config", "let", "value", "index", "request", "handler", "state", "match",
    "stream", "error", "result", "parse", "token", "cache", "write", "read", "split", "merge",
    "queue", "batch", "frame", "signal", "cursor", "vector", "lookup", "branch", "commit",
    "update", "insert", "remove", "filter", "map",
];

/// A small pseudorandom number generator with the same numbers everywhere (splitmix64).
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn next_below(&mut self, bound: usize) -> usize {
        // The remainder is below the bound, which fits.
        usize::try_from(self.next() % bound as u64).unwrap_or_default()
    }

    fn next_one_in(&mut self, chances: usize) -> bool {
        self.next_below(chances) == 0
    }

    fn next_word(&mut self) -> &'static str {
        WORDS[self.next_below(WORDS.len())]
    }
}

/// Generates the files unless they exist: `PARTS` × `FOLDERS_PER_PART` × `FILES_PER_FOLDER` files
/// that a search sees, and a fifth as many that it must not see.
pub(super) fn generate(tree: &Path) -> Result<()> {
    if fs::read_to_string(tree.join(STAMP)).is_ok_and(|stamp| stamp == VERSION) {
        return Ok(());
    }
    eprintln!("== generating {}", tree.display());
    if tree.exists() {
        fs::remove_dir_all(tree)?;
    }
    fs::create_dir_all(tree.join(".git"))?;
    fs::write(tree.join(".git/HEAD"), "ref: refs/heads/main\n")?;
    fs::write(tree.join(".gitignore"), "build/\n*.log\n/part-00/secret-plans/\n")?;
    let mut numbers = SplitMix64(20_240_601);
    for part in 0..PARTS {
        generate_part(&tree.join(format!("part-{part:02}")), &mut numbers)?;
    }
    fs::write(tree.join(STAMP), VERSION).context("could not write the stamp")
}

fn generate_part(part: &Path, numbers: &mut SplitMix64) -> Result<()> {
    fs::create_dir_all(part)?;
    fs::write(part.join(".gitignore"), "generated/\n*.tmp\n!keep.tmp\n")?;
    fs::write(part.join("keep.tmp"), "a kept file\n")?;
    for folder in 0..FOLDERS_PER_PART {
        // Three levels deep, and deeper for some.
        let mut path = part.join(format!("area-{}", folder % 8)).join(format!("unit-{folder:02}"));
        for level in 0..numbers.next_below(4) {
            path.push(format!("level-{level}"));
        }
        fs::create_dir_all(&path)?;
        for file in 0..FILES_PER_FOLDER {
            generate_file(&path, file, numbers)?;
        }
        match folder % 10 {
            0 => generate_ignored(&path.join("build"), numbers)?,
            5 => generate_ignored(&path.join("generated"), numbers)?,
            _ => fs::write(path.join("trace.log"), generate_text(12, numbers))?,
        }
    }
    Ok(())
}

/// Files full of matches, in an ignored folder.
fn generate_ignored(folder: &Path, numbers: &mut SplitMix64) -> Result<()> {
    fs::create_dir_all(folder)?;
    for file in 0..FILES_PER_FOLDER {
        let text = format!("quokka_handler\nWombat Report\n{}", generate_text(40, numbers));
        fs::write(folder.join(format!("made-{file:02}.rs")), text)?;
    }
    Ok(())
}

fn generate_file(folder: &Path, file: usize, numbers: &mut SplitMix64) -> Result<()> {
    let (extension, bytes) = match file {
        0 => ("bin", generate_binary(numbers)),
        1 if numbers.next_one_in(16) => ("min.js", generate_long_line(numbers).into()),
        1 => ("js", generate_text(60, numbers).into()),
        2..=4 => ("md", generate_text(30, numbers).into()),
        5..=7 => ("json", generate_text(20, numbers).into()),
        8..=10 => ("ts", generate_text(80, numbers).into()),
        _ => ("rs", generate_text(90, numbers).into()),
    };
    let name = format!("{}-{file:02}.{extension}", numbers.next_word());
    fs::write(folder.join(name), bytes)?;
    Ok(())
}

/// Lines of words that look a little like code, with a rare match now and then.
fn generate_text(lines: usize, numbers: &mut SplitMix64) -> String {
    let mut text = String::new();
    for _ in 0..lines / 2 + numbers.next_below(lines) {
        for _ in 0..numbers.next_below(4) {
            text.push_str("    ");
        }
        for _ in 0..1 + numbers.next_below(8) {
            text.push_str(numbers.next_word());
            text.push(if numbers.next_one_in(5) { '.' } else { ' ' });
        }
        if numbers.next_one_in(100) {
            text.push_str("checkpoint");
        } else if numbers.next_one_in(8_000) {
            text.push_str(generate_rare_word(numbers));
        }
        text.push('\n');
    }
    text
}

fn generate_rare_word(numbers: &mut SplitMix64) -> &'static str {
    const RARE: &[&str] = &[
        "quokka_handler(x)",
        "fn settle_alpha417(",
        "fn settle_omega093(",
        "fn settle_gamma555(",
        "wombat report",
        "Wombat Report",
        "WOMBAT REPORT",
        "wombat reprieve",
    ];
    RARE[numbers.next_below(RARE.len())]
}

/// Binary from the first bytes on, though it contains a match.
fn generate_binary(numbers: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = vec![0x7F, b'E', b'L', b'F', 0, 0, 1, 2];
    for _ in 0..64 + numbers.next_below(512) {
        bytes.extend(numbers.next().to_le_bytes());
    }
    bytes.extend(b"\nquokka_handler(x)\nwombat report\n");
    bytes
}

/// One line of a hundred kilobytes or more, as bundlers write.
fn generate_long_line(numbers: &mut SplitMix64) -> String {
    let mut line = String::new();
    while line.len() < 100_000 {
        line.push_str(numbers.next_word());
        line.push(';');
    }
    line.push_str(generate_rare_word(numbers));
    line.push('\n');
    line
}

/// Generates a file of numbered lines, 500 MB in total, unless it exists.
pub(super) fn generate_large_file(file: &Path) -> Result<()> {
    if fs::metadata(file).is_ok_and(|facts| facts.len() >= LARGE_FILE_BYTES) {
        return Ok(());
    }
    eprintln!("== generating {}", file.display());
    let folder = file.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder)?;
    // Under another name until it is complete, so that an interrupted run leaves no partial file.
    let unfinished = file.with_extension("part");
    let mut writer = BufWriter::with_capacity(1 << 20, fs::File::create(&unfinished)?);
    let (mut written, mut line) = (0, 0_u64);
    while written < LARGE_FILE_BYTES {
        line += 1;
        let text = format!(
            "line {line}: the quick brown fox jumps over the lazy dog and is back in time for tea, again\n"
        );
        writer.write_all(text.as_bytes())?;
        written += text.len() as u64;
    }
    writer.flush()?;
    fs::rename(&unfinished, file)?;
    Ok(())
}
