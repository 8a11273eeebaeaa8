# Completion of dlock(1) for bash. The options are those the command itself tells, the settings
# those of the library it is linked with.

_dlock_options() {
    "$1" "$2" --help 2>/dev/null | sed -n 's/^  \(-.,\)\? *\(--[a-z-]*\).*/\2/p'
}

_dlock() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local self=${COMP_WORDS[0]} command='' name='' word i
    local commands='run hold wait signal ls inspect break revoke top stats bench doctor version help'
    COMPREPLY=()

    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
        --)
            # What follows is the command to run, with the completion of that command.
            [[ $command == run ]] && declare -F _command_offset >/dev/null &&
                _command_offset $((i + 1))
            return
            ;;
        --url | --set | --wait | --permits | --ttl | --on-lost | --kill-after | --owner | --max | --openmetrics | --number | --import | \
            --seconds | --threads | --keep | \
            --command | --conflict-exit-code | -w | -E | -c) ((i++)) ;;
        -n) [[ $command != signal ]] || ((i++)) ;; # elsewhere it has no value
        -*) ;;
        *) if [[ -z $command ]]; then command=$word; elif [[ -z $name ]]; then name=$word; fi ;;
        esac
    done

    case $prev in
    --url)
        mapfile -t COMPREPLY < <(compgen -W "$("$self" version --json 2>/dev/null |
            sed 's/.*"backends":\[\([^]]*\)\].*/\1/; s/"//g; s/,/: /g; s/$/:/')" -- "$cur")
        compopt -o nospace
        return
        ;;
    --set)
        mapfile -t COMPREPLY < <(compgen -S = -W "$("$self" __keys 2>/dev/null | cut -f1)" \
            -- "$cur")
        compopt -o nospace
        return
        ;;
    --on-lost)
        mapfile -t COMPREPLY < <(compgen -W 'term kill ignore' -- "$cur")
        return
        ;;
    --wait | --permits | --ttl | --kill-after | --owner | --max | --openmetrics | --seconds | --threads | --keep | --number | --import | --conflict-exit-code | -w | -E | -c)
        return
        ;;
    -n) [[ $command != signal ]] || return ;;
    esac

    if [[ -z $command ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands --url --help" -- "$cur")
    elif [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_dlock_options "$self" "$command")" -- "$cur")
    elif [[ -z $name && $command =~ ^(run|hold|wait|signal|inspect|break|revoke)$ && -n ${DLOCK_URL-} ]]; then
        # Names come from the server: only when it is the usual one, and briefly.
        mapfile -t COMPREPLY < <(compgen -W "$(timeout 1 "$self" ls --max 200 "$cur" 2>/dev/null)" \
            -- "$cur")
    fi
}
complete -F _dlock dlock
