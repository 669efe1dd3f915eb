#if os(Linux)
    import RoundtableTestBasics
    import Foundation
    import Roundtable
    import RoundtableTestSupport
    import Testing

    extension ProcessTests {
        /// A program that shares by snapshot files and the outbox alone holds nothing that a system could kill it for, at no moment, and needs
        /// no notice.
        @Suite(.serialized) struct SharingUnderPolice {
            @Test(.timeLimit(.minutes(5))) func noProcessIsConvicted() throws {
                let random = SeededGenerator()
                try PeerFleet.run { fleet in
                    try withPolice(.reporting(.strict)) { police in
                        let snapshot = fleet.folder.appendingPathComponent("published").path
                        let owner = try fleet.spawn("owner")
                        try owner.call(.ownOutbox(path: fleet.database.path, publishingTo: snapshot))
                        let program = try fleet.spawn("widget", environment: police.environment)
                        let progress = fleet.folder.appendingPathComponent("progress").path
                        let load = SharingLoad(
                            path: fleet.database.path,
                            sender: 1,
                            progress: progress,
                            snapshot: snapshot,
                            own: fleet.folder.appendingPathComponent("own").path
                        )
                        try program.send(.share(load))
                        try eventually("the program submits") { ProgressFile.count(at: progress) > 5 }
                        let freezes = isLongRun ? 2000 : 20
                        let report = try police.patrol(
                            program.pid,
                            freezes: freezes,
                            pauses: .zero...(.milliseconds(20)),
                            seed: random.seed
                        )
                        #expect(report.freezes == freezes && report.convictions.isEmpty, "\(report)")
                        try program.send(.stop)
                        let sharing = try #require(try program.reply(within: .seconds(60)).sharing)
                        print("\(report): \(sharing)")
                        #expect(sharing.problems.isEmpty)
                        #expect(sharing.outcomes > 0 && sharing.reads > 0 && sharing.writes > 0 && sharing.values > 0)
                        #expect(sharing.submitted == ProgressFile.count(at: progress))
                        try eventually("everything is applied", within: .seconds(60)) {
                            try CommandOutbox.contents(forDatabaseAt: fleet.database).waiting.isEmpty
                        }
                        owner.process.end()
                        try fleet.expectOnceInOrder(sender: 1, through: sharing.submitted)
                        try fleet.expectNothingSetAside()
                    }
                }
            }

            /// What happens to an outbox with a lock file.
            @Test(.timeLimit(.minutes(1)), .enabled(if: Program.python != nil, "python3 is not installed"))
            func aLockInTheOutboxIsConvicted() throws {
                try PeerFleet.run { fleet in
                    let outbox = try CommandOutbox(forDatabaseAt: fleet.database, as: "widget")
                    try outbox.submit(PeerCommandEntry(sender: 1, n: 1))
                    try withPolice(.reporting(.strict)) { police in
                        let program = try PythonProgram(fleet, environment: police.environment)
                        let path = try #require(try CommandOutbox.contents(forDatabaseAt: fleet.database).waiting.first)
                            .path
                        try program.run("import fcntl; f = open('\(path)')")
                        #expect(try police.freeze(program.pid).outcome == .released)
                        try program.run("fcntl.flock(f, fcntl.LOCK_SH)")
                        #expect(try police.freeze(program.pid).convictions.map(\.rule) == [.lockedFile])
                    }
                }
            }
        }
    }
#endif
