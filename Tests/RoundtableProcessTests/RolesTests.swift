import Foundation
import Roundtable
import RoundtableKernel
import RoundtableTestBasics
import RoundtableTestSupport
import Testing

extension ProcessTests {
    @Suite struct RolesBetweenProcesses {
        enum End: String, CaseIterable, CustomTestStringConvertible {
            case ended, closed, killed, stopped
            var testDescription: String { rawValue }
        }

        private static let patience = 1_000

        /// Starts to wait, and returns when others see it.
        private func wait(_ peer: Peer, in fleet: PeerFleet) throws {
            try peer.send(.role(.acquire(patience: Self.patience)))
            try eventually("the claim is there") {
                try DatabaseStatus(ofDatabaseAt: fleet.database).roles?.first?.waiting.isEmpty == false
            }
        }

        /// A process that waits has the role at once when the holder ends its term or closes the database, 100 ms after its death, and within
        /// its own patience when the holder is frozen (rules P19, P21).
        @Test(.timeLimit(.minutes(1)), arguments: End.allCases) func handOver(_ end: End) throws {
            try PeerFleet.runTimed(inMemory: true) { fleet, trial in
                let (holder, next) = (try fleet.spawnOpen("holder"), try fleet.spawnOpen("next"))
                #expect(try holder.call(.role(.acquire(patience: Self.patience))).number == 1)
                try holder.call(.role(.write))
                try wait(next, in: fleet)
                let began = ContinuousClock.now
                switch end {
                case .ended: try holder.call(.role(.end))
                case .closed: try holder.call(.close)
                case .killed: try holder.process.killAndReap()
                case .stopped: try holder.process.stop()
                }
                #expect(try next.reply().number == 2)
                let time = (ContinuousClock.now - began) / .milliseconds(1)
                print("the holder was \(end): the next one had the role after \(time) ms")
                let limit: Double =
                    switch end {
                    case .ended, .closed: 50
                    case .killed: 100
                    case .stopped: Double(Self.patience)
                    }
                trial.expect("the change of hands", time, atMost: limit)
                try next.call(.role(.write))
                if end == .stopped {
                    holder.process.resume()
                    let reply = try holder.attempt(.role(.write))
                    #expect(
                        reply.outcome == .failed && reply.message?.contains("does not have the role 'sync'") == true
                    )
                    // It is not wrong with anything else.
                    try holder.call(.write(rows: 1))
                }
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: fleet.peers)
            }
        }

        /// A holder that answers keeps the role, however often it is asked, and although it does nothing.
        @Test(.timeLimit(.minutes(1))) func aHolderThatDoesNothing() throws {
            try PeerFleet.run { fleet in
                let (holder, next) = (try fleet.spawnOpen("holder"), try fleet.spawnOpen("next"))
                try holder.call(.role(.acquire(patience: Self.patience)))
                try next.send(.role(.acquire(patience: 300)))
                let block = try ControlBlock.open(forDatabaseAt: fleet.database.path, writable: false)
                try eventually("it was asked ten times") { block.lastQuestion >= 10 }
                try holder.call(.role(.write))
                try holder.call(.role(.end))
                #expect(try next.reply().number == 2)
            }
        }

        #if os(Linux)
            /// A holder that is suspended with notice loses the role at once if another process wants it: it must not keep it through a freeze.
            @Test(.timeLimit(.minutes(1)), arguments: [SuspensionPolicy.writeLocks, .everything])
            func aSuspendedHolder(policy: SuspensionPolicy) throws {
                try PeerFleet.run { fleet in
                    try withPolice(.reporting()) { police in
                        let holder = try fleet.spawn("holder", environment: police.environment)
                        try holder.call(.open(fleet.opening(holder, options: PeerOptions(suspensionPolicy: policy))))
                        let next = try fleet.spawnOpen("next")
                        try holder.call(.role(.acquire(patience: Self.patience)))
                        try wait(next, in: fleet)
                        // The next one has it before the freeze is over.
                        let verdict = try police.freeze(holder.pid, for: .seconds(2))
                        #expect(verdict.outcome == .released, "\(verdict)")
                        #expect(try next.reply(within: .milliseconds(10)).number == 2)
                        let reply = try holder.attempt(.role(.write))
                        #expect(reply.outcome == .failed && reply.message?.contains("does not have the role") == true)
                    }
                }
            }
        #endif
    }
}
