#if os(Linux)
    import RoundtableTestBasics
    import Foundation
    import RoundtableTestSupport
    import Testing

    extension ProcessTests {
        /// GRDB before the police, as a measurement that can be repeated: what its users get, and that the police finds it.
        @Suite(.serialized) struct SuspensionOfPools {
            struct Case: CustomTestStringConvertible {
                let observes: Bool
                let milliseconds: Double
                let notice: Duration?
                /// The part of the freezes that convicts.
                let expected: ClosedRange<Double>

                var testDescription: String {
                    "\(observes ? "with" : "without") suspension notifications, closure of \(milliseconds) ms, "
                        + "notice \(notice.map { "\($0)" } ?? "none")"
                }
            }

            private static let notice = Duration.milliseconds(50)

            /// The bounds are wide: how often a writer without a pause is within a transaction depends on the machine. That
            /// there is not one conviction does not, unless the machine prevents the writer from running until the notice is over.
            static let cases = [
                Case(observes: false, milliseconds: 0, notice: notice, expected: 0.2...1),
                Case(observes: false, milliseconds: 5, notice: notice, expected: 0.6...1),
                Case(observes: false, milliseconds: 200, notice: notice, expected: 0.8...1),
                Case(observes: true, milliseconds: 0, notice: notice, expected: 0...0),
                Case(observes: true, milliseconds: 5, notice: notice, expected: 0...0),
                Case(observes: true, milliseconds: 200, notice: notice, expected: 0.5...1),
                Case(observes: true, milliseconds: 5, notice: nil, expected: 0.6...1),
            ]

            /// A pool that writes without a pause, frozen at random moments. No acknowledged row is lost in any case.
            @Test(.long(), .timeLimit(.minutes(2)), arguments: cases) func writer(_ test: Case) throws {
                let random = SeededGenerator(for: "writer(\(test.testDescription))")
                var terms = SuspensionTerms.reporting()
                terms.notice = test.notice
                try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                    try withPolice(terms) { police in
                        let peer = try fleet.spawn("writer", environment: police.environment)
                        let options = PeerOptions(observesSuspension: test.observes)
                        try peer.call(.openPool(fleet.opening(peer, options: options)))
                        try peer.send(.writeLoop(WriteLoad(seconds: 300, transaction: test.milliseconds)))
                        try eventually("the writer has begun") { peer.acknowledged > 0 }
                        let report = try police.patrol(
                            peer.pid,
                            freezes: isLongRun ? 200 : 40,
                            pauses: .zero...(.milliseconds(20)),
                            seed: random.seed
                        )
                        print("GRDB \(test.testDescription): \(report)")
                        let part = Double(report.convicted) / Double(report.freezes)
                        if test.expected.upperBound == 0, let notice = test.notice {
                            report.expectTimelyRelease(after: .milliseconds(test.milliseconds), notice, in: trial)
                        } else {
                            #expect(test.expected.contains(part), "\(report)")
                        }
                        #expect(report.convicted == report.convictedByRule["walWriter"] ?? 0)
                        #expect(report.notified == (test.observes && test.notice != nil ? report.freezes : 0))
                        _ = try peer.stopLoop()
                        try Ledger(of: fleet.database).expectEverything(acknowledgedBy: [peer], dead: [peer])
                    }
                }
            }
        }
    }
#endif
