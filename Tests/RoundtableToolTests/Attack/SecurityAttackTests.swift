#if os(Linux)
    import RoundtableTestBasics
    import Foundation
    import Roundtable
    import RoundtableDelivery
    import RoundtableKernel
    import RoundtableTestSupport
    import Synchronization
    import Testing

    @testable import RoundtableTool
    @testable import RoundtableReplication
    @testable import RoundtableToolSupport

    /// Attacks right before a call of a command that works in the folder of another user, and looks what has become of what is outside of that folder
    /// (SR5 and SR6 of `docs/SECURITY.md`). The attacker is a library in the command's process, with the rights of another user.
    @Suite(
        .serialized,
        .enabled(if: OtherUser.isPossible, "needs root, to work in folders of other users"),
        .enabled(if: PeerFleet.compiler != nil, "needs a C compiler")
    ) struct SecurityAttackTests {
        /// How many attacks there are on each command; nil: one on each call, in each kind of folder.
        private static let runs: Int? = {
            if let text = ProcessInfo.processInfo.environment["ROUNDTABLE_ATTACKS"] { return Int(text) }
            return isLongRun ? nil : 8
        }()
        /// The one attack to repeat: ROUNDTABLE_ATTACK="shared 126 pipe all 5", as a failure prints it.
        private static let only: (AttackedFolder, Attack)? = {
            let words = (ProcessInfo.processInfo.environment["ROUNDTABLE_ATTACK"] ?? "").split(separator: " ").map(
                String.init
            )
            guard words.count == 5, let kind = AttackedFolder(rawValue: words[0]), let point = Int(words[1]),
                let length = Int(words[4])
            else { return nil }
            return (kind, Attack(point: point, what: words[2], place: words[3], length: length))
        }()
        /// A command that is attacked.
        enum Command: String, CaseIterable, Sendable {
            case restore, promote, follow, followAgain, ship, collect, record, open
        }

        @Test(.long(oneIn: 32), arguments: Command.allCases)
        func nothingOutsideChanges(command: Command) throws {
            let campaign = try AttackCampaign(command)
            var random = SeededGenerator(for: "SecurityAttackTests.\(command)")
            if let (kind, attack) = Self.only {
                for _ in 0..<(Self.runs ?? 1) { try campaign.run(attack, in: kind) }
                return print("\(command): \(campaign.summary)")
            }
            var points: [AttackedFolder: Int] = [:]
            for kind in AttackedFolder.allCases { points[kind] = try campaign.points(in: kind) }
            if let runs = Self.runs {
                // A few more, if the system has denied each exchange.
                for number in 0..<(10 * runs) where number < runs || campaign.exchanges == 0 {
                    let kind = AttackedFolder.allCases.randomElement(using: &random)!
                    let point = Int.random(in: 1...points[kind]!, using: &random)
                    try campaign.run(Attack.random(at: point, of: campaign.kinds, using: &random), in: kind)
                }
            } else {
                for kind in AttackedFolder.allCases {
                    for point in 1...points[kind]! {
                        try campaign.run(Attack.random(at: point, of: campaign.kinds, using: &random), in: kind)
                    }
                }
            }
            print(
                "\(command): \(points.map { "\($0.value) calls in a folder that is \($0.key)" }.sorted()), \(campaign.summary)"
            )
            #expect(campaign.exchanges > 0, "no attack has exchanged anything")
        }
    }

    /// The runs of one command.
    final class AttackCampaign {
        private let command: SecurityAttackTests.Command
        private let world: AttackWorld
        private var before: [String: AttackWorld.Trace] = [:]
        private let library: String
        private(set) var exchanges = 0
        private var (runs, failures, begun) = (0, 0, ContinuousClock.now)

        var summary: String {
            "\(runs) runs, \(exchanges) exchanges, \(failures) errors of the command, in \(ContinuousClock.now - begun)"
        }

        init(_ command: SecurityAttackTests.Command) throws {
            self.command = command
            world = try AttackWorld()
            library = world.folder.path("attacker.so")
            let source = world.folder.path("attacker.c")
            try Data(PackageResources.attacker_c).write(to: URL(fileURLWithPath: source))
            let arguments = ["-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"]
            let result = try Tool.run(arguments, in: world.folder, program: PeerFleet.compiler)
            try #require(result.code == 0, "\(result.errors)")
            try prepare()
            before = try world.trace()
        }

        // MARK: The commands

        private var path: String { "\(world.data)/app.db" }

        private var arguments: [String] {
            let litestream = ["--litestream", "\(world.programs)/litestream"]
            let rclone = ["--rclone", "\(world.programs)/rclone", "--once"]
            switch command {
            case .restore: return ["restore", "s3://bucket/db", path, "--replace"] + litestream
            case .promote: return ["promote", "file://\(world.data)/replica", path, "--replace"] + litestream
            case .follow, .followAgain: return ["follow", "s3://bucket/db", path] + litestream
            case .ship:
                return ["outbox", "ship", path, "--to", world.store, "--snapshots", "\(world.data)/snapshots"] + rclone
            case .collect: return ["outbox", "collect", path, "--from", world.store, "--take-over"] + rclone
            case .record:
                return ["record", path, "-o", "\(world.data)/recording", "--keep", "1", "--every", "0.1"]
            case .open: return ["sql", path, "INSERT INTO t VALUES (7)"]
            }
        }

        /// What has to be given to work in a folder of another user.
        private func options(_ kind: AttackedFolder) -> [String] {
            switch command {
            case .record, .open: []
            // The replica is in a folder of the attacker's.
            case .ship, .collect, .promote: ["--into-others-folder"]
            default: kind == .sticky ? [] : ["--into-others-folder"]
            }
        }

        /// The databases of the treasure that SQLite may open, because it opens databases by their paths (SR4).
        private var databases: Set<String> {
            switch command {
            case .restore, .promote: ["database", "app.db"]
            case .follow, .followAgain: ["database", "first", "app.db"]
            case .record, .open: ["app.db"]
            case .ship, .collect: []
            }
        }

        /// What is put in place of files. Where `fs.protected_hardlinks` is off, SQLite takes a hard link for its `-wal`, and writes to it: there, no
        /// command may be run that opens a database in a folder of another user (SR4).
        var kinds: [String] {
            [.follow, .followAgain, .record, .open].contains(command)
                ? Attack.kinds.filter { $0 != "hard-link" } : Attack.kinds
        }

        /// The snapshot files beside a database, which are read wherever their names lead, because programs of one user may put links there. What is
        /// no such file is not shown, and what is one says nothing but what `status` says.
        private var snapshotFiles: Set<String> {
            [.ship, .collect].contains(command) ? [] : ["app.db-term", "app.db-replica", "secret"]
        }

        /// When the command gets SIGTERM, because it does not end by itself.
        private var lifetime: Double? {
            switch command {
            case .follow, .followAgain: 1.5
            case .record: 0.6
            default: nil
            }
        }

        /// Makes what each run begins with.
        private func prepare() throws {
            let planted = ".app.db-restore.\(Int32.max - 1)-1-\(ProcessIdentity.current.namespace)-1-1.new"
            switch command {
            case .restore, .promote:
                try AttackWorld.makeDatabase(path, "old")
                try Data([1]).write(to: URL(fileURLWithPath: path + "-wal"))
                // What a killed restore has left, with names of the treasure in it.
                for name in [planted, "\(planted)/a", "replica"] { #expect(mkdir("\(world.data)/\(name)", 0o755) == 0) }
                for name in ["a/secret", "a/b", "a/database", "secret"] {
                    try Data().write(to: URL(fileURLWithPath: "\(world.data)/\(planted)/\(name)"))
                }
                #expect(chown("\(world.data)/replica", 65534, 65534) == 0)
            case .follow: break
            case .followAgain: #expect(try start(nil, in: .own).code == 0)
            case .ship, .collect: try prepareOutbox()
            case .record:
                try AttackWorld.makeDatabase(path, "old")
                #expect(try start(nil, in: .own).code == 128 + SIGTERM)
            case .open: try AttackWorld.makeDatabase(path, "old")
            }
            try world.keepAsTemplate()
        }

        /// Two commands have travelled, are applied, and their outcomes are in the store; two more wait.
        private func prepareOutbox() throws {
            let rclone = ["--rclone", "\(world.programs)/rclone", "--once"]
            let (sender, owner) = (world.folder.path("sender"), world.folder.path("owner"))
            for name in [sender, owner, "\(world.data)/snapshots"] { #expect(mkdir(name, 0o755) == 0) }
            let outbox = try CommandOutbox(at: URL(fileURLWithPath: "\(sender)/app.db-outbox"), as: "sender")
            let ship = ["outbox", "ship", "\(sender)/app.db-outbox", "--to", world.store] + rclone
            let state = SnapshotFile<String>(at: URL(fileURLWithPath: "\(owner)/state"), as: "owner")
            _ = try state.write("state") as SnapshotInfo
            let collect =
                ["outbox", "collect", "\(owner)/app.db", "--from", world.store, "--publish", "\(owner)/state"] + rclone
            for text in ["a", "b"] { _ = try outbox.submit(AttackWorld.Entry(text: text)) as OutboxSubmission }
            try world.tool(ship)
            try world.tool(collect)
            let database = try SharedDatabase.open(
                at: URL(fileURLWithPath: "\(owner)/app.db"),
                schema: .unmanaged,
                as: "owner"
            )
            var handlers = OutboxHandlers()
            handlers.handle(AttackWorld.Entry.self) { _, _ in }
            _ = try OutboxDrain(unattended: database, handlers: handlers).drain()
            try database.close()
            if command == .ship { try world.tool(collect) }
            for text in ["c", "d"] { _ = try outbox.submit(AttackWorld.Entry(text: text)) as OutboxSubmission }
            if command == .collect { try world.tool(ship) }
            let source = command == .ship ? sender : owner
            for name in try FileManager.default.contentsOfDirectory(atPath: source) {
                try FileManager.default.copyItem(atPath: "\(source)/\(name)", toPath: "\(world.data)/\(name)")
            }
            // A user who may write the outbox decides what is in it.
            for name in ["", "/commands", "/new", "/questions", "/answers", "/damaged", "/owners", "/collected"] {
                _ = chmod("\(world.data)/app.db-outbox\(name)", 0o777)
            }
            try Data("x".utf8).write(to: URL(fileURLWithPath: "\(world.data)/app.db-outbox/commands/x.command"))
        }

        // MARK: Runs

        private static let deadline = 20.0

        private struct Outcome { let code: Int32, output: String, errors: String, waited: Waited? }
        /// What it took to end a command that has not ended by the deadline.
        private enum Waited { case terminated, killed }

        /// - parameter attack: nil runs the command without the attacker.
        private func start(_ attack: Attack?, in kind: AttackedFolder) throws -> Outcome {
            var environment = ["TMPDIR=\(world.temporary)"]
            if let attack {
                environment += [
                    "LD_PRELOAD=\(library)", "ROUNDTABLE_ATTACK=\(attack)", "ROUNDTABLE_ATTACK_LOG=\(world.log)",
                    "ROUNDTABLE_ATTACK_FOLDER=\(world.data)", "ROUNDTABLE_ATTACK_TREASURE=\(world.treasure)",
                ]
            }
            let (output, errors) = (Pipe(), Pipe())
            let process = try Tool.start(
                environment + [Tool.url.path] + arguments + options(kind),
                in: world.folder.url,
                program: URL(fileURLWithPath: "/usr/bin/env"),
                output: output,
                errors: errors
            )
            let pid = process.processIdentifier
            let waited = Mutex<Waited?>(nil)
            let end = DispatchWorkItem { kill(pid, SIGTERM) }
            let isOver = DispatchSemaphore(value: 0)
            let giveUp = DispatchWorkItem {
                waited.withLock { $0 = .terminated }
                // The second signal ends a command at once that cleans up after the first.
                for _ in 1...2 {
                    kill(pid, SIGTERM)
                    if isOver.wait(timeout: .now() + 2) == .success { return }
                }
                waited.withLock { $0 = .killed }
                kill(pid, SIGKILL)
            }
            if let lifetime { DispatchQueue.global().asyncAfter(deadline: .now() + lifetime, execute: end) }
            DispatchQueue.global().asyncAfter(deadline: .now() + Self.deadline, execute: giveUp)
            let text = output.fileHandleForReading.readDataToEndOfFile()
            let errorText = errors.fileHandleForReading.readDataToEndOfFile()
            process.waitUntilExit()
            isOver.signal()
            end.cancel()
            giveUp.cancel()
            return Outcome(
                code: process.terminationStatus,
                output: String(decoding: text, as: UTF8.self),
                errors: String(decoding: errorText, as: UTF8.self),
                waited: waited.withLock { $0 }
            )
        }

        /// - returns: the number of calls.
        func points(in kind: AttackedFolder) throws -> Int {
            try world.reset(kind)
            let result = try start(Attack(), in: kind)
            try #require(
                result.code == (command == .record ? 128 + SIGTERM : 0),
                "\(command) in \(kind): \(result.errors)"
            )
            return try log().count
        }

        func run(_ attack: Attack, in kind: AttackedFolder) throws {
            try world.reset(kind)
            let result = try start(attack, in: kind)
            runs += 1
            if result.code != 0 { failures += 1 }
            let lines = try log()
            exchanges += lines.count { $0.hasPrefix("exchanged ") }
            let text =
                "\(command), ROUNDTABLE_ATTACK='\(kind) \(attack)': \(lines.joined(separator: "; ")); \(result.errors)"
            #expect(
                result.waited == nil || result.waited == .terminated && hasPipeForSQLite(attack, lines),
                "it hangs: \(text)"
            )
            #expect(!(result.output + result.errors).contains(world.marker), "it prints the secret: \(text)")
            let leaks = try world.leaks()
            #expect(leaks.isEmpty, "it copies the secret to \(leaks): \(text)")
            try world.clear()
            for problem in try problems(lines) { Issue.record("\(problem): \(text)") }
        }

        /// Whether SQLite may wait for a pipe that was put in place of a file that it opens by its path (SR4).
        private func hasPipeForSQLite(_ attack: Attack, _ lines: [String]) -> Bool {
            attack.what == "pipe" && !databases.isEmpty
                && lines.contains {
                    $0.wholeMatch(of: /exchanged .*\/app.db(-wal|-shm|-journal)?/) != nil
                }
        }

        /// What has become of the treasure.
        private func problems(_ lines: [String]) throws -> [String] {
            var problems: [String] = []
            let after = try world.trace()
            for (name, old) in before {
                guard let new = after[name] else {
                    problems.append("\(name) was removed")
                    continue
                }
                if !databases.isEmpty, databases.contains(name) || name == "." {
                    if (new.identity, new.access) != (old.identity, old.access) {
                        problems.append("\(name) is \(new), and was \(old)")
                    }
                    // A follower copies a state into a database that it opens by its path, and so, as SR4 says, into any that is put there.
                    if ![.follow, .followAgain].contains(command), let content = new.content,
                        content.range(of: Data(world.marker.utf8)) == nil
                    {
                        problems.append("\(name) has lost its rows")
                    }
                } else if new != old {
                    problems.append("\(name) is \(new), and was \(old)")
                }
            }
            for name in after.keys where before[name] == nil {
                if !isOfDatabase(name) { problems.append("\(name) was created") }
                try FileManager.default.removeItem(atPath: "\(world.treasure)/\(name)")
            }
            for line in lines where line.hasPrefix("opened ") {
                let words = line.split(separator: " ")
                let path = String(words[1].dropFirst(world.treasure.count + 1))
                // A command that looks at a database lists its folder.
                if databases.contains(path) || isOfDatabase(path) || (path.isEmpty && !databases.isEmpty) { continue }
                let isReading =
                    Int32(words[4], radix: 16).map { $0 & O_ACCMODE == O_RDONLY && $0 & O_CREAT == 0 } == true
                if !(isReading && snapshotFiles.contains(path)) { problems.append(line) }
            }
            return problems
        }

        /// Whether a file is one that SQLite and participants have beside one of the databases.
        private func isOfDatabase(_ name: String) -> Bool {
            databases.contains {
                // A control block has an unfinished name first (rule B1).
                name.hasPrefix(".roundtable-coord.")
                    || name.hasPrefix($0)
                        && name.dropFirst($0.count).wholeMatch(of: /-(wal|shm|journal|txid|coord[0-9]+)/) != nil
            }
        }

        private func log() throws -> [String] {
            let text = FileManager.default.contents(atPath: world.log) ?? Data()
            return String(decoding: text, as: UTF8.self).split(separator: "\n").map(String.init)
        }
    }
#endif
