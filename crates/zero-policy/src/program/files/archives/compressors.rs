//! Programs that replace a file by its compressed form, or the reverse.

use crate::program::arguments::prefix_args;
use crate::program::command_analysis::CommandAnalysis;
use crate::program::options::{OptionChange, OptionTable, ParsedArguments, ValueUse, options};
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
                " -kfqv0123456789 c,stdout,to-stdout!redirect output:write!redirect t,test,list!show \
                 d,decompress,uncompress,compress!mode suffix: output-dir-flat: \
                 output-dir-mirror: filelist:!more files,files0,train!more recursive!beneath \
                 name no-name keep force quiet verbose fast best no-progress no-check no-warn long:: memory:: memlimit:: \
                 threads:: patch-from"
            )),
            suffix: $suffix,
        }),*]
    };
}

/// Their names, the short options that not all of them have, and the suffix of a compressed file.
/// Names that end with `cat` write to standard output.
static COMPRESSORS: &[Compressor] = compressors! {
    "gzip gunzip zcat gzcat" "l!show r!beneath -nN S:" ".gz";
    "pigz unpigz" "l!show r!beneath -nNTz -Sbp:" ".gz";
    "bzip2 bunzip2 bzcat pbzip2" "z!mode s" ".bz2";
    "xz unxz xzcat" "l!show z!mode -eQ -SFCTM:" ".xz";
    "lzma unlzma lzcat" "l!show z!mode -eQ -SFCTM:" ".lzma";
    // The number after `-T` ends where the next option begins.
    "zstd unzstd zstdcat zstdmt pzstd" "l!show z!mode r!beneath T D: o:write!redirect" ".zst";
    // `-l` is a format of `lz4`.
    "lz4 unlz4 lz4cat" "z!mode r!beneath m D:" ".lz4";
    "brotli unbrotli" "o:write!redirect -wS:" ".br";
    "compress uncompress" "r!beneath b:" ".Z";
};

impl Compressor {
    fn analyze(&self, name: &str, args: &[ShellArg]) -> CommandAnalysis {
        let shows: &[&str] = if name.ends_with("cat") { &["-c"] } else { &[] };
        let args = prefix_args(shows, args);
        let options = self.table.parse(&args);
        let depth = if options.has_change(OptionChange::Beneath) {
            AccessDepth::Beneath
        } else {
            AccessDepth::Itself
        };
        let mut notes = CommandAnalysisBuilder::default();
        notes.record_reads(options.values(&["D", "patch-from", "filelist", "files", "files0"]));
        notes.record_outputs(options.used_values(ValueUse::Write));
        for folder in options.values(&["output-dir-flat", "output-dir-mirror"]) {
            notes.record_write(folder, AccessDepth::Beneath);
        }
        let shows = options.only_shows();
        for file in &options.operands {
            notes.record_read(file, depth);
            if !shows {
                self.record_replaced_file(name, file, depth, &options, &mut notes);
            }
        }
        notes.record_hidden_option(&args, &options);
        // The files are listed elsewhere, or generated.
        let elsewhere = options.has_change(OptionChange::More);
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
        let unpacks = name.contains("un")
            || name.ends_with("cat")
            || options.has(&["d", "decompress", "uncompress"]);
        if !unpacks || options.has(&["z", "compress"]) {
            notes.record_write(&ShellArg::known(format!("{path}{suffix}")), AccessDepth::Itself);
        }
        if !unpacks {
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
        check("zstd -c a -o out", "files: write out, read a");
        check("lz4 a b", "files: read a, write a, write a.lz4, read b, write b, write b.lz4");
        check("gzip $x", "files: read $x, write $x, caution");
    }

    #[test]
    fn file_is_replaced_if_another_option_may_end_the_listing() {
        for line in ["xz -ldkf a.xz", "xz -tdkf a.xz", "xz --li --dec a.xz", "xzcat --x a.xz"] {
            check(line, "files: read a.xz, write a.xz, write a");
        }
        check("bzip2 -tdkf a.bz2", "files: read a.bz2, write a.bz2, write a");
        check("zstd -tdf a.zst", "files: read a.zst, write a.zst, write a");
        check("zstd -c --rm a", "files: read a, write a, write a.zst");
        check("brotli -dcj a.br", "files: read a.br, write a.br, write a");
        check("lz4 -dlf a b.c", "files: read a, write a, read b.c, write b.c, write b");
        check("unxz -tz a", "files: read a, write a, write a.xz");
        check("zstdcat -f x -o y", "files: write y, read x");
        check("zstdcat -dT0o y x", "files: write y, read x");
        for line in ["zcat -f a", "gzip -dcf a", "gunzip -t a", "xz -T4 -dc a", "unxz -tv a"] {
            check(line, "looks: read a");
        }
        for line in ["zstd -dcT0 a", "zstd -l a", "bzip2 -tvv a", "lz4 -dc a", "xz -9 -c a"] {
            check(line, "looks: read a");
        }
    }
}
