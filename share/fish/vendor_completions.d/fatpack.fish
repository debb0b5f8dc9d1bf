# Completion of fatpack for fish.
function __fatpack_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l option (string match -r -- '^--[^=]*=' $current)
    set -l path (string replace -r -- '^--[^=]*=' '' $current)
    for line in (_FATPACK_COMPLETE=fish $words[1] $words[2..-1] "$current" 2>/dev/null)
        set -l parts (string split -m 2 \t -- $line)
        if test "$parts[1]" != plain -a -n "$parts[3]"
            set option (string match -r -- '^.*=' $current)
            set path (string replace -r -- '^.*=' '' $current)
        end
        switch $parts[1]
            case plain
                printf '%s\t%s\n' $parts[2] "$parts[3]"
            case file
                string replace -r -- '^' "$option" (__fish_complete_path "$path")
            case dir
                string replace -r -- '^' "$option" (__fish_complete_directories "$path" '')
        end
    end
end
complete -c fatpack -f -a '(__fatpack_complete)'
