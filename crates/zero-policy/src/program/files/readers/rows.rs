//! The programs that look, as far as a row of the table can say what they do.

use super::super::table::{Does, Here, Operands, READER, Row};

const BINUTILS_PLUGIN: (&str, Does) = ("plugin", Does::Runs("a plugin is code that is loaded"));

/// The rows.
pub(super) static ROWS: &[Row] = &[
    // What prints words or facts and reads no file that is named.
    Row {
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
        operands: Operands::Nothing,
        ..READER
    },
    // What reads its operands; an option value taken for a file harms nobody.
    Row {
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
        ..READER
    },
    Row { names: &["nl"], short_values: "bdfhilnsvw", ..READER },
    Row {
        names: &["head", "tail"],
        short_values: "ncs",
        long_values: &["lines", "bytes", "sleep-interval", "pid"],
        ..READER
    },
    Row {
        names: &["wc"],
        long_values: &["files0-from"],
        options: &[("files0-from", Does::Lists)],
        ..READER
    },
    Row {
        names: &["cut"],
        short_values: "bcdf",
        long_values: &["bytes", "characters", "delimiter", "fields", "output-delimiter"],
        ..READER
    },
    Row { names: &["paste"], short_values: "d", long_values: &["delimiters"], ..READER },
    Row { names: &["join"], short_values: "12aejotv", ..READER },
    Row { names: &["column"], short_values: "cs", ..READER },
    Row { names: &["fold", "fmt", "expand", "unexpand"], short_values: "w", ..READER },
    Row { names: &["od"], short_values: "AjNt", ..READER },
    Row {
        names: &["hexdump", "hd"],
        short_values: "efns",
        options: &[("f", Does::Reads)],
        ..READER
    },
    Row {
        names: &["base64", "base32", "basenc"],
        short_values: "wio",
        long_values: &["wrap", "input", "output"],
        // As macOS has it: `-i` and `-o`. Elsewhere `-i` has no value, and what follows is a file.
        options: &[("o output", Does::Writes), ("i input", Does::Reads)],
        ..READER
    },
    Row {
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
        ..READER
    },
    Row { names: &["stat"], short_values: "c", ..READER },
    Row { names: &["readlink"], ..READER },
    Row { names: &["df"], short_values: "t", ..READER },
    Row {
        names: &["ls", "dir", "vdir", "exa", "eza", "lsd"],
        long_flags: &["recursive", "reverse"],
        beneath: "R recursive T tree",
        here: Here::Always,
        ..READER
    },
    Row {
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
        here: Here::Always,
        options: &[("X exclude-from", Does::Reads), ("files0-from", Does::Lists)],
        ..READER
    },
    Row {
        names: &["hostname", "domainname", "dnsdomainname", "mount"],
        operands: Operands::Refused,
        options: &[("F file b boot a all m bind o make-private", Does::More)],
        ..READER
    },
    Row {
        names: &["ss"],
        operands: Operands::Nothing,
        options: &[("K kill D diag F filter N net", Does::More)],
        ..READER
    },
    Row {
        names: &["gofmt"],
        short_values: "r",
        single_dash_long: true,
        long_values: &["cpuprofile"],
        beneath: "*",
        options: &[("w cpuprofile", Does::More)],
        ..READER
    },
    Row { names: &["netstat"], operands: Operands::Nothing, ..READER },
    Row { names: &["lsof"], operands: Operands::Nothing, options: &[("D", Does::More)], ..READER },
    Row {
        names: &["file"],
        short_values: "efmFP",
        long_values: &["exclude", "files-from", "magic-file", "separator", "parameter"],
        long_flags: &["compile"],
        options: &[
            ("C compile", Does::More),
            ("f files-from", Does::Lists),
            ("m magic-file", Does::Reads),
        ],
        ..READER
    },
    Row {
        names: &["strings", "nm", "objdump", "readelf", "size", "c++filt", "addr2line"],
        long_values: &["plugin"],
        options: &[BINUTILS_PLUGIN],
        ..READER
    },
    Row {
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
            ("files0-from", Does::Lists),
            ("random-source", Does::Reads),
            ("o output T temporary-directory", Does::Writes),
            ("compress-program", Does::Command),
        ],
        ..READER
    },
    Row {
        names: &["shuf"],
        short_values: "ino",
        long_values: &["input-range", "head-count", "output", "random-source"],
        long_flags: &["echo"],
        options: &[
            ("random-source", Does::Reads),
            ("o output", Does::Writes),
            ("e echo", Does::NoFiles),
        ],
        ..READER
    },
    Row {
        names: &["uniq"],
        short_values: "fsw",
        long_values: &["skip-fields", "skip-chars", "check-chars"],
        operands: Operands::ReadThenWrite,
        ..READER
    },
    Row {
        names: &["iconv"],
        short_values: "fto",
        long_values: &["from-code", "to-code", "output"],
        options: &[("o output", Does::Writes)],
        ..READER
    },
    Row { names: &["look"], short_values: "t", skip: 1, ..READER },
    Row {
        names: &["diff3", "sdiff"],
        short_values: "owL",
        long_values: &["output", "width", "label", "diff-program"],
        options: &[("o output", Does::Writes), ("diff-program", Does::Command)],
        ..READER
    },
    Row {
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
        operands: Operands::Nothing,
        options: &[
            ("o output dribble", Does::Writes),
            ("f file", Does::Reads),
            ("restore init-file", Does::Caution("a file gives it commands")),
        ],
        ..READER
    },
    Row {
        names: &["xmllint"],
        short_values: "o",
        single_dash_long: true,
        long_values: &["output", "xpath", "encode", "pretty"],
        // It follows what a document refers to, over the network too, once it is told to.
        long_flags: &["noent"],
        options: &[
            ("o output", Does::Writes),
            (
                "noent xinclude noxincludenode valid postvalid dtdvalid dtdvalidfpi loaddtd \
                 dtdattr schema relaxng schematron catalogs nocatalogs path shell load-trace",
                Does::More,
            ),
        ],
        ..READER
    },
    GREP,
    Row { names: &["zgrep", "zegrep", "zfgrep", "bzgrep", "xzgrep", "zstdgrep"], ..GREP },
    Row {
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
        here: Here::Always,
        options: &[
            ("f file ignore-file", Does::Reads),
            ("pre hostname-bin", Does::Command),
            ("type-list generate version V", Does::NoFiles),
        ],
        ..READER
    },
    Row {
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
        here: Here::Always,
        options: &[("p path-to-ignore", Does::Reads), ("pager", Does::Script)],
        ..READER
    },
    Row {
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
        here: Here::Always,
        options: &[
            ("files-from", Does::Lists),
            ("ackrc", Does::Caution("a file gives it options")),
            ("output", Does::Runs("`--output` is a Perl expression")),
            ("pager", Does::Script),
        ],
        ..READER
    },
    Row {
        names: &["tldr"],
        operands: Operands::Nothing,
        options: &[("u update c clear-cache r render f", Does::More)],
        ..READER
    },
];

const GREP: Row = Row {
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
    here: Here::IfBeneath,
    options: &[("f file exclude-from", Does::Reads)],
    ..READER
};
