
# Completes session keys and models with what `zero complete` prints. Fails where neither is expected.
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
                show | export | fork | grants | reset | delete)
                    (( last > 1 )) && [[ "${words[last - 2]}" == sessions ]] && kind=sessions
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
    _zero_values || _zero "$@"
}
