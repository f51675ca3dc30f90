# fish completion for twinbloom, made by "twinbloom completion fish"
function __twinbloom_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    set -l found (command $words[1] __complete $words[2..-1] "$last" 2>/dev/null)
    if test "$found[1]" = :files
        __fish_complete_path "$last"
    else
        printf '%s\n' $found
    end
end
complete -c twinbloom -f -a '(__twinbloom_complete)'
