# SPDX-License-Identifier: Apache-2.0
# bash completion of sluice(1) and endpoints(1).  Commands and options are asked of the program, so
# that this file never falls behind it.

_sluice() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} word i
  local -a command=("${COMP_WORDS[0]}") words=()
  COMPREPLY=()
  # Words before the cursor that name a command: letters only, not what follows an option.
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    [[ $word =~ ^[a-z]+$ && ${COMP_WORDS[i - 1]} != -* ]] || break
    command+=("$word")
  done
  if [[ $prev == --* ]] && "${command[@]}" --list-options 2>/dev/null | grep -q "^$prev=	"; then
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    return
  fi
  if [[ $cur == -* ]]; then
    mapfile -t words < <("${command[@]}" --list-options 2>/dev/null | cut -f1 | tr -d =)
  else
    mapfile -t words < <("${command[@]}" --list-commands 2>/dev/null | cut -f1)
  fi
  mapfile -t COMPREPLY < <(compgen -W "${words[*]}" -- "$cur")
  [[ ${#words[@]} -gt 0 ]] || mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}

complete -F _sluice sluice endpoints
