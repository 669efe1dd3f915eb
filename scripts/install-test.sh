#!/bin/bash
# Installs the tool into a temporary prefix, uses its completions and manual pages there, and removes it. Usage: install-test.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Paths with spaces are usual.
prefix="$folder/a prefix"
fail() { echo "install-test: $*" >&2; exit 1; }

# A page of an earlier version must go.
mkdir -p "$prefix/share/man/man1"
touch "$prefix/share/man/man1/roundtable-gone.1"
sh scripts/install.sh install "$program" "$prefix"
[ ! -e "$prefix/share/man/man1/roundtable-gone.1" ] || fail "a page of an earlier version is still there"
"$prefix/bin/roundtable" --version >/dev/null || fail "the installed program does not run"

# Bash: what is offered for the words of a command line, as readline asks for it.
complete_bash() {
    (
        # The generated script is not written for these.
        set +eu +o pipefail
        # shellcheck disable=SC1091
        source "$prefix/share/bash-completion/completions/roundtable"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
        function=$(complete -p roundtable | sed -E 's/.*-F ([^ ]+) .*/\1/')
        "$function" roundtable "${@: -1}" "${@: -2:1}" 2>/dev/null
        printf '%s\n' "${COMPREPLY[@]}" | sed 's/ *$//' | sort
    )
}
offers() {
    local expected=$1
    shift
    complete_bash "$@" | grep -x -- "$expected" >/dev/null || fail "bash does not offer '$expected' for '$*', but: $(complete_bash "$@" | tr '\n' ' ')"
}
offers status roundtable sta
offers top roundtable to
offers --once roundtable top --o
offers --csv roundtable sql --c
! complete_bash roundtable de | grep -x demo-peer >/dev/null || fail "bash offers a verb that is not for users"
for shell in zsh fish; do
    script=$prefix/share/zsh/site-functions/_roundtable
    [ "$shell" = zsh ] || script=$prefix/share/fish/vendor_completions.d/roundtable.fish
    [ -s "$script" ] || fail "there is no completion for $shell"
    if command -v "$shell" >/dev/null; then "$shell" -n "$script" || fail "$script: $shell cannot read it"; fi
done

# Manual pages: one for each verb, and groff has nothing to say against any.
for verb in $("$program" --experimental-dump-help | python3 -c '
import json, sys
for verb in json.load(sys.stdin)["command"]["subcommands"]:
    if verb["shouldDisplay"] and verb["commandName"] != "help": print(verb["commandName"])'); do
    [ -s "$prefix/share/man/man1/roundtable-$verb.1" ] || fail "there is no page for '$verb'"
done
for page in "$prefix"/share/man/man1/*.1; do
    for locale in C.UTF-8 C; do
        warnings=$(LC_ALL=$locale MANWIDTH=80 man --warnings=all -l "$page" 2>&1 >/dev/null) || fail "$page: man cannot show it with $locale"
        [ -z "$warnings" ] || fail "$page: with $locale: $warnings"
    done
done
# `grep -q` would end at the first match, and `pipefail` then see that a program could write no more.
shown() { LC_ALL=C.UTF-8 MANWIDTH=80 MAN_KEEP_FORMATTING= man -l "$prefix/share/man/man1/$1" | col -bx; }
shown roundtable.1 | grep 'roundtable - One SQLite database' >/dev/null || fail "roundtable(1) has no name"
shown roundtable-sql.1 | grep '^ *roundtable sql app.db < script.sql$' >/dev/null || fail "roundtable-sql(1) lacks its examples"
shown roundtable-doctor.1 | grep -A1 '^EXIT STATUS$' | grep ' 0 when there is nothing' >/dev/null || fail "roundtable-doctor(1) has no exit status"
shown roundtable-sql.1 | grep '^EXIT STATUS$' >/dev/null || fail "roundtable-sql(1) has no exit status"
for section in ENVIRONMENT FILES; do shown roundtable.1 | grep "^$section$" >/dev/null || fail "roundtable(1) lacks $section"; done
shown roundtable-top.1 | grep -- '--every seconds' >/dev/null || fail "roundtable-top(1) lacks an option"

sh scripts/install.sh uninstall "$prefix"
left=$(find "$prefix" ! -type d)
[ -z "$left" ] || fail "uninstall leaves: $left"
echo "The tool was installed, completed by bash, explained by man, and removed."
