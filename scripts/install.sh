#!/bin/sh
# Installs the tool with its shell completions and manual pages, and removes them.
#
#   install.sh install PROGRAM PREFIX     copies the built PROGRAM to PREFIX/bin, and what belongs to it to PREFIX/share
#   install.sh uninstall PREFIX           removes what `install` has made
#
# DESTDIR is put before PREFIX, for those who make packages.
set -eu

folder=$(dirname "$0")
case ${1:-} in
install)
    [ $# = 3 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 64; }
    program=$2 prefix=${DESTDIR:-}$3
    ;;
uninstall)
    [ $# = 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 64; }
    prefix=${DESTDIR:-}$2
    ;;
*)
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 64
    ;;
esac

bash=$prefix/share/bash-completion/completions/roundtable
zsh=$prefix/share/zsh/site-functions/_roundtable
fish=$prefix/share/fish/vendor_completions.d/roundtable.fish
man=$prefix/share/man/man1

remove() { rm -f "$prefix/bin/roundtable" "$bash" "$zsh" "$fish" "$man/roundtable.1" "$man"/roundtable-*.1; }

# What an older version has left, a verb's page say, goes in both cases.
remove
[ "$1" = install ] || exit 0

mkdir -p "$prefix/bin" "$man" "$(dirname "$bash")" "$(dirname "$zsh")" "$(dirname "$fish")"
install -m 755 "$program" "$prefix/bin/roundtable"
"$prefix/bin/roundtable" --generate-completion-script bash >"$bash"
"$prefix/bin/roundtable" --generate-completion-script zsh >"$zsh"
"$prefix/bin/roundtable" --generate-completion-script fish >"$fish"
python3 "$folder/manual.py" "$prefix/bin/roundtable" "$man"
