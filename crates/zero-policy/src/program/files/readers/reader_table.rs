//! The programs that look, as far as a row of the table can say what they do.

use super::super::program_table::{CurrentFolderUse, OperandRole, ProgramRow, READER_ROW};
use crate::program::options::{options, words};

/// One row for each group of reading programs with the same options.
pub(super) static ROWS: &[ProgramRow] = &[
    // What prints words or facts and reads no file that is named.
    ProgramRow {
        names: words!(
            "tr basename dirname pwd cal ncal uname whoami logname id groups uptime \
                        free ps top pgrep pidof pstree vmstat iostat printenv which whereis type \
                        locale tty nproc arch getconf lscpu lsblk lsusb lspci lsmod tput seq yes \
                        expr factor numfmt apropos whatis help sw_vers users sleep true false \
                        lsb_release pathchk"
        ),
        operands: OperandRole::Nothing,
        ..READER_ROW
    },
    // What reads its operands; an option value taken for a file harms nobody.
    ProgramRow {
        names: words!(
            "cat tac rev zcat gzcat bzcat xzcat zstdcat lzcat comm cmp realpath bc who \
                        w last dircolors zcmp zdiff"
        ),
        ..READER_ROW
    },
    ProgramRow { names: &["nl"], table: options!("-bdfhilnsvw:"), ..READER_ROW },
    ProgramRow {
        names: &["head", "tail"],
        table: options!("-ncs: lines: bytes: sleep-interval: pid:"),
        ..READER_ROW
    },
    ProgramRow { names: &["wc"], table: options!("files0-from:list"), ..READER_ROW },
    ProgramRow {
        names: &["cut"],
        table: options!("-bcdf: bytes: characters: delimiter: fields: output-delimiter:"),
        ..READER_ROW
    },
    ProgramRow { names: &["paste"], table: options!("d: delimiters:"), ..READER_ROW },
    ProgramRow { names: &["join"], table: options!("-12aejotv:"), ..READER_ROW },
    ProgramRow { names: &["column"], table: options!("-cs:"), ..READER_ROW },
    ProgramRow {
        names: &["fold", "fmt", "expand", "unexpand"],
        table: options!("w:"),
        ..READER_ROW
    },
    ProgramRow { names: &["od"], table: options!("-AjNt:"), ..READER_ROW },
    ProgramRow { names: &["hexdump", "hd"], table: options!("f:read -ens:"), ..READER_ROW },
    ProgramRow {
        names: &["base64", "base32", "basenc"],
        table: options!("o,output:write i,input:read w: wrap:"),
        ..READER_ROW
    },
    ProgramRow {
        names: words!(
            "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum \
                        sum md5 shasum"
        ),
        table: options!("a: algorithm:"),
        ..READER_ROW
    },
    ProgramRow { names: &["stat"], table: options!("c:"), ..READER_ROW },
    ProgramRow { names: &["readlink"], ..READER_ROW },
    ProgramRow { names: &["df"], table: options!("t:"), ..READER_ROW },
    ProgramRow {
        names: words!("ls dir vdir exa eza lsd"),
        table: options!("R,recursive,T!beneath =tree!beneath reverse"),
        here: CurrentFolderUse::Always,
        ..READER_ROW
    },
    ProgramRow {
        names: &["du"],
        table: options!(
            "X,exclude-from:read files0-from:list a,all!beneath -dBt: max-depth: \
                         block-size: threshold: exclude:"
        ),
        here: CurrentFolderUse::Always,
        ..READER_ROW
    },
    ProgramRow {
        names: &["hostname", "domainname", "dnsdomainname", "mount"],
        table: options!("F,b,a,m,o!more =file,boot,all,bind,make-private!more"),
        operands: OperandRole::Refused,
        ..READER_ROW
    },
    ProgramRow {
        names: &["ss"],
        table: options!("K,D,F,N!more =kill,diag,filter,net!more"),
        operands: OperandRole::Nothing,
        ..READER_ROW
    },
    ProgramRow {
        names: &["gofmt"],
        table: options!("w!more cpuprofile:!more r:").single_dash(),
        beneath: true,
        ..READER_ROW
    },
    ProgramRow { names: &["netstat"], operands: OperandRole::Nothing, ..READER_ROW },
    ProgramRow {
        names: &["lsof"],
        table: options!("D!more"),
        operands: OperandRole::Nothing,
        ..READER_ROW
    },
    ProgramRow {
        names: &["file"],
        table: options!(
            "C,compile!more f,files-from:list m,magic-file:read -eFP: exclude: \
                         separator: parameter:"
        ),
        ..READER_ROW
    },
    ProgramRow {
        names: words!("strings nm objdump readelf size c++filt addr2line"),
        table: options!("plugin:!plugin"),
        ..READER_ROW
    },
    ProgramRow {
        names: &["sort"],
        table: options!(
            "files0-from:list random-source:read o,output,T,temporary-directory:write \
                         compress-program:command -ktS: key: field-separator: buffer-size: \
                         parallel: batch-size:"
        ),
        ..READER_ROW
    },
    ProgramRow {
        names: &["shuf"],
        table: options!(
            "random-source:read o,output:write e,echo!no-files -in: input-range: \
                         head-count:"
        ),
        ..READER_ROW
    },
    ProgramRow {
        names: &["uniq"],
        table: options!("-fsw: skip-fields: skip-chars: check-chars:"),
        operands: OperandRole::ReadThenWrite,
        ..READER_ROW
    },
    ProgramRow {
        names: &["iconv"],
        table: options!("o,output:write -ft: from-code: to-code:"),
        ..READER_ROW
    },
    ProgramRow { names: &["look"], table: options!("t:"), skip: 1, ..READER_ROW },
    ProgramRow {
        names: &["diff3", "sdiff"],
        table: options!("o,output:write diff-program:command -wL: width: label:"),
        ..READER_ROW
    },
    ProgramRow {
        names: &["info"],
        table: options!(
            "o,output,dribble:write f,file:read restore,init-file:!command-file -dnIk: \
                         directory: node: index-search: apropos:"
        ),
        operands: OperandRole::Nothing,
        ..READER_ROW
    },
    ProgramRow {
        names: &["xmllint"],
        table: options!(
            "o,output:write noent!more \
                         =xinclude,noxincludenode,valid,postvalid,dtdvalid,dtdvalidfpi!more \
                         =loaddtd,dtdattr,schema,relaxng,schematron,catalogs!more \
                         =nocatalogs,path,shell,load-trace!more \
                         xpath: encode: pretty:"
        )
        .single_dash(),
        ..READER_ROW
    },
    GREP,
    ProgramRow { names: words!("zgrep zegrep zfgrep bzgrep xzgrep zstdgrep"), ..GREP },
    ProgramRow {
        names: &["rg", "ripgrep"],
        table: options!(
            "f,file:read!pattern ignore-file:read pre,hostname-bin:command \
                         type-list!no-files generate:!no-files =version!no-files V!no-files \
                         e,regexp:!pattern files!pattern -ABCEMTdgjmrt: after-context: \
                         before-context: context: encoding: max-columns: type-not: max-depth: \
                         maxdepth: glob: iglob: threads: max-count: replace: type: type-add: \
                         type-clear: color: colors: context-separator: dfa-size-limit: \
                         regex-size-limit: engine: field-context-separator: field-match-separator: \
                         path-separator: hyperlink-format: max-filesize: pre-glob: sort: sortr:"
        ),
        skip: 1,
        here: CurrentFolderUse::Always,
        beneath: true,
        ..READER_ROW
    },
    ProgramRow {
        names: &["ag"],
        table: options!(
            "p,path-to-ignore:read pager:script g!pattern -ABCGmW: after: before: \
                         context: depth: file-search-regex: ignore: ignore-dir: max-count: width: \
                         workers:"
        ),
        skip: 1,
        here: CurrentFolderUse::Always,
        beneath: true,
        ..READER_ROW
    },
    ProgramRow {
        names: &["ack", "ack-grep"],
        table: options!(
            "files-from:list ackrc:!option-file output:!perl pager:script f,g!pattern \
                         match:!pattern -ABm: after-context: before-context: max-count: type: \
                         ignore-dir: ignore-file:"
        ),
        skip: 1,
        here: CurrentFolderUse::Always,
        beneath: true,
        ..READER_ROW
    },
    ProgramRow {
        names: &["tldr"],
        table: options!("u,c,r,f!more =update,clear-cache,render!more"),
        operands: OperandRole::Nothing,
        ..READER_ROW
    },
];

const GREP: ProgramRow = ProgramRow {
    names: &["grep", "egrep", "fgrep", "ggrep"],
    table: options!(
        "f,file:read!pattern exclude-from:read \
                     r,R,recursive,dereference-recursive!beneath d,directories:!beneath \
                     e,regexp:!pattern -mABD: max-count: after-context: before-context: devices: \
                     binary-files: exclude: include: exclude-dir: label:"
    ),
    skip: 1,
    here: CurrentFolderUse::IfBeneath,
    ..READER_ROW
};
