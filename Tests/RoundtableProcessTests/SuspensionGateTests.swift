#if os(Linux)
    import RoundtableTestBasics
    import Foundation
    import Roundtable
    import RoundtableTestSupport
    import Testing

    extension ProcessTests {
        /// Our databases before the police: the same writers as in `SuspensionOfPools`. With longer notices: on a busy machine, a process
        /// may not run for 50 ms, whatever it does.
        @Suite(.serialized) struct SuspensionOfSharedDatabases {
            struct Terms: CustomTestStringConvertible {
                let law: SuspensionLaw
                let policy: SuspensionPolicy
                var testDescription: String {
                    "law \(law == .strict ? "strict" : "documented"), policy \(policy.rawValue)"
                }

                static let all = [
                    Terms(law: .documented, policy: .writeLocks),
                    Terms(law: .strict, policy: .everything),
                ]
            }

            /// - parameter test: gets the report of the police, what the writer saw, and the trial.
            private func judge(
                _ terms: Terms,
                _ load: WriteLoad,
                freezes: Int,
                notice: Duration = .milliseconds(200),
                assertions: Bool = false,
                name: String,
                _ test: (PoliceReport, WriteReport, TimedTrial) throws -> Void
            ) throws {
                let random = SeededGenerator(for: "\(name)(\(terms.testDescription))")
                var suspension = SuspensionTerms.reporting(terms.law)
                suspension.notice = notice
                suspension.assertionTime = assertions ? .seconds(30) : .zero
                try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                    try withPolice(suspension) { police in
                        let peer = try fleet.spawn("writer", environment: police.environment)
                        let options = PeerOptions(suspensionPolicy: terms.policy, takesAssertions: assertions)
                        try peer.call(.open(fleet.opening(peer, options: options)))
                        try peer.call(.write(rows: 1))
                        try peer.send(.writeLoop(load))
                        let longest = max(20, 2 * load.transactionMilliseconds)
                        let report = try police.patrol(
                            peer.pid,
                            freezes: freezes,
                            pauses: .zero...(.milliseconds(longest)),
                            seed: random.seed
                        )
                        print("\(name), \(terms.testDescription): \(report)")
                        #expect(report.freezes == freezes && report.notified == freezes, "\(report)")
                        #expect(report.answered + report.convicted >= freezes, "\(report.answered) answers")
                        try test(report, try peer.stopLoop(), trial)
                        try Ledger(of: fleet.database).expectEverything(acknowledgedBy: [peer])
                    }
                }
            }

            /// A process that connects while it is about to be frozen hears of it, and answers; it opens its database after it.
            @Test(.timeLimit(.minutes(1))) func connectsDuringTheNotice() throws {
                var terms = SuspensionTerms.reporting()
                terms.notice = .seconds(2)
                try PeerFleet.run { fleet in
                    try withPolice(terms) { police in
                        let peer = try fleet.spawn("writer", environment: police.environment)
                        let options = PeerOptions(suspensionPolicy: .writeLocks, takesAssertions: false)
                        try peer.send(.open(fleet.opening(peer, options: options)))
                        let verdict = try police.freeze(peer.pid)
                        #expect(verdict.outcome == .released && verdict.notified == 1, "\(verdict)")
                        #expect(verdict.answered != nil)
                        _ = try peer.reply()
                        try peer.call(.write(rows: 1))
                    }
                }
            }

            /// Short transactions: none is convicted, none fails, and those that find the gate closed wait.
            @Test(.long(), .timeLimit(.minutes(2)), arguments: Terms.all) func shortTransactions(_ terms: Terms) throws
            {
                let load = WriteLoad(seconds: 300)
                try judge(terms, load, freezes: isLongRun ? 1000 : 30, name: "shortTransactions") {
                    report,
                    written,
                    trial in
                    report.expectTimelyRelease(.milliseconds(200), in: trial)
                    #expect(written.errorCount == 0, "\(written.errors)")
                    #expect(written.commits > 0)
                }
            }

            /// Transactions that do not end within the notice are rolled back, and the writer gets the error. It has 100 ms for that, which a machine
            /// may spend on other processes, so some convictions are the machine's. Without the gate, all would be convicted.
            @Test(.long(), .timeLimit(.minutes(2)), arguments: Terms.all) func longTransactions(_ terms: Terms) throws {
                let load = WriteLoad(seconds: 300, rows: nil)
                try judge(
                    terms,
                    load,
                    freezes: isLongRun ? 200 : 6,
                    notice: .milliseconds(600),
                    name: "longTransactions"
                ) { report, written, _ in
                    #expect(report.convicted <= report.freezes / 2, "\(report)")
                    #expect(written.errorCount > 0)
                    #expect(
                        written.errors.allSatisfy { $0.contains("rolled back, because the database was suspended") }
                    )
                }
            }

            /// A process that is frozen without notice, at random moments, and whose assertions are refused and taken back at random: it holds
            /// no lock then (rule F5b), and loses no write.
            @Test(.long(), .timeLimit(.minutes(isLongRun ? 60 : 2))) func withoutNotices() throws {
                let freezes =
                    Int(ProcessInfo.processInfo.environment["ROUNDTABLE_FREEZES"] ?? "") ?? (isLongRun ? 2000 : 40)
                let random = SeededGenerator(for: "withoutNotices")
                var terms = SuspensionTerms.reporting()
                (terms.refusedShare, terms.refusalSeed) = (0.3, random.seed)
                (terms.assertionTime, terms.expiryNotice) = (.milliseconds(500), .milliseconds(300))
                try PeerFleet.run(inMemory: true) { fleet in
                    try withPolice(terms) { police in
                        let peer = try fleet.spawn("widget", environment: police.environment)
                        let options = PeerOptions(
                            suspensionPolicy: .writeLocks,
                            takesAssertions: true,
                            isUnnoticed: true,
                            checkpointing: .automatic(threshold: 50)
                        )
                        try peer.call(.open(fleet.opening(peer, options: options)))
                        // Each write requests an assertion, because the last one has ended meanwhile.
                        try peer.send(.writeLoop(WriteLoad(seconds: 3600, think: 120, transaction: 40)))
                        let report = try police.patrol(
                            peer.pid,
                            freezes: freezes,
                            pauses: .zero...(.milliseconds(400)),
                            seed: random.seed
                        )
                        let written = try peer.stopLoop()
                        print(
                            "withoutNotices: \(report); \(report.postponed) put off, \(report.expired) expired, \(police.refusals) refusals, \(written.commits) commits"
                        )
                        #expect(report.freezes == freezes && report.convicted == 0, "\(report)")
                        #expect(report.notified == 0 && report.postponed > 0 && police.refusals > 0)
                        #expect(written.commits > 0 && written.errorCount == 0, "\(written.errors)")
                        try Ledger(of: fleet.database).expectEverything(acknowledgedBy: [peer])
                    }
                }
            }

            /// Closures that compute, and assertions: none is convicted, and all finish.
            @Test(.long(), .timeLimit(.minutes(2)), arguments: Terms.all) func assertions(_ terms: Terms) throws {
                let load = WriteLoad(seconds: 300, transaction: 200)
                try judge(
                    terms,
                    load,
                    freezes: isLongRun ? 200 : 8,
                    notice: .milliseconds(50),
                    assertions: true,
                    name: "assertions"
                ) {
                    report,
                    written,
                    _ in
                    #expect(report.convicted == 0, "\(report)")
                    #expect(report.postponed > 0, "\(report)")
                    #expect(written.errorCount == 0, "\(written.errors)")
                }
            }
        }
    }
#endif
