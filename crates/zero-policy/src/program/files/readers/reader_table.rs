//! The programs that look, as far as a row of the table can say what they do.

use super::super::program_table::{
    CurrentFolderUse, OperandRole, OptionEffect, ProgramRow, READER_ROW,
};

const BINUTILS_PLUGIN: (&str, OptionEffect) =
    ("plugin", OptionEffect::Runs("a plugin is code that is loaded"));

/// One row for each group of reading programs with the same options.
pub(super) static ROWS: &[ProgramRow] = &[
    // What prints words or facts and reads no file that is named.
    ProgramRow {
        names: &[
            "tr",
            "basename",
            "dirname",
            "pwd",
            "cal",
            "ncal",
            "uname",
            "whoami",
            "logname",
            "id",
            "groups",
            "uptime",
            "free",
            "ps",
            "top",
            "pgrep",
            "pidof",
            "pstree",
            "vmstat",
            "iostat",
            "printenv",
            "which",
            "whereis",
            "type",
            "locale",
            "tty",
            "nproc",
            "arch",
            "getconf",
            "lscpu",
            "lsblk",
            "lsusb",
            "lspci",
            "lsmod",
            "tput",
            "seq",
            "yes",
            "expr",
            "factor",
            "numfmt",
            "apropos",
            "whatis",
            "help",
            "sw_vers",
            "users",
            "sleep",
            "true",
            "false",
            "lsb_release",
            "pathchk",
        ],
        operands: OperandRole::Nothing,
        ..READER_ROW
    },
    // What reads its operands; an option value taken for a file harms nobody.
    ProgramRow {
        names: &[
            "cat",
            "tac",
            "rev",
            "zcat",
            "gzcat",
            "bzcat",
            "xzcat",
            "zstdcat",
            "lzcat",
            "comm",
            "cmp",
            "realpath",
            "bc",
            "who",
            "w",
            "last",
            "dircolors",
            "zcmp",
            "zdiff",
        ],
        ..READER_ROW
    },
    ProgramRow { names: &["nl"], short_values: "bdfhilnsvw", ..READER_ROW },
    ProgramRow {
        names: &["head", "tail"],
        short_values: "ncs",
        long_values: &["lines", "bytes", "sleep-interval", "pid"],
        ..READER_ROW
    },
    ProgramRow {
        names: &["wc"],
        long_values: &["files0-from"],
        options: &[("files0-from", OptionEffect::Lists)],
        ..READER_ROW
    },
    ProgramRow {
        names: &["cut"],
        short_values: "bcdf",
        long_values: &["bytes", "characters", "delimiter", "fields", "output-delimiter"],
        ..READER_ROW
    },
    ProgramRow { names: &["paste"], short_values: "d", long_values: &["delimiters"], ..READER_ROW },
    ProgramRow { names: &["join"], short_values: "12aejotv", ..READER_ROW },
    ProgramRow { names: &["column"], short_values: "cs", ..READER_ROW },
    ProgramRow { names: &["fold", "fmt", "expand", "unexpand"], short_values: "w", ..READER_ROW },
    ProgramRow { names: &["od"], short_values: "AjNt", ..READER_ROW },
    ProgramRow {
        names: &["hexdump", "hd"],
        short_values: "efns",
        options: &[("f", OptionEffect::Reads)],
        ..READER_ROW
    },
    ProgramRow {
        names: &["base64", "base32", "basenc"],
        short_values: "wio",
        long_values: &["wrap", "input", "output"],
        // As macOS has it: `-i` and `-o`. Elsewhere `-i` has no value, and what follows is a file.
        options: &[("o output", OptionEffect::Writes), ("i input", OptionEffect::Reads)],
        ..READER_ROW
    },
    ProgramRow {
        names: &[
            "md5sum",
            "sha1sum",
            "sha224sum",
            "sha256sum",
            "sha384sum",
            "sha512sum",
            "b2sum",
            "b3sum",
            "cksum",
            "sum",
            "md5",
            "shasum",
        ],
        short_values: "a",
        long_values: &["algorithm"],
        ..READER_ROW
    },
    ProgramRow { names: &["stat"], short_values: "c", ..READER_ROW },
    ProgramRow { names: &["readlink"], ..READER_ROW },
    ProgramRow { names: &["df"], short_values: "t", ..READER_ROW },
    ProgramRow {
        names: &["ls", "dir", "vdir", "exa", "eza", "lsd"],
        long_flags: &["recursive", "reverse"],
        beneath: "R recursive T tree",
        here: CurrentFolderUse::Always,
        ..READER_ROW
    },
    ProgramRow {
        names: &["du"],
        short_values: "dBtX",
        long_values: &[
            "max-depth",
            "block-size",
            "threshold",
            "exclude",
            "exclude-from",
            "files0-from",
        ],
        long_flags: &["all"],
        beneath: "a all",
        here: CurrentFolderUse::Always,
        options: &[("X exclude-from", OptionEffect::Reads), ("files0-from", OptionEffect::Lists)],
        ..READER_ROW
    },
    ProgramRow {
        names: &["hostname", "domainname", "dnsdomainname", "mount"],
        operands: OperandRole::Refused,
        options: &[("F file b boot a all m bind o make-private", OptionEffect::More)],
        ..READER_ROW
    },
    ProgramRow {
        names: &["ss"],
        operands: OperandRole::Nothing,
        options: &[("K kill D diag F filter N net", OptionEffect::More)],
        ..READER_ROW
    },
    ProgramRow {
        names: &["gofmt"],
        short_values: "r",
        single_dash_long: true,
        long_values: &["cpuprofile"],
        beneath: "*",
        options: &[("w cpuprofile", OptionEffect::More)],
        ..READER_ROW
    },
    ProgramRow { names: &["netstat"], operands: OperandRole::Nothing, ..READER_ROW },
    ProgramRow {
        names: &["lsof"],
        operands: OperandRole::Nothing,
        options: &[("D", OptionEffect::More)],
        ..READER_ROW
    },
    ProgramRow {
        names: &["file"],
        short_values: "efmFP",
        long_values: &["exclude", "files-from", "magic-file", "separator", "parameter"],
        long_flags: &["compile"],
        options: &[
            ("C compile", OptionEffect::More),
            ("f files-from", OptionEffect::Lists),
            ("m magic-file", OptionEffect::Reads),
        ],
        ..READER_ROW
    },
    ProgramRow {
        names: &["strings", "nm", "objdump", "readelf", "size", "c++filt", "addr2line"],
        long_values: &["plugin"],
        options: &[BINUTILS_PLUGIN],
        ..READER_ROW
    },
    ProgramRow {
        names: &["sort"],
        short_values: "ktSTo",
        long_values: &[
            "key",
            "field-separator",
            "buffer-size",
            "temporary-directory",
            "output",
            "compress-program",
            "files0-from",
            "random-source",
            "parallel",
            "batch-size",
        ],
        options: &[
            ("files0-from", OptionEffect::Lists),
            ("random-source", OptionEffect::Reads),
            ("o output T temporary-directory", OptionEffect::Writes),
            ("compress-program", OptionEffect::Command),
        ],
        ..READER_ROW
    },
    ProgramRow {
        names: &["shuf"],
        short_values: "ino",
        long_values: &["input-range", "head-count", "output", "random-source"],
        long_flags: &["echo"],
        options: &[
            ("random-source", OptionEffect::Reads),
            ("o output", OptionEffect::Writes),
            ("e echo", OptionEffect::NoFiles),
        ],
        ..READER_ROW
    },
    ProgramRow {
        names: &["uniq"],
        short_values: "fsw",
        long_values: &["skip-fields", "skip-chars", "check-chars"],
        operands: OperandRole::ReadThenWrite,
        ..READER_ROW
    },
    ProgramRow {
        names: &["iconv"],
        short_values: "fto",
        long_values: &["from-code", "to-code", "output"],
        options: &[("o output", OptionEffect::Writes)],
        ..READER_ROW
    },
    ProgramRow { names: &["look"], short_values: "t", skip: 1, ..READER_ROW },
    ProgramRow {
        names: &["diff3", "sdiff"],
        short_values: "owL",
        long_values: &["output", "width", "label", "diff-program"],
        options: &[("o output", OptionEffect::Writes), ("diff-program", OptionEffect::Command)],
        ..READER_ROW
    },
    ProgramRow {
        names: &["info"],
        short_values: "odfnIk",
        long_values: &[
            "output",
            "directory",
            "file",
            "node",
            "index-search",
            "apropos",
            "dribble",
            "restore",
            "init-file",
        ],
        operands: OperandRole::Nothing,
        options: &[
            ("o output dribble", OptionEffect::Writes),
            ("f file", OptionEffect::Reads),
            ("restore init-file", OptionEffect::Caution("a file gives it commands")),
        ],
        ..READER_ROW
    },
    ProgramRow {
        names: &["xmllint"],
        short_values: "o",
        single_dash_long: true,
        long_values: &["output", "xpath", "encode", "pretty"],
        // It follows what a document refers to, over the network too, once it is told to.
        long_flags: &["noent"],
        options: &[
            ("o output", OptionEffect::Writes),
            (
                "noent xinclude noxincludenode valid postvalid dtdvalid dtdvalidfpi loaddtd \
                 dtdattr schema relaxng schematron catalogs nocatalogs path shell load-trace",
                OptionEffect::More,
            ),
        ],
        ..READER_ROW
    },
    GREP,
    ProgramRow { names: &["zgrep", "zegrep", "zfgrep", "bzgrep", "xzgrep", "zstdgrep"], ..GREP },
    ProgramRow {
        names: &["rg", "ripgrep"],
        short_values: "ABCEMTdefgjmrt",
        long_values: &[
            "after-context",
            "before-context",
            "context",
            "encoding",
            "max-columns",
            "type-not",
            "max-depth",
            "maxdepth",
            "regexp",
            "file",
            "glob",
            "iglob",
            "threads",
            "max-count",
            "replace",
            "type",
            "type-add",
            "type-clear",
            "color",
            "colors",
            "context-separator",
            "dfa-size-limit",
            "regex-size-limit",
            "engine",
            "field-context-separator",
            "field-match-separator",
            "path-separator",
            "hyperlink-format",
            "ignore-file",
            "max-filesize",
            "pre",
            "pre-glob",
            "hostname-bin",
            "sort",
            "sortr",
            "generate",
        ],
        long_flags: &["files", "type-list"],
        skip: 1,
        skip_unless: "e regexp f file files type-list",
        beneath: "*",
        here: CurrentFolderUse::Always,
        options: &[
            ("f file ignore-file", OptionEffect::Reads),
            ("pre hostname-bin", OptionEffect::Command),
            ("type-list generate version V", OptionEffect::NoFiles),
        ],
        ..READER_ROW
    },
    ProgramRow {
        names: &["ag"],
        short_values: "ABCGmpW",
        long_values: &[
            "after",
            "before",
            "context",
            "depth",
            "file-search-regex",
            "ignore",
            "ignore-dir",
            "max-count",
            "path-to-ignore",
            "pager",
            "width",
            "workers",
        ],
        skip: 1,
        skip_unless: "g",
        beneath: "*",
        here: CurrentFolderUse::Always,
        options: &[("p path-to-ignore", OptionEffect::Reads), ("pager", OptionEffect::Script)],
        ..READER_ROW
    },
    ProgramRow {
        names: &["ack", "ack-grep"],
        short_values: "ABm",
        long_values: &[
            "ackrc",
            "after-context",
            "before-context",
            "max-count",
            "match",
            "output",
            "pager",
            "type",
            "ignore-dir",
            "ignore-file",
            "files-from",
        ],
        skip: 1,
        skip_unless: "f g match",
        beneath: "*",
        here: CurrentFolderUse::Always,
        options: &[
            ("files-from", OptionEffect::Lists),
            ("ackrc", OptionEffect::Caution("a file gives it options")),
            ("output", OptionEffect::Runs("`--output` is a Perl expression")),
            ("pager", OptionEffect::Script),
        ],
        ..READER_ROW
    },
    ProgramRow {
        names: &["tldr"],
        operands: OperandRole::Nothing,
        options: &[("u update c clear-cache r render f", OptionEffect::More)],
        ..READER_ROW
    },
];

const GREP: ProgramRow = ProgramRow {
    names: &["grep", "egrep", "fgrep", "ggrep"],
    // `-C` takes a value here and none there, so it is not listed: a number read as a file harms
    // nobody.
    short_values: "efmABdD",
    long_values: &[
        "regexp",
        "file",
        "max-count",
        "after-context",
        "before-context",
        "directories",
        "devices",
        "binary-files",
        "exclude",
        "exclude-from",
        "include",
        "exclude-dir",
        "label",
    ],
    long_flags: &["recursive", "dereference-recursive"],
    skip: 1,
    skip_unless: "e regexp f file",
    beneath: "r R recursive dereference-recursive d directories",
    here: CurrentFolderUse::IfBeneath,
    options: &[("f file exclude-from", OptionEffect::Reads)],
    ..READER_ROW
};
