#compdef twinbloom
# zsh completion for twinbloom, made by "twinbloom completion zsh"
_twinbloom() {
  local -a found
  found=("${(@f)$("${words[1]}" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ $found[1] == :files ]]; then _files; return; fi
  found=("${(@)found//:/\\:}")
  found=("${(@)found/$'\t'/:}")
  [[ -n $found[1] ]] && _describe twinbloom found
}
if [[ $funcstack[1] == _twinbloom ]]; then _twinbloom "$@"; else compdef _twinbloom twinbloom; fi
