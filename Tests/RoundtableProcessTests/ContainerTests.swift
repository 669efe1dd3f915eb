#if os(Linux)
    import RoundtableTestBasics
    import Foundation
    import Roundtable
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    private let mayUnshare = Namespaces.pid.arePermitted
    private let mayUnshareTime = Namespaces.time.arePermitted
    private let mayUnshareUsers = Namespaces.user.arePermitted && Namespaces.userAndPID.arePermitted

    extension TimedTrial {
        /// Waits until `condition` holds, which takes a second at most.
        fileprivate func expectWithinASecond(_ what: String, _ condition: () throws -> Bool) throws {
            let began = ContinuousClock.now
            try eventually(what, condition)
            expect(what, (ContinuousClock.now - began) / .milliseconds(1), atMost: 1000)
        }
    }

    extension ProcessTests {
        /// Processes that share a database and do not see each other, as in containers with a common volume (rules G4, P4, P9).
        @Suite(.serialized, .enabled(if: mayUnshare, "unshare(1) may not make pid namespaces here"))
        struct Containers {
            /// An observer of the database: this process, which sees the pids of all, or a peer in a pid namespace of its own, which sees
            /// none.
            private struct Look {
                let status: DatabaseStatus
                let diagnosis: DatabaseDiagnosis

                init(_ fleet: PeerFleet, from observer: Peer?) throws {
                    if let observer {
                        let reply = try observer.call(.look(path: fleet.database.path))
                        status = try #require(reply.status)
                        diagnosis = try #require(reply.diagnosis)
                    } else {
                        status = try DatabaseStatus(ofDatabaseAt: fleet.database)
                        diagnosis = try DatabaseDiagnosis(ofDatabaseAt: fleet.database)
                    }
                }

                static func status(_ fleet: PeerFleet, from observer: Peer?) throws -> DatabaseStatus {
                    guard let observer else { return try DatabaseStatus(ofDatabaseAt: fleet.database) }
                    return try #require(observer.call(.lookAtStatus(path: fleet.database.path)).status)
                }

                static func living(_ status: DatabaseStatus) -> [ParticipantStatus] {
                    status.participants.filter { $0.liveness != .dead }
                }

                var living: [ParticipantStatus] { Self.living(status) }
                var names: [String] { living.map(\.author).sorted() }
                /// What is worse than that a process has died. A writer that is killed may leave much in the WAL, which stays there until the next
                /// commit: the doctor reports that, too, and it is no error about which process lives.
                var alarms: [DatabaseDiagnosis.Finding] {
                    diagnosis.findings.filter { $0.severity > .notice && $0.topic != .notCheckpointed }
                }
            }

            private enum Activity: CaseIterable { case idle, inTransaction, withTurn, writing }

            /// A process dies at any moment: within a second, all participants see it, and no other process is thought dead.
            @Test(.timeLimit(.minutes(5))) func deathsAreSeen() throws {
                var random = SeededGenerator()
                var slowest = 0.0
                try PeerFleet.runTimed { fleet, trial in
                    let observer = try fleet.spawn("observer", in: .pid)
                    for round in 0..<(isLongRun ? 100 : 6) {
                        let peers = try ["server", "worker"].map { role in
                            let peer = try fleet.spawn("\(role) \(round)", in: .pid)
                            try peer.call(.open(fleet.opening(peer)))
                            return peer
                        }.shuffled(using: &random)
                        let (victim, survivor) = (peers[0], peers[1])
                        let activity = Activity.allCases.randomElement(using: &random)!
                        switch activity {
                        case .idle: break
                        case .inTransaction: try victim.call(.holdTransaction)
                        case .withTurn: try victim.call(.holdTurn)
                        case .writing: try victim.send(.writeLoop(WriteLoad(seconds: 60)))
                        }
                        let comment = Comment("round \(round), \(activity), seed \(random.seed)")
                        for one in [nil, observer] {
                            let look = try Look(fleet, from: one)
                            #expect(look.names == [victim.name, survivor.name].sorted(), comment)
                            #expect(look.living.allSatisfy { $0.liveness == .alive }, comment)
                            #expect(look.living.allSatisfy { $0.isInOtherPIDNamespace }, comment)
                            #expect(look.alarms.isEmpty, comment)
                            #expect(
                                look.diagnosis.findings.flatMap(\.processes).allSatisfy { $0.isParticipant },
                                comment
                            )
                            guard activity == .inTransaction else { continue }
                            #expect(look.status.writeLock?.name == victim.name, comment)
                            #expect(look.status.writeLock?.isParticipant == true, comment)
                        }
                        if activity == .writing { usleep(.random(in: 0...20_000, using: &random)) }
                        try victim.process.killAndReap()
                        let died = ContinuousClock.now
                        for one in [nil, observer] {
                            // The doctor is not asked, because it needs up to a second to see whether a long WAL becomes shorter.
                            try trial.expectWithinASecond("\(victim.name) is seen dead, \(comment)") {
                                let status = try Look.status(fleet, from: one)
                                return Look.living(status).map(\.author) == [survivor.name] && status.writeLock == nil
                            }
                        }
                        slowest = max(slowest, (ContinuousClock.now - died) / .seconds(1))
                        for one in [nil, observer] {
                            let look = try Look(fleet, from: one)
                            #expect(look.names == [survivor.name] && look.alarms.isEmpty, comment)
                        }
                        // Its turn is over as well.
                        try survivor.call(.write(rows: 1), within: .seconds(5))
                        try survivor.process.killAndReap()
                    }
                    print("deaths were seen by all within \(slowest) s")
                    try Ledger(of: fleet.database).expectEverything(acknowledgedBy: fleet.peers, dead: fleet.peers)
                }
            }

            /// The dead holder of the turn is found by its lock, and not only when patience is over (rule T8).
            @Test(.timeLimit(.minutes(1))) func theDeadAreSteppedOver() throws {
                try PeerFleet.run { fleet in
                    let options = PeerOptions(patience: 8000)
                    let peers = try ["a", "b"].map { name in
                        let peer = try fleet.spawn(name, in: .pid)
                        try peer.call(.open(fleet.opening(peer, options: options)))
                        return peer
                    }
                    try peers[0].call(.holdTurn)
                    try peers[1].send(.write(rows: 1))
                    try eventually("it waits") {
                        try fleet.participants().contains { $0.author == "b" && $0.waiting != nil }
                    }
                    try peers[0].process.killAndReap()
                    // An eighth of the patience, and some time for the system; less than the busy timeout.
                    let reply = try peers[1].reply(within: .seconds(3))
                    #expect(reply.outcome == .done, "\(reply)")
                }
            }

            /// The process that applies commands is seen from everywhere, and is not seen any more when it dies (rule X14).
            @Test(.timeLimit(.minutes(1))) func theOwnerOfTheOutboxIsSeen() throws {
                try PeerFleet.runTimed { fleet, trial in
                    let observer = try fleet.spawn("observer", in: .pid)
                    let owner = try fleet.spawn("owner", in: .pid)
                    try owner.call(.ownOutbox(path: fleet.database.path))
                    func isServed(from one: Peer?) throws -> Bool? {
                        switch try Look(fleet, from: one).status.outboxService {
                        case .applied(let owners):
                            #expect(owners.map(\.author) == ["owner"])
                            #expect(owners.map(\.isInOtherPIDNamespace) == [true])
                            return true
                        case .unowned: return false
                        default: return nil
                        }
                    }
                    for one in [nil, observer] {
                        try eventually("it owns the outbox") { try isServed(from: one) == true }
                    }
                    try owner.process.killAndReap()
                    for one in [nil, observer] {
                        try trial.expectWithinASecond("no process owns it") { try isServed(from: one) == false }
                    }
                }
            }

            /// `status` and `doctor` say whose pid it is.
            @Test(.timeLimit(.minutes(1))) func theToolSaysWhere() throws {
                try PeerFleet.run { fleet in
                    let server = try fleet.spawn("server", in: .pid)
                    try server.call(.open(fleet.opening(server)))
                    try server.call(.holdTransaction)
                    func output(_ verb: String) throws -> String {
                        let process = Process()
                        process.executableURL = try PeerFleet.program(named: "roundtable")
                        process.arguments = [verb, fleet.database.path]
                        let pipe = Pipe()
                        process.standardOutput = pipe
                        try process.run()
                        let data = pipe.fileHandleForReading.readDataToEndOfFile()
                        process.waitUntilExit()
                        return String(decoding: data, as: UTF8.self)
                    }
                    let status = try output("status")
                    // The first process of its namespace.
                    #expect(status.contains("'server' (pid 1 in another pid namespace), for "), "\(status)")
                    #expect(status.contains("1 ↗  server  writer  writes"), "\(status)")
                    let doctor = try output("doctor")
                    #expect(!doctor.contains("no participant"), "\(doctor)")
                }
            }

            /// Turns are shared equally among processes that do not see each other (rules T1–T5).
            @Test(.long(), .timeLimit(.minutes(1))) func sharesAreEqual() throws {
                try PeerFleet.run(inMemory: true) { fleet in
                    let peers = try (0..<4).map { number in
                        let peer = try fleet.spawn("peer-\(number)", in: .pid)
                        try peer.call(.open(fleet.opening(peer)))
                        return peer
                    }
                    let reports = try fleet.writeAtOnce(peers, WriteLoad(seconds: 5))
                    for (peer, report) in zip(peers, reports) { report.expectNoErrors(peer) }
                    let commits = reports.map(\.commits)
                    print("4 writers in 4 pid namespaces: Jain \(jainIndex(commits)), \(commits)")
                    #expect(jainIndex(commits) >= 0.99, "\(commits)")
                    try Ledger(of: fleet.database).expectEverything(acknowledgedBy: peers)
                }
            }

            /// Clocks that differ by hours change nothing: neither which process lives, nor how long it has been doing what.
            @Test(.timeLimit(.minutes(1)), .enabled(if: mayUnshareTime, "unshare(1) may not make time namespaces here"))
            func timeNamespaces() throws {
                try PeerFleet.runTimed { fleet, trial in
                    let observer = try fleet.spawn("observer", in: .time)
                    let here = try fleet.spawnOpen("here")
                    let later = try fleet.spawn("later", in: .time)
                    try later.call(.open(fleet.opening(later)))
                    for (holder, other) in [(here, later), (later, here)] {
                        try holder.call(.holdTransaction)
                        try other.send(.write(rows: 1))
                        try eventually("it waits") {
                            try fleet.participants().contains { $0.author == other.name && $0.waiting != nil }
                        }
                        for one in [nil, observer] {
                            let look = try Look(fleet, from: one)
                            #expect(look.names == ["here", "later"])
                            #expect(look.living.allSatisfy { $0.liveness == .alive && !$0.isInOtherPIDNamespace })
                            for participant in look.living {
                                #expect(
                                    (participant.writing ?? .zero) < .seconds(60)
                                        && (participant.waiting ?? .zero) < .seconds(60),
                                    "\(participant)"
                                )
                            }
                            #expect(look.status.writeLock?.name == holder.name)
                        }
                        try holder.call(.release(commit: true))
                        #expect(try other.reply().outcome == .done)
                    }
                    // No process has taken the place of a living one.
                    for peer in [here, later] { #expect(try peer.call(.status).message == nil) }
                    #expect(try fleet.participants().count == 2)
                    let reports = try fleet.writeAtOnce([here, later], WriteLoad(seconds: 2))
                    #expect(jainIndex(reports.map(\.commits)) >= 0.95, "\(reports.map(\.commits))")
                    try later.process.killAndReap()
                    for one in [nil, observer] {
                        try trial.expectWithinASecond("it is seen dead") {
                            try Look(fleet, from: one).names == ["here"]
                        }
                    }
                }
            }

            /// Kills the process that unshare(1) has started: where that became another user, it does not end with unshare.
            private func killInside(_ peer: Peer) throws {
                let children = try ProcessTable.contents(of: "/proc/\(peer.pid)/task/\(peer.pid)/children")
                for child in String(decoding: children, as: UTF8.self).split(separator: " ") {
                    kill(try #require(Int32(child)), SIGKILL)
                }
                try peer.process.killAndReap()
            }

            /// Other users, and users of other namespaces, see each other live and die.
            @Test(
                .timeLimit(.minutes(1)),
                .enabled(if: isSuperuser && mayUnshareUsers, "needs root, and unshare(1) of user namespaces")
            )
            func users() throws {
                try PeerFleet.runTimed { fleet, trial in
                    let observers = [
                        nil, try fleet.spawn("looks", in: .userAndPID),
                        try fleet.spawn("other", in: .pid, user: nobody),
                    ]
                    // The process that makes the files, so that all may write them.
                    let first = try fleet.spawn("first", in: .pid, user: nobody)
                    try first.call(.open(fleet.opening(first)))
                    let unmapped = try fleet.spawn("unmapped", in: .user)
                    let mapped = try fleet.spawn("mapped", in: .userAndPID)
                    for peer in [unmapped, mapped] {
                        for suffix in ["", "-wal", "-shm"] {
                            chmod(fleet.database.path + suffix, 0o666)
                        }
                        for name in try FileManager.default.contentsOfDirectory(atPath: fleet.databaseFolder.path)
                        where name.contains("-coord") {
                            chmod(fleet.databaseFolder.appendingPathComponent(name).path, 0o666)
                        }
                        try peer.call(.open(fleet.opening(peer)))
                    }
                    var living = [first, unmapped, mapped]
                    for peer in living { try peer.call(.write(rows: 1)) }
                    while !living.isEmpty {
                        for one in observers {
                            let look = try Look(fleet, from: one)
                            #expect(look.names == living.map(\.name).sorted())
                            #expect(look.living.allSatisfy { $0.liveness == .alive }, "\(look.living)")
                        }
                        try killInside(living.removeFirst())
                        for one in observers {
                            try trial.expectWithinASecond("it is seen dead") {
                                try Look(fleet, from: one).names == living.map(\.name).sorted()
                            }
                        }
                    }
                }
            }
        }
    }
#endif
