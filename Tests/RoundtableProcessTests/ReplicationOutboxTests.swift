import Foundation
import GRDB
import Roundtable
import RoundtableDiagnostics
import RoundtableKernel
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ProcessTests {
    /// `roundtable outbox ship` and `roundtable outbox collect` with the real rclone, and a folder as the store (rules Z).
    @Suite(
        .timeLimit(.minutes(30)),
        .enabled(if: Rclone.path != nil, "rclone is not in PATH: run 'make test-replication'")
    )
    struct ReplicationOutboxTests {
        /// Both sides are killed at random moments, and the store fails at random: it refuses, stops in the middle, forgets, truncates,
        /// hides, delays and brings back. Each command is applied once, and in the order of its sender (rules Z4 to Z8).
        @Test(.long()) func killedOnBothSidesOverAStoreThatFails() throws {
            let (machines, last, kills) = isLongRun ? (2, 2500, 50) : (2, 50, 8)
            var random = SeededGenerator()
            try PeerFleet.run(ofOneUser: true, inMemory: true) { fleet in
                let began = ContinuousClock.now
                let world = try TravelWorld(fleet, machines: machines, seed: random.next())
                let senders = (1...machines * 2).map { number in
                    MortalSender(
                        number,
                        fleet,
                        pauseMilliseconds: isLongRun ? 4 : 40,
                        path: world.machines[number % machines]
                    )
                }
                for sender in senders { try sender.live(fleet, through: last) }
                try world.start()
                var killed = 0
                while killed < kills || senders.contains(where: { $0.acknowledged < last }) {
                    // Every 500 ms, or 1.5 s, on average.
                    usleep(UInt32.random(in: 0..<(isLongRun ? 3_000_000 : 1_000_000), using: &random))
                    if killed < kills {
                        try world.killAny(&random)
                        killed += 1
                    }
                    for sender in senders where sender.acknowledged < last { try sender.checkIsWell(through: last) }
                    try world.checkAreWell()
                }
                let waiting = try world.waiting()
                let applied = try world.applied()
                // The store fails to the end in the long run: that it recovers must not be needed.
                if !isLongRun { try world.heal() }
                try eventually("everything is applied, and known to be", within: .seconds(isLongRun ? 1200 : 60)) {
                    try world.checkAreWell()
                    return try world.waiting() == 0
                }
                print(
                    """
                    outbox between machines: \(senders.count) senders × \(last) on \(machines) machines, \(killed) kills, \
                    \(try world.faults()); after the last kill, \(applied) were applied and \(waiting) waited at the \
                    senders; all within \(ContinuousClock.now - began)
                    """
                )
                try world.end()
                for sender in senders { try fleet.expectOnceInOrder(sender: sender.number, through: last) }
                try fleet.expectNothingSetAside()
                #expect(try CommandOutbox.contents(forDatabaseAt: fleet.database).damaged.isEmpty)
            }
        }

        /// Both sides are killed over a real S3 server, with calls of rclone that fail, are killed, lie and hide.
        @Test(.enabled(if: S3Server.program != nil, "weed (SeaweedFS) is not in PATH"))
        func killedOnBothSidesOverS3() throws {
            let (last, kills) = isLongRun ? (1000, 20) : (40, 4)
            var random = SeededGenerator()
            try PeerFleet.run(ofOneUser: true, inMemory: true) { fleet in
                let began = ContinuousClock.now
                let server = try S3Server(fleet)
                let world = try TravelWorld(
                    fleet,
                    machines: 2,
                    store: server.url(secret: "hunter2"),
                    seed: random.next()
                )
                let senders = (1...2).map { number in
                    MortalSender(number, fleet, pauseMilliseconds: 20, path: world.machines[number % 2])
                }
                for sender in senders { try sender.live(fleet, through: last) }
                try world.start()
                for _ in 1...kills {
                    usleep(UInt32.random(in: 0..<1_500_000, using: &random))
                    try world.killAny(&random)
                    try world.checkAreWell()
                }
                try eventually("everything is submitted", within: .seconds(120)) {
                    senders.allSatisfy { $0.acknowledged == last }
                }
                try world.heal()
                try eventually("everything is applied, and known to be", within: .seconds(300)) {
                    try world.checkAreWell()
                    return try world.waiting() == 0
                }
                try world.end()
                for sender in senders { try fleet.expectOnceInOrder(sender: sender.number, through: last) }
                try fleet.expectNothingSetAside()
                print(
                    "outbox between machines over S3: 2 × \(last), \(kills) kills \(try world.faults()), within \(ContinuousClock.now - began)"
                )
            }
        }

        /// Wrong credentials and a server that is gone are named, and the way recovers.
        @Test(.enabled(if: S3Server.program != nil, "weed (SeaweedFS) is not in PATH"))
        func wrongCredentialsAreNamed() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let server = try S3Server(fleet)
                let machine = fleet.folder.appendingPathComponent("a.sqlite").path
                let arguments = ["outbox", "ship", machine, "--every", "0.2", "--json", "--to"]
                let ship = try fleet.spawn(
                    program: try PeerFleet.program(named: "roundtable"),
                    arguments: arguments + [server.url(secret: "wrong")],
                    environment: S3Server.environment
                )
                let status = try TravelLines(ship).next()
                #expect(
                    status.state == .failing && status.problem?.hasPrefix("the store refuses the credentials") == true,
                    "\(status)"
                )
                #expect(!status.store.contains("wrong") && status.problem?.contains("wrong") == false)
                #expect(OutboxTravelStatus.all(inOutboxAt: "\(machine)-outbox").map(\.state) == [.failing])
                ship.signal(SIGTERM)
                #expect(try ship.waitForExit(within: .seconds(30)) == .status(0))
            }
        }

        /// A sender on one machine, the database on another: the outcome reaches the waiter, and the published file arrives.
        @Test func aWidgetGetsItsOutcomeAndItsBoard() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let machine = fleet.folder.appendingPathComponent("machine")
                try FileManager.default.createDirectory(at: machine, withIntermediateDirectories: false)
                let board = fleet.databaseFolder.appendingPathComponent("board.json").path
                let store = fleet.folder.appendingPathComponent("store").path
                let owner = try fleet.spawn("owner")
                try owner.call(.ownOutbox(path: fleet.database.path, publishingTo: board))
                let place = machine.appendingPathComponent("shared.sqlite")
                func start(_ arguments: [String]) throws -> ChildProcess {
                    try fleet.spawn(
                        program: try PeerFleet.program(named: "roundtable"),
                        arguments: ["outbox"] + arguments + ["--every", "0.1", "--json"]
                    )
                }
                let ship = try start(["ship", place.path, "--to", store, "--snapshots", machine.path])
                let collect = try start(["collect", fleet.database.path, "--from", store, "--publish", board])
                let outbox = try CommandOutbox(forDatabaseAt: place, as: "widget")
                let submission: OutboxSubmission = try outbox.submit(PeerCommandEntry(sender: 0, n: 1))
                #expect(try submission.outcome(within: .seconds(30)) == .applied)
                try eventually("the command is removed where it came from") {
                    try FileManager.default.contentsOfDirectory(atPath: "\(outbox.path)/commands").isEmpty
                }
                let copy = machine.appendingPathComponent("board.json").path
                try eventually("the board arrives") {
                    FileManager.default.contents(atPath: copy) != nil
                        && FileManager.default.contents(atPath: copy) == FileManager.default.contents(atPath: board)
                }
                let status = try fleet.status()
                #expect(
                    status.outboxTravel?.map(\.direction) == [.collect] && status.outboxTravel?[0].state == .working
                )
                // A second one of each refuses.
                for arguments in [
                    ["ship", place.path, "--to", store], ["collect", fleet.database.path, "--from", store],
                ] {
                    let second = try start(arguments)
                    #expect(try second.waitForExit(within: .seconds(30)) == .status(1))
                    #expect(second.errorText.contains("does that already"), "\(second.errorText)")
                }
                // One for another database does, too.
                let other = try start(["collect", machine.appendingPathComponent("other.sqlite").path, "--from", store])
                #expect(try other.waitForExit(within: .seconds(30)) == .status(1))
                #expect(other.errorText.contains("another collector"), "\(other.errorText)")
                try collect.killAndReap()
                #expect(try fleet.status().outboxTravel?.map(\.state) == [.abandoned])
                #expect(
                    try DatabaseDiagnosis(ofDatabaseAt: fleet.database).findings.contains { $0.topic == .outboxTravel }
                )
                ship.signal(SIGTERM)
                #expect(try ship.waitForExit(within: .seconds(30)) == .status(0), "\(ship.errorText)")
                #expect(OutboxTravelStatus.all(inOutboxAt: outbox.path).isEmpty, "the report is removed")
            }
        }

        /// rclone ends with the tool, however that ends, and a frozen one does not prevent it from ending.
        @Test func aTransferDoesNotOutliveItsSide() throws {
            try PeerFleet.run(ofOneUser: true) { fleet in
                let pids = fleet.folder.appendingPathComponent("pids")
                let bin = fleet.folder.appendingPathComponent("bin")
                try FileManager.default.createDirectory(at: bin, withIntermediateDirectories: false)
                let program = bin.appendingPathComponent("rclone")
                let script = """
                    #!/bin/sh
                    case "$*" in *version*) echo 'rclone v1.60.1'; exit;; esac
                    echo $$ >> '\(pids.path)'
                    exec sleep 1000

                    """
                try Data(script.utf8).write(to: program)
                try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: program.path)
                func started(_ number: Int) throws -> Int32 {
                    var found: [Int32] = []
                    try eventually("rclone runs") {
                        found = ((try? String(contentsOf: pids, encoding: .utf8)) ?? "").split(separator: "\n")
                            .compactMap { Int32($0) }
                        return found.count == number
                    }
                    return found[number - 1]
                }
                func ship() throws -> ChildProcess {
                    try fleet.spawn(
                        program: try PeerFleet.program(named: "roundtable"),
                        arguments: ["outbox", "ship", fleet.database.path, "--to", "store", "--rclone", program.path]
                    )
                }
                #if os(Linux)
                    let first = try ship()
                    let transfer = try started(1)
                    try first.killAndReap()
                    try eventually("rclone ends") { !ProcessTable.isRunning(transfer) }
                #else
                    try Data("0\n".utf8).write(to: pids)
                #endif
                let second = try ship()
                let frozen = try started(2)
                kill(frozen, SIGSTOP)
                second.signal(SIGTERM)
                try eventually("the signal is handled") { second.errorText.contains("A second signal ends it at once") }
                second.signal(SIGTERM)
                #expect(try second.waitForExit(within: .seconds(30)) == .status(0), "\(second.errorText)")
                #expect(!ProcessTable.isRunning(frozen))
            }
        }
    }
}

