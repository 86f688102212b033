//! Read-only programs that a table row can describe.

use super::super::program_table::{CurrentFolderUse, OperandRole, ProgramRow, READER_ROW};
use crate::program::options::options;
use crate::word_list::words;

macro_rules! readers {
    ($($names:literal $options:literal $({ $($field:ident: $value:expr),* })?;)*) => {
        &[$(ProgramRow {
            names: words!($names),
            table: options!($options),
            $($($field: $value,)*)?
            ..READER_ROW
        }),*]
    };
}

/// One row for each group of reading programs with the same options.
pub(super) static ROWS: &[ProgramRow] = readers! {
    // Programs that print text or facts and read no named file.
    "tr basename dirname pwd cal ncal uname whoami logname id groups uptime free ps top pgrep \
     pidof pstree vmstat iostat printenv which whereis type locale tty nproc arch getconf lscpu \
     lsblk lsusb lspci lsmod tput seq yes expr factor numfmt apropos whatis help sw_vers users \
     sleep true false lsb_release pathchk" "" { operands: OperandRole::Nothing };
    // Programs that read their operands; treating an option value as a file is harmless.
    "cat tac rev comm cmp realpath bc who w last dircolors \
     zcmp zdiff" "";
    "nl" "-bdfhilnsvw:";
    "head tail" "-ncs: lines: bytes: sleep-interval: pid:";
    "wc" "files0-from:list";
    "cut" "-bcdf: bytes: characters: delimiter: fields: output-delimiter:";
    "paste" "d: delimiters:";
    "join" "-12aejotv:";
    "column" "-cs:";
    "fold fmt expand unexpand" "w:";
    "od" "-AjNt:";
    "hexdump hd" "f:read -ens:";
    "base64 base32 basenc" "o,output:write i,input:read w: wrap:";
    "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum sum md5 shasum"
        "a: algorithm:";
    "stat" "c:";
    "readlink" "";
    "df" "t:";
    "ls dir vdir exa eza lsd"
        "R,recursive,T!beneath =tree!beneath reverse" { folder_use: CurrentFolderUse::Always };
    "du"
        "X,exclude-from:read files0-from:list a,all!beneath -dBt: max-depth: block-size: \
         threshold: exclude:" { folder_use: CurrentFolderUse::Always };
    "hostname domainname dnsdomainname mount"
        "F,b,a,m,o!more file,boot,all,bind,make-private!more" { operands: OperandRole::Refused };
    "ss" "K,D,F,N!more kill,diag,filter,net!more" { operands: OperandRole::Nothing };
    "gofmt" "w!more cpuprofile:!more r:" { beneath: true, single_dash: true };
    // With `-x` it reads whatever a script names.
    "shellcheck"
        "x,external-sources!more rcfile:read -PWefiosS: exclude: format: include: enable: \
         shell: severity: source-path: wiki-link-count:";
    "netstat" "" { operands: OperandRole::Nothing };
    "lsof" "D!more" { operands: OperandRole::Nothing };
    "file"
        "C,compile!more f,files-from:list m,magic-file:read -eFP: exclude: separator: parameter:";
    "strings nm objdump readelf size c++filt addr2line" "plugin:!plugin";
    "sort"
        "files0-from:list random-source:read o,output,T,temporary-directory:write \
         compress-program:command -ktS: key: field-separator: buffer-size: parallel: batch-size:";
    "shuf" "random-source:read o,output:write e,echo!no-files -in: input-range: head-count:";
    "uniq" "-fsw: skip-fields: skip-chars: check-chars:" { operands: OperandRole::ReadThenWrite };
    "iconv" "o,output:write -ft: from-code: to-code:";
    "look" "t:" { skip: 1 };
    "diff3" "diff-program:command L: label:";
    "sdiff" "o,output:write!editor diff-program:command w: width:";
    "info"
        "o,output,dribble:write f,file:read restore,init-file:!command-file -dnIk: directory: \
         node: index-search: apropos:" { operands: OperandRole::Nothing };
    "xmllint"
        "o,output:write noent!more \
         =xinclude,noxincludenode,valid,postvalid,dtdvalid,dtdvalidfpi!more \
         =loaddtd,dtdattr,schema,relaxng,schematron,catalogs!more \
         =nocatalogs,path,shell,load-trace!more xpath: encode: pretty:" { single_dash: true };
    "rg ripgrep"
        "f,file:read!pattern ignore-file:read pre,hostname-bin:command type-list!no-files \
         generate:!no-files =version!no-files V!no-files e,regexp:!pattern files!pattern \
         -ABCEMTdgjmrt: after-context: before-context: context: encoding: max-columns: type-not: \
         max-depth: maxdepth: glob: iglob: threads: max-count: replace: type: type-add: \
         type-clear: color: colors: context-separator: dfa-size-limit: regex-size-limit: engine: \
         field-context-separator: field-match-separator: path-separator: hyperlink-format: \
         max-filesize: pre-glob: sort: sortr:"
        { skip: 1, folder_use: CurrentFolderUse::Always, beneath: true };
    "ag"
        "p,path-to-ignore:read pager:script g!pattern -ABCGmW: after: before: context: depth: \
         file-search-regex: ignore: ignore-dir: max-count: width: workers:"
        { skip: 1, folder_use: CurrentFolderUse::Always, beneath: true };
    "ack ack-grep"
        "files-from:list x!more ackrc:!option-file output:!perl pager:script f,g!pattern match:!pattern \
         -ABm: after-context: before-context: max-count: type: ignore-dir: ignore-file:"
        { skip: 1, folder_use: CurrentFolderUse::Always, beneath: true };
    "tldr" "u,c,r,f!more update,clear-cache,render!more" { operands: OperandRole::Nothing };
    // `-C` takes a value in some versions only, so it is not listed: treating a number as a file is
    // harmless.
    "grep egrep fgrep ggrep zgrep zegrep zfgrep bzgrep xzgrep zstdgrep"
        "f,file:read!pattern exclude-from:read r,R,recursive,dereference-recursive!beneath \
         d,directories:!beneath e,regexp:!pattern -mABD: max-count: after-context: before-context: \
         devices: binary-files: exclude: include: exclude-dir: label:"
        { skip: 1, folder_use: CurrentFolderUse::IfBeneath };
};
