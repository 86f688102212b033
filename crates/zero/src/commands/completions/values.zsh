_zero_values() {
    local line
    local -a values titles
    while IFS= read -r line; do
        values+=("${line%%$'\t'*}")
        titles+=("${line/$'\t'/  }")
    done < <(command zero complete "$1" 2> /dev/null)
    compadd -V zero -l -d titles -a values
}
_zero_sessions() {
    _zero_values sessions
}
_zero_models() {
    _zero_values models
}
_zero_settings() {
    _zero_values settings
}

