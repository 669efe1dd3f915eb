#!/bin/sh
# Checks the numbered rules. A rule is defined in exactly one place: by a list item "- **T5** …" of docs/PROTOCOL*.md or docs/OPERATIONS-FORMATS.md, or,
# if it is what one process does by itself, by a comment that begins with "Rule W3: " in Sources/, Tool/ or Proof/. The script fails if a rule is defined twice,
# has a suffix without a main rule (T5a without T5), or is longer than six lines; and if a document, a guide or a comment cites a rule, or a letter of
# rules, that does not exist.
# Usage: protocol.sh
set -eu
cd "$(dirname "$0")/.."

{
    git ls-files -co --exclude-standard 'docs/PROTOCOL*.md' 'docs/OPERATIONS-FORMATS.md' 'Sources/*.swift' 'Sources/*.c' 'Sources/*.h' 'Tool/*.swift' 'Proof/*.swift'
    echo --
    git ls-files -co --exclude-standard '*.md' '*.swift' '*.c' '*.h'
} | awk '
    function complain(text) {
        print path ":" number ": " text > "/dev/stderr"
        failed = 1
    }

    function define(id) {
        if (id in places) complain("rule " id " is defined twice, also at " places[id])
        places[id] = path ":" number
        letters[substr(id, 1, 1)] = 1
        lines = 1
    }

    # Of a document, a definition is a list item that begins with the identifier in bold: "- **T5** …". Of code, it is a comment that begins with
    # "Rule T5: ". It ends where the item or the comment does, or at an empty line of it.
    function readDefinitions(line, isDocument) {
        number = 0
        lines = 0
        isDocument = path ~ /\.md$/
        while ((getline line < path) > 0) {
            number++
            if (isDocument && match(line, /^- \*\*[A-Z][0-9]+[a-z]?\*\*/)) define(substr(line, 5, RLENGTH - 6))
            else if (!isDocument && match(line, /^ *\/\/\/? Rule [A-Z][0-9]+[a-z]?: /)) {
                line = substr(line, 1, RLENGTH - 2)
                sub(/^.* /, "", line)
                define(line)
            } else if (lines && (isDocument && line ~ /^  [^ ]/ || !isDocument && line ~ /^ *\/\/\/? *[^ \/]/)) {
                if (++lines == 7) complain("the rule is longer than six lines")
            } else lines = 0
        }
        close(path)
    }

    function checkSuffixes(id, main) {
        for (id in places) {
            main = id
            if (!sub(/[a-z]$/, "", main) || main in places) continue
            print places[id] ": there is no rule " main " for " id > "/dev/stderr"
            failed = 1
        }
    }

    function cite(id) {
        if (!(id in places)) complain("there is no rule " id)
    }

    # All rules of a range, such as T1–T5 or T1 to T5.
    function citeRange(first, last, letter, i) {
        letter = substr(first, 1, 1)
        if (substr(last, 1, 1) != letter) return
        for (i = substr(first, 2) + 1; i < substr(last, 2) + 0; i++) cite(letter i)
    }

    # Finds the words that have the form of an identifier. Unless the word "rule" is before it, such a word is one only if its letter is that of
    # rules, and if it has at most two digits: not the H264 of a video.
    function citations(text, word, before, last, isAfterRule, isRange) {
        gsub(/\*/, "", text)
        last = ""
        while (match(text, /[A-Za-z0-9_]+/)) {
            before = substr(text, 1, RSTART - 1)
            isAfterRule = word ~ /^[Rr]ules?$/ && before == " "
            word = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            if (word == "to" && last != "" && before == " ") { before = ""; isRange = 1; continue }
            if (word ~ /^[A-Z][0-9]+[a-z]?$/ && before !~ /[%{#.\\]$/ \
                && (isAfterRule || substr(word, 1, 1) in letters && word !~ /[0-9][0-9][0-9]/)) {
                cite(word)
                if (last != "" && (before == "-" || before == "–" || isRange && before == " ")) citeRange(last, word)
                last = word
            } else last = ""
            isRange = 0
        }
    }

    # "rules K", "section T of docs/PROTOCOL.md".
    function letterCitations(text, letter) {
        gsub(/\*/, "", text)
        while (match(text, /([Rr]ules|[Ss]ection) [A-Z]([^A-Za-z0-9]|$)/)) {
            letter = substr(text, RSTART, RLENGTH)
            sub(/^[A-Za-z]+ /, "", letter)
            letter = substr(letter, 1, 1)
            if (!(letter in letters)) complain("there are no rules " letter)
            text = substr(text, RSTART + RLENGTH)
        }
    }

    # Of code, the comments and what follows the word "rule".
    function readCitations(line, text, isFenced, isDocument) {
        number = 0
        isFenced = 0
        isDocument = path ~ /\.md$/
        while ((getline line < path) > 0) {
            number++
            if (isDocument) {
                if (line ~ /^ *```/) isFenced = !isFenced
                if (isFenced) continue
                text = line
            } else if (match(line, /(^|[^:])\/\//)) text = substr(line, RSTART)
            else if (match(line, /[Rr]ules? [A-Z]/)) text = substr(line, RSTART)
            else continue
            citations(text)
            letterCitations(text)
        }
        close(path)
    }

    $0 == "--" {
        checkSuffixes()
        isCiting = 1
        next
    }
    {
        path = $0
        if (system("test -e \"" path "\"") != 0) next
        if (isCiting) readCitations()
        else readDefinitions()
    }
    END { exit failed }
'
