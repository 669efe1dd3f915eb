#!/bin/sh
# The guides of the documentation catalogues, for readers of the repository: docs/guides. DocC's links (<doc:FairTurns>) and symbols are dead there.
# Usage: guides.sh          writes docs/guides anew
#        guides.sh check    fails if docs/guides is not what the catalogues say, or if a link of any document leads nowhere
set -eu
cd "$(dirname "$0")/.."

catalogues='Sources/Roundtable/Documentation.docc Sources/RoundtableTestKit/Documentation.docc'
guides=docs/guides

# generate FOLDER: writes the guides there.
generate() {
    mkdir -p "$1"
    # shellcheck disable=SC2046 # several files
    awk -v out="$1" '
        function name(path) { sub(/.*\//, "", path); sub(/\.md$/, "", path); return path }
        function target(page) { return page == "Roundtable" ? "README.md" : page ".md" }

        # DocC keeps the capitals of a heading in its anchor, GitHub does not.
        function link(reference,   page, anchor) {
            page = reference
            anchor = ""
            if (page ~ /#/) {
                anchor = tolower(substr(page, index(page, "#")))
                sub(/#.*/, "", page)
            }
            if (!(page in titles)) { print "guides.sh: no guide named " page > "/dev/stderr"; failed = 1 }
            return target(page) anchor
        }

        # ``Change/Tables-swift.enum/fullDatabase`` becomes `Change.Tables.fullDatabase`.
        function symbols(line,   before, symbol) {
            before = ""
            while (match(line, /``[^`]+``/)) {
                symbol = substr(line, RSTART + 2, RLENGTH - 4)
                gsub(/-(swift\.[a-z]+|method)/, "", symbol)
                gsub(/\//, ".", symbol)
                before = before substr(line, 1, RSTART - 1) "`" symbol "`"
                line = substr(line, RSTART + RLENGTH)
            }
            return before line
        }

        # `docs/SECURITY.md` is beside the folder of the guides.
        function documents(line,   before, path) {
            before = ""
            while (match(line, /`docs\/[A-Za-z0-9-]+\.md`/)) {
                path = substr(line, RSTART + 6, RLENGTH - 7)
                before = before substr(line, 1, RSTART - 1) "[`docs/" path "`](../" path ")"
                line = substr(line, RSTART + RLENGTH)
            }
            return before line
        }

        function links(line,   before, reference, page, destination) {
            before = ""
            while (match(line, /<doc:[^>]+>/)) {
                reference = substr(line, RSTART + 5, RLENGTH - 6)
                page = reference
                sub(/#.*/, "", page)
                destination = link(reference)
                before = before substr(line, 1, RSTART - 1) "[" titles[page] "](" destination ")"
                line = substr(line, RSTART + RLENGTH)
            }
            line = before line
            before = ""
            while (match(line, /\]\((doc:[^)]+|#[^)]+)\)/)) {
                reference = substr(line, RSTART + 2, RLENGTH - 3)
                reference = reference ~ /^#/ ? tolower(reference) : link(substr(reference, 5))
                before = before substr(line, 1, RSTART - 1) "](" reference ")"
                line = substr(line, RSTART + RLENGTH)
            }
            return before line
        }

        BEGIN {
            for (i = 1; i < ARGC; i++) {
                getline title < ARGV[i]
                close(ARGV[i])
                sub(/^# /, "", title)
                gsub(/`/, "", title)
                titles[name(ARGV[i])] = title
            }
        }
        FNR == 1 {
            if (file) close(file)
            file = out "/" target(name(FILENAME))
            isCode = 0
            print "<!-- Made of " FILENAME " by scripts/guides.sh: edit that file. -->\n" > file
        }
        /^ *```/ { isCode = !isCode; print > file; next }
        { print (isCode ? $0 : links(documents(symbols($0)))) > file }
        END { exit failed }
    ' $(for catalogue in $catalogues; do ls "$catalogue"/*.md; done)
}

# Every link to a file, to a heading, or to a guide leads somewhere.
check_links() {
    git ls-files -co --exclude-standard '*.md' 'Sources/*.swift' 'Tool/*.swift' 'Proof/*.swift' | awk '
        function slug(heading) {
            heading = tolower(heading)
            gsub(/[^a-z0-9_ -]/, "", heading)
            gsub(/ /, "-", heading)
            return heading
        }

        # What is said of code is no link. Under another name, because the file may be the one whose links are looked at.
        function read(path,   line, isCode, heading, stream) {
            if (path in isRead) return
            isRead[path] = 1
            isCode = 0
            stream = "./" path
            while ((getline line < stream) > 0) {
                if (line ~ /^ *```/) isCode = !isCode
                if (isCode || line !~ /^#+ /) continue
                heading = line
                sub(/^#+ +/, "", heading)
                heading = slug(heading)
                if ((path, heading) in headings) heading = heading "-" ++copies[path, heading]
                headings[path, heading] = 1
            }
            close(stream)
        }

        function exists(path) {
            if (!(path in found)) found[path] = system("test -e \"" path "\"") == 0
            return found[path]
        }

        function folder(path) { return sub(/\/[^\/]*$/, "", path) ? path : "." }

        function complain(path, number, link) {
            print path ":" number ": dead link: " link > "/dev/stderr"
            failed = 1
        }

        function look(path, number, link, file, anchor) {
            if (!exists(file)) return complain(path, number, link)
            if (anchor == "") return
            read(file)
            if (!((file, anchor) in headings)) complain(path, number, link)
        }

        function normal(path) {
            gsub(/\/\.\//, "/", path)
            while (sub(/[^\/.]+\/\.\.\//, "", path)) {}
            sub(/^\.\//, "", path)
            return path
        }

        function guide(path, number, reference,   page, anchor, place) {
            page = reference
            anchor = sub(/#.*/, "", page) ? slug(substr(reference, length(page) + 2)) : ""
            place = path
            if (!sub(/\.docc\/.*/, ".docc", place)) {
                place = path
                sub(/^(Sources|Tool|Proof)\//, "", place)
                sub(/\/.*/, "", place)
                place = "Sources/" place "/Documentation.docc"
                # The guides of Roundtable serve the targets that it exports, too.
                if (!exists(place)) place = "Sources/Roundtable/Documentation.docc"
            }
            look(path, number, "doc:" reference, place "/" page ".md", anchor)
        }

        function ordinary(path, number, link,   file, anchor) {
            if (link ~ /^[a-z]+:/) return
            file = link
            anchor = ""
            if (file ~ /#/) {
                anchor = substr(file, index(file, "#") + 1)
                sub(/#.*/, "", file)
            }
            # DocC keeps capitals.
            if (path ~ /\.docc\//) anchor = tolower(anchor)
            file = file == "" ? path : normal(folder(path) "/" file)
            look(path, number, link, file, anchor)
        }

        {
            path = $0
            if (!exists(path)) next
            isCode = 0
            number = 0
            isSwift = path ~ /\.swift$/
            while ((getline line < path) > 0) {
                number++
                if (isSwift && line !~ /^ *\/\/\//) continue
                if (line ~ /^ *(\/\/\/ *)?```/) isCode = !isCode
                if (isCode) continue
                gsub(/`[^`]*`/, "", line)
                if (path ~ /^docs\/guides\// && line ~ /<doc:/) complain(path, number, line)
                rest = line
                while (match(rest, /<doc:[^>]+>/)) {
                    guide(path, number, substr(rest, RSTART + 5, RLENGTH - 6))
                    rest = substr(rest, RSTART + RLENGTH)
                }
                while (match(line, /\]\([^) ]+\)/)) {
                    link = substr(line, RSTART + 2, RLENGTH - 3)
                    line = substr(line, RSTART + RLENGTH)
                    if (link ~ /^doc:/) guide(path, number, substr(link, 5))
                    else ordinary(path, number, link)
                }
            }
            close(path)
        }
        END { exit failed }
    '
}

case "${1:-}" in
"")
    rm -rf "$guides"
    generate "$guides"
    ;;
check)
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    generate "$work"
    if ! diff -r "$guides" "$work" >&2; then
        echo "$guides is not what $catalogues say: run 'sh scripts/guides.sh'." >&2
        exit 1
    fi
    check_links
    ;;
*)
    echo "usage: guides.sh [check]" >&2
    exit 64
    ;;
esac
