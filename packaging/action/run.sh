#!/usr/bin/env bash
# What action.yml runs: installs zero if there is an address of a release, runs the prompt, and writes a summary.
set -euo pipefail

work=$(mktemp -d "${RUNNER_TEMP:-/tmp}/zero.XXXXXX")
if [[ -n "${ZERO_RELEASE_ADDRESS:-}" ]]; then
    install=(sh "$ZERO_ACTION_PATH/packaging/install.sh" --prefix "$work/install")
    [[ -n "${ZERO_ACTION_VERSION:-}" ]] && install+=(--version "$ZERO_ACTION_VERSION")
    "${install[@]}"
    PATH="$work/install/bin:$PATH"
elif ! command -v zero > /dev/null; then
    echo "::error::zero is not in the PATH; pass the address of a release as \`address\`"
    exit 2
fi

args=(run --output-format json)
option() { if [[ -n "$2" ]]; then args+=("$1" "$2"); fi; }
option --mode "${ZERO_ACTION_MODE:-}"
option --model "${ZERO_ACTION_MODEL:-}"
option --budget "${ZERO_ACTION_BUDGET:-}"
option --max-time "${ZERO_ACTION_MAX_TIME:-}"
option --settings "${ZERO_ACTION_SETTINGS:-}"
option --output-schema "${ZERO_ACTION_SCHEMA:-}"

result=$work/result.json
notes=$work/notes
: > "$notes"
# Notes may quote a model or a command: no line of them is a command for the runner, until it reads the mark.
mark=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
echo "::stop-commands::$mark"
code=0
{
    (cd "${ZERO_ACTION_FOLDER:-.}" && zero "${args[@]}" -- "$ZERO_ACTION_PROMPT" < /dev/null) 2>&1 > "$result" || code=$?
} > >(tee "$notes")
wait $!
echo "::$mark::"

# The answer is text of a model: it is quoted in the summary, and bounded by a mark that it cannot know.
python3 - "$result" "$notes" "$code" << 'PYTHON'
import json, os, secrets, sys

result_file, notes_file, code = sys.argv[1:]
try:
    with open(result_file, encoding="utf-8") as file:
        result = json.load(file)
except ValueError:
    result = {}
with open(notes_file, encoding="utf-8", errors="replace") as file:
    notes = file.read(65536)
answer = result.get("answer") or ""
usage = result.get("usage") or {}
cost = result.get("cost_usd")
words = {"0": "answered", "1": "failed", "2": "wrong usage", "3": "denied", "4": "stopped by a limit",
         "5": "the answer does not fit the schema", "130": "interrupted"}


def quote(text):
    fence = "`" * 3
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text.rstrip()}\n{fence}\n"


summary = f"### zero: {words.get(code, 'exit code ' + code)}\n\n"
rows = [("model", result.get("model")), ("cost", None if cost is None else f"${cost:.4f}"),
        ("tokens", f"{usage['input_tokens']} in, {usage['output_tokens']} out" if usage else None),
        ("tool calls", usage.get("tool_calls")), ("session", result.get("session"))]
summary += "| | |\n|---|---|\n"
summary += "".join(f"| {name} | {str(value).replace('|', ' ')} |\n" for name, value in rows if value is not None)
if answer:
    summary += "\n" + quote(answer[:200000])
if notes.strip() and code != "0":
    summary += "\n" + quote(notes)
if path := os.environ.get("GITHUB_STEP_SUMMARY"):
    with open(path, "a", encoding="utf-8") as file:
        file.write(summary)
if path := os.environ.get("GITHUB_OUTPUT"):
    mark = secrets.token_hex(16)
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"answer<<{mark}\n{answer}\n{mark}\nresult={result_file}\nexit-code={code}\n")
PYTHON
exit "$code"
