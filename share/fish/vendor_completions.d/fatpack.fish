# Completion of fatpack for fish.
function __fatpack_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (_FATPACK_COMPLETE=fish_complete $words[1] $words[2..-1] "$current" 2>/dev/null)
        set -l parts (string split -m 2 \t -- $line)
        switch $parts[1]
            case plain
                printf '%s\t%s\n' $parts[2] "$parts[3]"
            case file
                printf '%s\n' "$parts[3]"(__fish_complete_path "$parts[2]")
            case dir
                printf '%s\n' "$parts[3]"(__fish_complete_directories "$parts[2]" '')
        end
    end
end
complete -c fatpack -f -a '(__fatpack_complete)'
