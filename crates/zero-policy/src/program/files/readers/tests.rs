//! Checks that read-only forms need no rule, and that forms with other effects are never missed.

use crate::program::files::analysis_assert::check;

#[test]
fn read_only_programs_need_no_rule() {
    check("cat a b -", "looks: read a, read b");
    check("head -n 5 a", "looks: read a");
    check("ls", "looks: read .");
    check("ls -la src", "looks: read src");
    check("ls -R src", "looks: read src/**");
    check("tree -L 2", "looks: read ./**");
    check("du -sh", "looks: read .");
    check("wc -l *.rs", "looks: read *.rs");
    check("wc --files0-from=-", "looks: read what - names");
    check("sort --files0-from list", "looks: read list, read what list names");
    check("cat $x", "looks: read $x");
    check("tr a-z A-Z", "looks");
    check("ps aux", "looks");
    check("mount", "looks");
    check("hostname", "looks");
    check("nobody-knows a", "not known");
    check("shellcheck -s bash a.sh", "looks: read a.sh");
    check("shellcheck --rcfile=rc a.sh", "looks: read rc, read a.sh");
}

#[test]
fn output_option_writes_in_every_spelling() {
    check("sort in", "looks: read in");
    check("sort -o out in", "files: write out, read in");
    check("sort in -uoout", "files: write out, read in");
    check("sort --out=out in", "files: write out, read in");
    check("sort --outp out in", "files: write out, read out, read in");
    check("sort -o$x in", "files: write -o$x, read in, read -o$x, caution");
    check("sort --compress-prog=./x -S1 in", "looks: read in, runs ./x");
    check("sort -T dir in", "files: write dir, read in");
    check("sort $x", "looks: read $x, caution");
    check("sort -- $x", "looks: read $x");
    check("sort -k -- $x", "looks: read $x, caution");
    check("sort *.txt", "looks: read *.txt, caution");
    check("shuf -o out in", "files: write out, read in");
    check("shuf -e a b", "looks");
    check("tree -o out src", "files: write out, read src/**");
    check("tree -R -L 1 -H . src", "program: read src/**");
    check("iconv -f utf8 -o out in", "files: write out, read in");
    check("sdiff -o out a b", "files: write out, read a, read b, runs something");
    check("sdiff --outp=out a b", "files: write out, read a, read b, runs something");
    check("sdiff -l a b", "looks: read a, read b");
    check("diff3 --diff-prog=./x a b c", "looks: read a, read b, read c, runs ./x");
    check("less -O log a", "files: write log, read a");
    check("less +F a", "looks: read a");
    check("less '+!id' a", "looks: read a, runs something");
    check("xmllint --format a.xml --output out", "files: write out, read a.xml");
    check("xmllint --noent a.xml", "program: read a.xml");
    check("xmllint -noent a.xml", "program: read a.xml");
    check("xmllint http://h/a", "program: read http://h/a, host http://h/a");
    check("tree -ao out", "files: write out, read ./**");
    check("tree -oa out src", "files: write a, write out, read src/**");
    check("tree -oout", "files: write out, read ./**");
    check("tree -Lo 2 out src", "files: write out, read src/**");
    check("nm @args", "looks: read args, read @args, caution");
    check("more -p a", "looks: read a");
    check("fmt -t a", "looks: read a");
    check("man -T -P./x ls", "looks: script ./x");
    check("file -C -m magic", "program: read magic");
    check("nm --plug=./x.so a", "looks: read a, runs something");
    check("base64 -d a", "looks: read a");
}

#[test]
fn second_operand_of_some_programs_is_output() {
    check("uniq -c", "looks");
    check("uniq -f 1 in", "looks: read in");
    check("uniq in out", "files: read in, write out");
    check("uniq - out", "files: write out");
    check("uniq $x", "looks: read $x, caution");
    check("xxd in", "looks: read in");
    check("xxd -r -p in out", "files: read in, write out");
    check("xxd -ps in out", "files: read in, write out");
    check("xxd -s 5 in", "looks: read in");
}

#[test]
fn search_reads_files_after_pattern() {
    check("grep foo a b", "looks: read a, read b");
    check("grep foo", "looks");
    check("grep -r foo", "looks: read ./**");
    check("grep -rn --include=*.rs foo src", "looks: read src/**");
    check("grep -f patterns a", "looks: read patterns, read a");
    check("grep -e foo a", "looks: read a");
    check("grep -C foo .env", "looks: read .env");
    check("grep -C3 foo .env", "looks: read .env");
    check("rg --ignore --pre=./x foo", "looks: read --pre=./x, read ./**, runs ./x");
    check("grep --recurs foo src", "looks: read src/**");
    check("rg foo", "looks: read ./**");
    check("rg -n foo src -g '*.rs'", "looks: read src/**");
    check("rg --files src", "looks: read src/**");
    check("rg --pre ./x foo", "looks: read ./**, runs ./x");
    check("rg --pre=./x foo a", "looks: read a/**, runs ./x");
    check("rg --hostname-bin ./x foo a", "looks: read a/**, runs ./x");
    check("rg $x src", "looks: read src/**, read $x, caution");
    check("grep $x", "looks: read $x");
    check("ag --pager 'sh -c id' foo", "looks: read ./**, script sh -c id");
    check("ack --pager=./x foo", "looks: read ./**, script ./x");
}

#[test]
fn diff_with_folder_reads_file_inside() {
    check("diff a b", "looks: read a, read b, read a/b, read b/a");
    check("diff . x/.env", "looks: read ., read x/.env, read ./.env");
    check("diff -r . ..", "looks: read ./**, read ../**");
}

#[test]
fn date_with_time_operand_sets_clock() {
    check("date", "looks");
    check("date +%s", "looks");
    check("date -Iseconds", "looks");
    check("date -d yesterday", "looks");
    check("date -d $x +%s", "looks");
    check("date -f dates", "looks: read dates");
    check("date -s 12:00", "program");
    check("date --se=12:00", "program");
    check("date 010112002030", "program");
}

#[test]
fn jq_and_yq_files_are_recorded() {
    check("jq .a f.json", "looks: read f.json");
    check("jq --arg a b . f.json", "looks: read f.json");
    check("jq --rawfile a .env -n '$a'", "looks: read .env");
    check("jq -rf script f", "looks: read script, read f");
    check("jq -n --args '.' a b", "looks");
    check("yq .a f.yml", "looks: read .a, read f.yml");
    check("yq -i .a=1 f.yml", "files: write .a=1, write f.yml");
    check("yq 'load(\"x\")' f.yml", "program: read load(\"x\"), read f.yml");
}

#[test]
fn man_and_bat_pager_programs_are_found() {
    check("man ls", "looks");
    check("man ./page", "looks: read ./page, caution");
    check("man --local page", "looks: read page, caution");
    check("man -P 'sh -c id' ls", "looks: script sh -c id");
    check("man --pag=./x ls", "looks: script ./x");
    check("man -H./x ls", "looks: runs something");
    check("man --htm=./x ls", "looks: runs something");
    check("man -C conf ls", "looks: read conf, caution");
    check("bat --pager=./x a", "looks: read a, script ./x");
    check("bat cache --build", "program: read cache");
    check("bat --color=never cache --build", "program: read cache");
    check("bat --generate-conf", "program");
}

#[test]
fn fact_printing_programs_may_also_set() {
    check("hostname evil", "program");
    check("hostname -F file", "program");
    check("mount /dev/sda1 /mnt", "program");
    check("mount -a", "program");
    check("hostname --fil=name", "program");
    check("ss --dia=out", "program");
    check("tldr --upd", "program");
    check("ack -x word", "program: read ./**");
}
