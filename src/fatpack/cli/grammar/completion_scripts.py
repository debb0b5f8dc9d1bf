"""The scripts by which shells ask: they know no option and no name, so they serve every version.

Each calls the program that was typed with ``_FATPACK_COMPLETE=SHELL`` and the words up to the cursor, and gets a line
for each answer: ``plain``, ``file`` or ``dir``, what it stands for, and what it is, with tabs between. Files and
folders are left to the shell, which has its user's rules: for these it is told what was typed of the name, and what
stands in front of it in the same word.
"""

from __future__ import annotations

#: The variable that makes a call a question; its value is the shell.
VARIABLE = "_FATPACK_COMPLETE"

#: ``COMP_WORDS`` are broken at ``=`` and ``:``; the line says what belongs together.
_BASH = r"""# Completion of fatpack for bash.
_fatpack_completion() {
    local kind value rest
    COMPREPLY=()
    while IFS=$'\t' read -r kind value rest; do
        case $kind in
            plain) COMPREPLY+=("$value"); [[ $value == *= ]] && compopt -o nospace 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            dir) compopt -o dirnames 2>/dev/null ;;
        esac
    done < <(_FATPACK_COMPLETE=bash "${1/#\~/$HOME}" "${COMP_LINE:0:COMP_POINT}" "${COMP_WORDS[@]:0:COMP_CWORD+1}" \
        2>/dev/null)
}
complete -o nosort -F _fatpack_completion fatpack 2>/dev/null || complete -F _fatpack_completion fatpack
"""

_ZSH = r"""#compdef fatpack
# Completion of fatpack for zsh.
_fatpack() {
    local line value help
    local -a parts plain begun
    while IFS= read -r line; do
        parts=("${(@ps:\t:)line}")  # read would take two tabs for one
        value=$parts[2] help=$parts[3]
        case $parts[1] in
            plain)
                value=${value//:/\\:}${help:+:$help}
                if [[ $value == *= ]]; then begun+=("$value"); else plain+=("$value"); fi ;;
            file) [[ -n $help ]] && compset -P '*='; _files ;;
            dir) [[ -n $help ]] && compset -P '*='; _files -/ ;;
        esac
    done < <(_FATPACK_COMPLETE=zsh "${~words[1]}" "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
    (( $#plain )) && _describe -V fatpack plain
    (( $#begun )) && _describe -V fatpack begun -S ''
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _fatpack "$@"
else
    compdef _fatpack fatpack
fi
"""

_FISH = r"""# Completion of fatpack for fish.
function __fatpack_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (_FATPACK_COMPLETE=fish $words[1] $words[2..-1] "$current" 2>/dev/null)
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
"""

#: shell → its script
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
