//! Programs that replace a file by its compressed form, or the reverse.

use crate::program::command_analysis::CommandAnalysis;
use crate::program::options::{OptionTable, ParsedArguments, options};
use crate::shell::ShellArg;

use super::super::analysis_builder::{AccessDepth, CommandAnalysisBuilder, path_starting_with};
use crate::word_list::words;

/// Analyzes a compressor.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    let compressor = COMPRESSORS.iter().find(|row| row.names.contains(&name))?;
    Some(compressor.analyze(name, args))
}

/// A program that replaces a file by its compressed form, or the reverse.
struct Compressor {
    names: &'static [&'static str],
    table: OptionTable,
    suffix: &'static str,
}

macro_rules! compressors {
    ($($names:literal $letters:literal $suffix:literal;)*) => {
        &[$(Compressor {
            names: words!($names),
            table: options!(concat!(
                $letters,
                "suffix: output: output-dir-flat: output-dir-mirror: filelist: stdout to-stdout \
                 decompress uncompress test list recursive name files files0 keep no-name \
                 patch-from train"
            )),
            suffix: $suffix,
        }),*]
    };
}

/// Their names, the short options that take a value, and the suffix of a compressed file.
static COMPRESSORS: &[Compressor] = compressors! {
    "gzip gunzip" "S: " ".gz";
    "pigz unpigz" "-Sbp: " ".gz";
    "bzip2 bunzip2 pbzip2" "" ".bz2";
    "xz unxz" "-SFCTM: " ".xz";
    "lzma unlzma" "-SFCTM: " ".lzma";
    "zstd unzstd" "-Do: " ".zst";
    "lz4 unlz4" "D: " ".lz4";
    "brotli unbrotli" "-oqwS: " ".br";
    "compress uncompress" "b: " ".Z";
};

impl Compressor {
    fn analyze(&self, name: &str, args: &[ShellArg]) -> CommandAnalysis {
        let options = self.table.parse(args);
        let depth = if options.has(&["r", "recursive"]) {
            AccessDepth::Beneath
        } else {
            AccessDepth::Itself
        };
        let mut notes = CommandAnalysisBuilder::default();
        notes.record_reads(options.values(&["D", "patch-from", "filelist", "files", "files0"]));
        notes.record_outputs(options.values(&["o", "output"]));
        for folder in options.values(&["output-dir-flat", "output-dir-mirror"]) {
            notes.record_write(folder, AccessDepth::Beneath);
        }
        let looks =
            options.has(&["c", "stdout", "to-stdout", "t", "test", "l", "list", "o", "output"]);
        for file in &options.operands {
            notes.record_read(file, depth);
            if !looks {
                self.record_replaced_file(name, file, depth, &options, &mut notes);
            }
        }
        notes.record_hidden_option(args, &options);
        // The files are listed elsewhere, or generated.
        let elsewhere = options.has(&["filelist", "files", "files0", "train"]);
        if elsewhere { notes.build_incomplete() } else { notes.build_complete() }
    }

    fn record_replaced_file(
        &self,
        name: &str,
        file: &ShellArg,
        depth: AccessDepth,
        options: &ParsedArguments<'_>,
        notes: &mut CommandAnalysisBuilder,
    ) {
        notes.record_write(file, depth);
        let Some(path) = file.as_known() else { return };
        let suffix = options.values(&["S", "suffix"]).last();
        let Some(suffix) = suffix.map_or(Some(self.suffix), ShellArg::as_known) else {
            notes.record_write(&path_starting_with(""), AccessDepth::Itself);
            return;
        };
        if !(name.contains("un") || options.has(&["d", "decompress", "uncompress"])) {
            notes.record_write(&ShellArg::known(format!("{path}{suffix}")), AccessDepth::Itself);
            return;
        }
        let folder = path.rsplit_once('/').map(|(folder, _)| folder);
        if options.has(&["N", "name"]) {
            // The file name is stored in the file.
            notes.record_write(&ShellArg::known(folder.unwrap_or(".")), AccessDepth::Beneath);
        }
        let bare =
            path.strip_suffix(suffix).or_else(|| path.rsplit_once('.').map(|(bare, _)| bare));
        if let Some(bare) = bare.filter(|bare| !bare.is_empty() && !bare.ends_with('/')) {
            notes.record_write(&ShellArg::known(bare), AccessDepth::Itself);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::program::files::analysis_assert::check;

    #[test]
    fn compressor_replaces_original_file() {
        check("gzip a", "files: read a, write a, write a.gz");
        check("gzip -c a", "looks: read a");
        check("gzip --to-std a", "looks: read a");
        check("gzip -l a.gz", "looks: read a.gz");
        check("gzip -S v .en", "files: read .en, write .en, write .env");
        check("gunzip .env.gz", "files: read .env.gz, write .env.gz, write .env");
        check("gzip -d .env.gz", "files: read .env.gz, write .env.gz, write .env");
        check("gunzip -N d/a.gz", "files: read d/a.gz, write d/a.gz, write d/**, write d/a");
        check("gzip -r d", "files: read d/**, write d/**, write d.gz");
        check("xz -T 4 a", "files: read a, write a, write a.xz");
        check("zstd -o out a", "files: write out, read a");
        check("zstd --filelist=names", "program: read names");
        check("gzip $x", "files: read $x, write $x, caution");
    }
}
