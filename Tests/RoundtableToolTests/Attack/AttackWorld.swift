#if os(Linux)
    import Foundation
    import GRDB
    import Roundtable
    import RoundtableDelivery
    import RoundtableFiles
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    @testable import RoundtableTool
    @testable import RoundtableReplication
    @testable import RoundtableToolSupport

    /// Whose folder the attacker may write.
    enum AttackedFolder: String, CaseIterable, Sendable {
        /// The attacker's own one.
        case own
        /// One of the superuser's, in which all may change everything.
        case shared
        /// One like /tmp: all may create files, and each may change his own ones.
        case sticky

        var owner: uid_t { self == .own ? 65534 : 0 }
        var mode: mode_t {
            switch self {
            case .own: 0o755
            case .shared: 0o777
            case .sticky: 0o1777
            }
        }
    }

    /// What the attacker does, and before which call.
    struct Attack: CustomStringConvertible {
        static let kinds = ["link", "folder-link", "pipe", "hard-link", "zero", "full", "file", "folder", "nothing"]
        static let places = ["named", "above", "top", "all"]

        /// 0 counts the calls.
        var point = 0
        var what = "none"
        /// "named": what the call names; "above": its folder; "top": the folder of that; "all": everything that the attacker's folder has.
        var place = "named"
        /// After how many calls everything is put back; 0: never.
        var length = 0

        static func random(at point: Int, of kinds: [String], using random: inout SeededGenerator) -> Attack {
            Attack(
                point: point,
                what: kinds.randomElement(using: &random)!,
                place: places.randomElement(using: &random)!,
                length: [0, 0, 1, 2, 5].randomElement(using: &random)!
            )
        }

        var description: String { "\(point) \(what) \(place) \(length)" }
    }

    /// A folder that an attacker may write, what a command works with there, and a treasure of the superuser's beside it, which is to stay as it
    /// is.
    final class AttackWorld {
        struct Entry: OutboxCommand {
            static let name = "entry"
            static let version = 1
            var text: String
        }

        let folder: Folder
        /// What only the superuser may read.
        let marker = "secret-\(UUID().uuidString)"
        let data, treasure, store, temporary, template, programs, log: String

        init() throws {
            folder = try Folder()
            (data, treasure, store) = (folder.path("data"), folder.path("treasure"), folder.path("store"))
            (temporary, template) = (folder.path("temporary"), folder.path("template"))
            (programs, log) = (folder.path("programs"), folder.path("log"))
            #expect(chmod(folder.url.path, 0o755) == 0)
            for path in [data, treasure, store, programs] { #expect(mkdir(path, 0o755) == 0) }
            for path in [temporary, template] { #expect(mkdir(path, 0o700) == 0) }
            try makeTreasure()
            try install()
        }

        // MARK: The treasure

        /// Has something of each kind under the names that the commands use: databases, a number of a transaction, an outbox, a replica's claims,
        /// a recording and a snapshot file. So whatever a link leads to is what is looked for.
        private func makeTreasure() throws {
            for name in ["app.db", "database", "first"] { try Self.makeDatabase("\(treasure)/\(name)", marker) }
            let outbox = try CommandOutbox(at: URL(fileURLWithPath: treasure), as: "secret")
            _ = try outbox.submit(Entry(text: marker)) as OutboxSubmission
            for name in ["roundtable", "collected", "a"] { #expect(mkdir("\(treasure)/\(name)", 0o755) == 0) }
            for (name, text) in [
                ("secret", marker), ("database-txid", "00000000000000ff"), ("names", marker), ("claims.lock", ""),
                ("recording", #"{"kind":"recording","path":"\#(data)/app.db","text":"\#(marker)"}"# + "\n"),
                ("roundtable/claims.lock", ""), ("a/secret", marker),
            ] {
                try Data(text.utf8).write(to: URL(fileURLWithPath: "\(treasure)/\(name)"))
            }
            for name in ["state", "ship.list", "app.db-term", "app.db-replica"] {
                let file = SnapshotFile<String>(at: URL(fileURLWithPath: "\(treasure)/\(name)"), as: "secret")
                _ = try file.write(marker) as SnapshotInfo
            }
            for path in try FileManager.default.subpathsOfDirectory(atPath: treasure) {
                let isFolder = try #require(try System.statusOfLink(at: "\(treasure)/\(path)")).isFolder
                #expect(chmod("\(treasure)/\(path)", isFolder ? 0o755 : 0o600) == 0)
            }
        }

        static func makeDatabase(_ path: String, _ text: String, count: Int = 1) throws {
            let queue = try DatabaseQueue(path: path)
            try queue.write { db in
                try db.execute(sql: "CREATE TABLE IF NOT EXISTS t(x)")
                for _ in 0..<count { try db.execute(sql: "INSERT INTO t VALUES (?)", arguments: [text]) }
            }
            try queue.close()
        }

        /// All that can be seen of a file from outside but the time of the last look, and its content.
        struct Trace: Equatable {
            var identity, access, links, size, time: String
            var content: Data?
        }

        func trace() throws -> [String: Trace] {
            try (["."] + FileManager.default.subpathsOfDirectory(atPath: treasure)).reduce(into: [:]) { traces, path in
                guard let status = try System.statusOfLink(at: "\(treasure)/\(path)") else { return }
                traces[path] = Trace(
                    identity: "\(FileIdentity(status))",
                    access: status.accessText,
                    links: "\(status.st_nlink)",
                    size: "\(status.st_size)",
                    time: "\(status.modificationTime)",
                    content: status.isRegularFile ? FileManager.default.contents(atPath: "\(treasure)/\(path)") : nil
                )
            }
        }

        // MARK: The programs

        /// The fakes of Litestream and rclone, which do what these would do with folders, and follow no link that they find there.
        private func install() throws {
            try install(
                "litestream",
                """
                case "$*" in version) echo 0.5.17; exit;; esac
                configuration=$(cat <&3)
                claim='\(folder.path("claim"))'
                case "$*" in
                    *replicate*)
                        cp "$(echo "$configuration" | grep -o '"path":"[^"]*"' | head -1 | cut -d'"' -f4)" "$claim"
                        replica=$(echo "$configuration" | grep -o 'file://[^"]*' | head -1 | cut -c8-)
                        mkdir -p "$replica/ltx/0"; echo claim >"$replica/ltx/0/1.ltx"; exit;;
                esac
                for last; do out=$last; done
                case "$out" in */claim)
                    case "$configuration" in *claims/0000000000000001*) [ ! -e "$claim" ] || { cp "$claim" "$out"; exit; };; esac
                    echo 'Error: no matching backup files available' >&2; exit 1;;
                esac
                case "$*" in
                    *-dry-run*) echo '{"max_txid":"000000000000001f","files":[{"size":100,"timestamp":"2026-11-23T17:29:21Z"}]}';;
                    *-follow-interval*)
                        cp '\(folder.path("backup"))' "$out"; sleep 0.02; echo 000000000000001f >"$out-txid"
                        echo '{"time":"x","level":"INFO","msg":"entering follow mode"}'
                        sleep 0.2; kill -TERM $PPID; exec sleep 1;;
                    *) cp '\(folder.path("backup"))' "$out"
                       echo '{"time":"x","level":"DEBUG","msg":"restore plan","txid":"000000000000001f","timestamp":"2026-11-23T17:29:21.381Z"}' >&2;;
                esac
                """
            )
            try install(
                "rclone",
                """
                for last; do before=$to; to=$last; done
                while [ $# -gt 0 ]; do
                    case "$1" in
                        version) echo 'rclone v1.60.1'; exit;;
                        lsf) cd "$to" 2>/dev/null || exit 3; find . -type f -printf '%s %P\\n'; exit;;
                        copyto) mkdir -p "${to%/*}"; cp -P "$before" "$to"; exit;;
                        copy|delete) verb=$1;;
                        --files-from-raw) names=$2;;
                    esac
                    shift
                done
                while IFS= read -r name; do
                    if [ "$verb" = delete ]; then rm -f "$to/$name"; continue; fi
                    [ -f "$before/$name" ] && [ ! -L "$before/$name" ] || continue
                    mkdir -p "$(dirname "$to/$name")"; cp -P "$before/$name" "$to/$name"
                done <"$names"
                """
            )
            try Self.makeDatabase(folder.path("backup"), "restored", count: 50)
        }

        private func install(_ program: String, _ script: String) throws {
            let path = "\(programs)/\(program)"
            try "#!/bin/sh\n\(script)\n".write(toFile: path, atomically: true, encoding: .utf8)
            #expect(chmod(path, 0o755) == 0)
        }

        // MARK: Runs

        /// Keeps the folder and the store, to begin each run with.
        func keepAsTemplate() throws { try shell("rm -rf template/*; cp -a data store template") }

        func reset(_ kind: AttackedFolder) throws {
            try clear()
            try shell("cp -a template/data template/store .")
            #expect(chown(data, kind.owner, kind.owner) == 0 && chmod(data, kind.mode) == 0)
        }

        func clear() throws { try shell("rm -rf data store temporary/* log claim") }

        private func shell(_ script: String) throws {
            let result = try Tool.run(["-c", script], in: folder, program: URL(fileURLWithPath: "/bin/sh"))
            try #require(result.code == 0, "\(result.errors)")
        }

        @discardableResult
        func tool(_ arguments: [String]) throws -> Tool.Result {
            let result = try Tool.run(arguments, in: folder)
            try #require(result.code == 0, "\(arguments): \(result.errors)")
            return result
        }

        /// Finds the files outside of the treasure in which its content is.
        func leaks() throws -> String {
            let arguments = ["-rlF", marker, data, store, temporary]
            let found = try Tool.run(arguments, in: folder, program: URL(fileURLWithPath: "/usr/bin/grep")).output
            // A hard link of the attacker's is the file itself.
            return try found.split(separator: "\n").filter { path in
                try System.statusOfLink(at: String(path)).map { $0.st_nlink == 1 } ?? false
            }.joined(separator: ", ")
        }
    }
#endif
