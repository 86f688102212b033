
# Completes session keys, models, settings and tools with what `zero complete` prints. Fails where none
# of them is expected.
_zero_values() {
    local line="${COMP_LINE:0:COMP_POINT}" kind="" cur word
    local -a words
    read -r -a words <<< "$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    local last=$(( ${#words[@]} - 1 ))
    (( last > 0 )) || return 1
    cur="${words[last]}"
    case "$cur" in
        --session=* | --resume=*) kind=sessions ;;
        --model=*) kind=models ;;
        -*) ;;
        *)
            case "${words[last - 1]}" in
                --session) kind=sessions ;;
                --model) kind=models ;;
                *)
                    (( last > 1 )) && case "${words[last - 2]} ${words[last - 1]}" in
                        "sessions show" | "sessions export" | "sessions fork" | "sessions rewind" | "sessions grants" | "sessions reset" | "sessions delete")
                            kind=sessions
                            ;;
                        "config get" | "config set" | "config unset" | "config add" | "config remove")
                            kind=settings
                            ;;
                        "tools show" | "tools call")
                            kind=tools
                            ;;
                    esac
                    ;;
            esac
            ;;
    esac
    [[ -n "$kind" ]] || return 1
    [[ "$cur" == --*=* ]] && cur="${cur#*=}"
    COMPREPLY=()
    while IFS=$'\t' read -r word _; do
        [[ "$word" == "$cur"* ]] && COMPREPLY+=("$word")
    done < <(command zero complete "$kind" 2> /dev/null)
    # Readline replaces only what follows the last colon.
    if [[ "$cur" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
        local head="${cur%"${cur##*:}"}"
        COMPREPLY=("${COMPREPLY[@]#"$head"}")
    fi
    return 0
}

_zero_or_values() {
    _zero_values && return
    _zero "$@"
    [[ -z "$2" ]] || return
    # An option is offered once a hyphen is typed: alone, they would insert the hyphen that they share.
    # Words such as `<ID>` are placeholders.
    local word
    local -a names=()
    for word in "${COMPREPLY[@]}"; do
        [[ "$word" == [-\<\[]* ]] || names+=("$word")
    done
    COMPREPLY=("${names[@]}")
}