enum Rclone {
    /// The path of the installed program; nil when there is none.
    static let path: String? = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        .map { "\($0)/rclone" }.first { FileManager.default.isExecutableFile(atPath: $0) }
}

/// The statuses that a side prints with `--json`.
private struct TravelLines {
    private let session: ProgramSession

    init(_ process: ChildProcess) { session = ProgramSession(process) }

    func next() throws -> OutboxTravelStatus {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        return try decoder.decode(OutboxTravelStatus.self, from: Data(session.receive(within: .seconds(60)).utf8))
    }
}

/// Machines with senders, a machine with the database, and a store that fails.
final class TravelWorld {
    /// The places of the databases of the senders' machines, where there are none.
    let machines: [String]
    let store: String
    private let fleet: PeerFleet
    private let wrapper: URL
    private var ships: [ChildProcess] = []
    private var collector: ChildProcess?
    private var owner: Peer?
    private var owners = 0
    private(set) var counts = ["ship": 0, "collect": 0, "owner": 0]

    /// - parameter store: the place of the store; nil: a folder, whose objects are lost, too.
    init(_ fleet: PeerFleet, machines count: Int, store: String? = nil, seed: UInt64) throws {
        self.fleet = fleet
        self.store = store ?? fleet.folder.appendingPathComponent("store").path
        machines = try (0..<count).map { number in
            let folder = fleet.folder.appendingPathComponent("machine-\(number)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            return folder.appendingPathComponent("shared.sqlite").path
        }
        wrapper = fleet.folder.appendingPathComponent("bin")
        try FileManager.default.createDirectory(at: wrapper, withIntermediateDirectories: true)
        try FileManager.default.createDirectory(
            at: fleet.folder.appendingPathComponent("limbo"),
            withIntermediateDirectories: true
        )
        try FailingRclone.write(
            to: wrapper.appendingPathComponent("rclone"),
            program: try #require(Rclone.path),
            folder: fleet.folder.path,
            seed: seed
        )
    }

    func start() throws {
        ships = try machines.map(ship)
        collector = try collect()
        try startOwner()
    }

    private func run(_ arguments: [String]) throws -> ChildProcess {
        try fleet.spawn(
            program: try PeerFleet.program(named: "roundtable"),
            arguments: ["outbox"] + arguments + ["--every", "0.1"],
            environment: S3Server.environment.merging(
                ["PATH": "\(wrapper.path):\(ProcessInfo.processInfo.environment["PATH"] ?? "")"]
            ) { $1 }
        )
    }

    private func ship(_ machine: String) throws -> ChildProcess { try run(["ship", machine, "--to", store]) }
    private func collect() throws -> ChildProcess { try run(["collect", fleet.database.path, "--from", store]) }

    private func startOwner() throws {
        owners += 1
        owner = try fleet.spawn("owner-\(owners)")
        try owner?.send(.ownOutbox(path: fleet.database.path))
    }

    /// Kills a process of either side, and starts its successor.
    func killAny(_ random: inout SeededGenerator) throws {
        switch Int.random(in: 0..<5, using: &random) {
        case 0, 1:
            let index = ships.indices.randomElement(using: &random)!
            try ships[index].killAndReap()
            ships[index] = try ship(machines[index])
            counts["ship"]! += 1
        case 2, 3:
            try collector?.killAndReap()
            collector = try collect()
            counts["collect"]! += 1
        default:
            owner?.process.end()
            try startOwner()
            counts["owner"]! += 1
        }
    }

    /// - throws: when a process has ended by itself.
    func checkAreWell() throws {
        for process in ships + [collector].compactMap(\.self) where !process.isRunning {
            throw TestKitError("a process has ended: \(process.errorText)")
        }
        if let owner, !owner.process.isRunning { throw TestKitError("\(owner) ended: \(owner.process.errorText)") }
    }

    /// The commands that wait on the senders' machines.
    func waiting() throws -> Int {
        try machines.reduce(0) { count, machine in
            let path = "\(machine)-outbox/commands"
            return try count + FileManager.default.contentsOfDirectory(atPath: path).count
        }
    }

    func applied() throws -> Int {
        let queue = try DatabaseQueue(path: fleet.database.path)
        defer { try? queue.close() }
        return try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM applied") ?? 0 }
    }

    /// From now on, the store does not fail.
    func heal() throws { try Data().write(to: fleet.folder.appendingPathComponent("healed")) }

    /// The number of faults, as text.
    func faults() throws -> String {
        let text = (try? String(contentsOf: fleet.folder.appendingPathComponent("faults"), encoding: .utf8)) ?? ""
        var counts: [String: Int] = [:]
        for line in text.split(separator: "\n") { counts[String(line), default: 0] += 1 }
        let kills = self.counts.sorted { $0.key < $1.key }.map { "\($0.value) of \($0.key)" }.joined(separator: ", ")
        let faults = counts.sorted { $0.key < $1.key }.map { "\($0.value) × \($0.key)" }.joined(separator: ", ")
        return "(\(kills)), calls of rclone: \(faults)"
    }

    /// Ends both sides as a user does.
    func end() throws {
        let tools = ships + [collector].compactMap(\.self)
        for process in tools {
            // One that was started just now does not handle signals before it has said so.
            try eventually("a process has begun: \(process.errorText)") { process.errorText.contains("with rclone") }
            process.signal(SIGTERM)
        }
        for process in tools {
            #expect(try process.waitForExit(within: .seconds(60)) == .status(0), "\(process.errorText)")
        }
        owner?.process.end()
    }
}

/// A program `rclone` that runs the real one, and fails at random.
enum FailingRclone {
    /// - Parameters:
    ///   - program: the real one.
    ///   - folder: the folder that contains `store`, for notes and for lost objects.
    static func write(to file: URL, program: String, folder: String, seed: UInt64) throws {
        let script = #"""
            #!/bin/bash
            cd '@FOLDER@' || exit 1
            printf x >> calls
            RANDOM=$(( (@SEED@ + $(stat -c %s calls) * 7919) % 32768 )); for i in 1 2 3 4 5; do : $RANDOM; done
            note() { echo "$1" >> faults; }
            object() { find store -type f -printf '%P\n' 2>/dev/null | sort | sed -n "$((RANDOM % ($(find store -type f | wc -l) + 1) + 1))p"; }
            [ -e healed ] && exec '@PROGRAM@' "$@"
            case " $* " in *" version "*) exec '@PROGRAM@' "$@";; esac
            case $((RANDOM % 28)) in
            0|1) note refused; echo "2026/01/01 00:00:00 ERROR : the store refuses at random" >&2; exit 1;;
            2) note 'done, and reported as failed'; '@PROGRAM@' "$@"; exit 5;;
            3|4) note 'killed in the middle'
                '@PROGRAM@' "$@" & child=$!
                sleep 0.$(printf %03d $((RANDOM % 120))); kill -9 $child 2>/dev/null; wait $child 2>/dev/null; exit 9;;
            5) note delayed; sleep 0.$((RANDOM % 10)); exec '@PROGRAM@' "$@";;
            6|7) note 'an object truncated'; '@PROGRAM@' "$@"; code=$?
                name=$(object); [ -n "$name" ] && truncate -s $((RANDOM % 400)) "store/$name" 2>/dev/null; exit $code;;
            8) note 'an object lost'; '@PROGRAM@' "$@"; code=$?; name=$(object); [ -n "$name" ] && rm -f "store/$name"; exit $code;;
            9|10) note 'an object kept for later'; '@PROGRAM@' "$@"; code=$?; name=$(object)
                [ -n "$name" ] && mkdir -p "limbo/$(dirname "$name")" && cp "store/$name" "limbo/$name" 2>/dev/null; exit $code;;
            11|12) note 'an earlier object brought back'; '@PROGRAM@' "$@"; code=$?
                name=$(find limbo -type f -printf '%P\n' 2>/dev/null | sort -R | head -1)
                [ -n "$name" ] && mkdir -p "store/$(dirname "$name")" && cp "limbo/$name" "store/$name"; exit $code;;
            13) note 'nothing done, and reported as done'; case " $* " in *" lsf "*) exec '@PROGRAM@' "$@";; esac; exit 0;;
            14|15) note 'a part of a listing hidden'
                case " $* " in *" lsf "*) '@PROGRAM@' "$@" | awk -v s=$RANDOM 'BEGIN { srand(s) } rand() > 0.3'; exit 0;; esac
                exec '@PROGRAM@' "$@";;
            *) note well; exec '@PROGRAM@' "$@";;
            esac
            """#
            .replacingOccurrences(of: "@FOLDER@", with: folder)
            .replacingOccurrences(of: "@PROGRAM@", with: program)
            .replacingOccurrences(of: "@SEED@", with: "\(seed % 1_000_000)")
        try Data(script.utf8).write(to: file)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: file.path)
    }
}

/// An S3 server, SeaweedFS, on this machine.
final class S3Server {
    /// The path of the installed program; nil when there is none.
    static let program: String? = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        .map { "\($0)/weed" }.first { FileManager.default.isExecutableFile(atPath: $0) }

    let port: Int

    /// Starts it, and waits until it answers.
    init(_ fleet: PeerFleet) throws {
        let folder = fleet.folder.appendingPathComponent("seaweedfs")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let configuration = folder.appendingPathComponent("s3.json")
        let identities = """
            {"identities": [{"name": "test", "credentials": [{"accessKey": "key", "secretKey": "hunter2"}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}
            """
        try Data(identities.utf8).write(to: configuration)
        // Each of its services has another port 10,000 above.
        let base = Int.random(in: 12000..<18000)
        port = base + 3
        _ = try fleet.spawn(
            program: URL(fileURLWithPath: try #require(Self.program)),
            arguments: [
                "server", "-dir=\(folder.path)", "-ip=127.0.0.1", "-master.port=\(base)", "-volume.port=\(base + 1)",
                "-volume.max=100", "-master.volumeSizeLimitMB=64", "-filer", "-filer.port=\(base + 2)", "-s3",
                "-s3.port=\(port)",
                "-s3.port.iceberg=0", "-s3.port.lance=0",
                "-s3.config=\(configuration.path)",
            ]
        )
        let rclone = URL(fileURLWithPath: try #require(Rclone.path))
        let url = url(secret: "hunter2")
        try eventually("the S3 server answers", within: .seconds(60)) {
            let probe = try fleet.spawn(
                program: rclone,
                arguments: ["mkdir", url, "--retries", "1", "--low-level-retries", "1"],
                environment: Self.environment
            )
            return try probe.waitForExit(within: .seconds(30)) == .status(0)
        }
    }

    func url(secret: String) -> String {
        ":s3,provider=Other,endpoint='http://127.0.0.1:\(port)',access_key_id=key,secret_access_key=\(secret):bucket/outbox"
    }

    /// Neither certificates nor credentials come from this machine.
    static let environment = ["AWS_EC2_METADATA_DISABLED": "true", "AWS_CA_BUNDLE": ""]
}
