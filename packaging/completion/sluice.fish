# SPDX-License-Identifier: Apache-2.0
# fish completion of sluice(1) and endpoints(1).  Commands and options are asked of the program.

function __sluice_command
    set -l words (commandline -opc)
    set -l named $words[1]
    for word in $words[2..-1]
        string match -qr '^[a-z]+$' -- $word; or break
        set -a named $word
    end
    printf '%s\n' $named
end

function __sluice_commands
    set -l named (__sluice_command)
    $named --list-commands 2>/dev/null
end

function __sluice_options
    set -l named (__sluice_command)
    $named --list-options 2>/dev/null | string replace -r '^(--[a-z0-9-]+)=?\t' '$1\t'
end

for program in sluice endpoints
    complete -c $program -f -n 'test -n "(__sluice_commands)"' -a '(__sluice_commands)'
    complete -c $program -n 'string match -q -- "-*" (commandline -ct)' -a '(__sluice_options)'
end
