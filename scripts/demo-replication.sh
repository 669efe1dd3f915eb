#!/usr/bin/env bash
# Shows failover: two machines and an S3 server, which are network namespaces on this one. Needs root, for the namespaces.
# Usage: demo-replication.sh ROUNDTABLE, with Litestream and SeaweedFS ('weed') in PATH.
set -euo pipefail
roundtable=$1
id=rt$$
folder=$(mktemp -d)
url="s3://demo/app?endpoint=http://10.77.1.1:8333&forcePathStyle=true&region=us-east-1"
export LITESTREAM_ACCESS_KEY_ID=key LITESTREAM_SECRET_ACCESS_KEY=secret AWS_EC2_METADATA_DISABLED=true
# Litestream 0.5 cannot use S3 while this variable is set.
unset AWS_CA_BUNDLE

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
fail() {
    echo "demo-replication.sh: $*" >&2
    exit 1
}

# Programs that run in a namespace end with it: everything in it was started here.
end_all() { ip netns pids "$id-$1" | xargs -r kill "-${2:-TERM}" 2>/dev/null || true; }
clean_up() {
    for machine in a b store; do
        end_all "$machine" KILL
        ip netns del "$id-$machine" 2>/dev/null || true
    done
    rm -rf "$folder"
}
[ "$(id -u)" = 0 ] || fail "network namespaces need root: try 'sudo make demo-replication'."
for program in ip litestream weed rclone; do
    command -v "$program" >/dev/null || fail "$program is missing: run 'make demo-replication', which installs it."
done
trap clean_up EXIT

on() { ip netns exec "$id-$1" "${@:2}"; }
# The same, in place of a shell.
become() { exec ip netns exec "$id-$1" "${@:2}"; }
# For people: paths as on machines of their own, and the URL without its parameters.
shown() { sed -u "s|$folder|/machine|g; s|?endpoint=[^ ']*||g; s/^/$1/"; }
# Waits for at most a minute until a command succeeds.
until_true() {
    local deadline=$((SECONDS + 60))
    until "${@:2}" >/dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || fail "$1 has not happened within a minute: $(cat "$folder"/*.log 2>/dev/null)"
        sleep 0.1
    done
}
rows() { "$roundtable" sql "$1" "SELECT count(*) AS n FROM entry" --json | tr -dc 0-9; }
is_quiet() { [ -z "$(ip netns pids "$id-$1")" ]; }
has_rows() { [ "$(rows "$1")" -ge "$2" ]; }

for machine in store a b; do
    ip netns add "$id-$machine"
    on "$machine" ip link set lo up
    mkdir "$folder/$machine"
done
for network in "a 1" "b 2"; do
    read -r machine number <<<"$network"
    ip link add "$id$machine" netns "$id-store" type veth peer name eth0 netns "$id-$machine"
    on store ip address add "10.77.$number.1/24" dev "$id$machine"
    on store ip link set "$id$machine" up
    on "$machine" ip address add "10.77.$number.2/24" dev eth0
    on "$machine" ip link set eth0 up
    on "$machine" ip route add default via "10.77.$number.1"
done

say "Between the machines: an S3 server (SeaweedFS)"
cat >"$folder/s3.json" <<'JSON'
{"identities": [{"name": "demo", "credentials": [{"accessKey": "key", "secretKey": "secret"}],
                 "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}
JSON
on store weed server -dir="$folder/store" -ip=127.0.0.1 -ip.bind=0.0.0.0 -volume.max=100 -master.volumeSizeLimitMB=64 -filer -s3 \
    -s3.port=8333 -s3.port.iceberg=0 -s3.port.lance=0 -s3.config="$folder/s3.json" >"$folder/store.out" 2>&1 &
until_true "the S3 server's start" on a rclone mkdir \
    ":s3,provider=Other,endpoint='http://10.77.1.1:8333',access_key_id=key,secret_access_key=secret:demo"
echo "at 10.77.1.1:8333"

# writes MACHINE: a program that inserts a row again and again, until it is refused.
writes() {
    while on "$1" "$roundtable" sql "$folder/$1/app.db" "INSERT INTO entry (machine) VALUES ('$1')" \
        >/dev/null 2>>"$folder/$1/writer.log"; do
        sleep 0.02
    done
}
stop_writer() {
    kill "$writer" 2>/dev/null || true
    wait "$writer" 2>/dev/null || true
}
replicates() {
    (become "$1" "$roundtable" replicate "$folder/$1/app.db" --to "$url" --interval 0.2 --check-writer 1) 2>&1 |
        tee "$folder/$1/replicate.log" | shown "  $1: "
}

say "Machine a writes, and replicates what it writes"
on a "$roundtable" sql "$folder/a/app.db" "CREATE TABLE entry (id INTEGER PRIMARY KEY, machine TEXT NOT NULL)"
replicates a 2>/dev/null &
writes a &
writer=$!
until_true "the first sync" grep -q "last synced" "$folder/a/replicate.log"

say "Machine b follows"
{ (become b "$roundtable" follow "$url" "$folder/b/app.db" --interval 0.2) 2>&1 | shown "  b: "; } 2>/dev/null &
until_true "the first row on machine b" has_rows "$folder/b/app.db" 1
sleep 3
echo "rows on machine a: $(rows "$folder/a/app.db"), on machine b: $(rows "$folder/b/app.db")"

say "Machine a loses its network, and then its power"
on a ip link set eth0 down
sleep 1
stop_writer
end_all a KILL
written=$(rows "$folder/a/app.db")
died=$SECONDS

say "Machine b is promoted"
end_all b TERM
until_true "the follower's end" is_quiet b
on b "$roundtable" promote "$url" "$folder/b/app.db" --replace | shown "  b: "
replicates b 2>/dev/null &
writes b &
writer=$!
until_true "a new row" has_rows "$folder/b/app.db" 1
kept=$(on b "$roundtable" sql "$folder/b/app.db" "SELECT count(*) AS n FROM entry WHERE machine = 'a'" --json | tr -dc 0-9)
echo "of $written rows of machine a, machine b has $kept; it wrote again after $((SECONDS - died)) s"
until_true "the first sync of machine b" grep -q "last synced" "$folder/b/replicate.log"

say "Machine a comes back, with the programs that it always starts"
on a ip link set eth0 up
on a ip route add default via 10.77.1.1
: >"$folder/a/writer.log"
writes a &
returned=$!
replicates a || true
grep -q "is the writer now" "$folder/a/replicate.log" || fail "machine a was not fenced."
wait "$returned" || true
grep -q "is fenced" "$folder/a/writer.log" || fail "the writer of machine a was not refused."
tail -n 1 "$folder/a/writer.log" | cut -c1-170 | shown "  a: the writer: "

say "It follows the new writer"
{ (become a "$roundtable" follow "$url" "$folder/a/copy.db" --interval 0.2) 2>&1 | shown "  a: "; } 2>/dev/null &
until_true "the rows of machine b on machine a" has_rows "$folder/a/copy.db" "$(rows "$folder/b/app.db")"
stop_writer
until_true "all rows of machine b on machine a" has_rows "$folder/a/copy.db" "$(rows "$folder/b/app.db")"
echo "rows on machine b: $(rows "$folder/b/app.db"), on machine a: $(rows "$folder/a/copy.db")"
say "Done. Nothing of this was in a network but this machine's."
