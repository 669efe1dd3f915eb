import Foundation
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
    /// Single bits of the control block are flipped while four processes write: no error, no crash, no hang, no lost row (rules G1–G3, L2, L3).
    ///
    /// Each bit stays as it is flipped, unless a participant writes its word. The next bit is flipped when commits were made since.
    @Suite struct ControlBlockBits {
        enum Bits: String, CaseIterable, CustomTestStringConvertible {
            /// Every bit of the header, in order: a sample of them, with an own offset for each seed, unless the run is long.
            case header
            /// Random bits of the whole file.
            case anywhere
            var testDescription: String { rawValue }

            func bits(using random: inout SeededGenerator) -> [Int] {
                switch self {
                case .header:
                    let step = isLongRun ? 1 : 101
                    let offset = Int.random(in: 0..<step, using: &random)
                    return Array(stride(from: offset, to: Layout.headerSize * 8, by: step))
                case .anywhere:
                    let count = isLongRun ? 10_000 : 300
                    return (0..<count).map { _ in .random(in: 0..<Layout.fileSize * 8, using: &random) }
                }
            }
        }

        @Test(.timeLimit(.minutes(isLongRun ? 60 : 2)), arguments: Bits.allCases)
        func flippedWhileFourWrite(bits: Bits) throws {
            var random = SeededGenerator()
            let bits = bits.bits(using: &random)
            try PeerFleet.runTimed { fleet, trial in
                let peers = try fleet.spawnOpen(4)
                for peer in peers { try peer.send(.writeLoop(WriteLoad(seconds: 7200))) }
                try fleet.waitForProgress(of: peers, commits: 5)
                var flipped = 0, blocks: Set<FileIdentity> = []
                for (number, bit) in bits.enumerated() {
                    if let identity = try flip(bit, of: fleet.controlBlock.path) {
                        flipped += 1
                        blocks.insert(identity)
                    }
                    try waitForCommits(of: peers, after: bit)
                    // A participant that never writes again would be missed by the sum.
                    if number % 100 == 99 { try fleet.waitForProgress(of: peers, commits: 1) }
                }
                try fleet.waitForProgress(of: peers, commits: 20)
                let reports = try peers.map { try $0.stopLoop() }
                print(
                    """
                    control block: flipped \(flipped) of \(bits.count) bits in \(blocks.count) files, \(reports.map(\.commits).reduce(0, +)) commits, \
                    longest waits \(reports.map(\.longestWait)) ms
                    """
                )
                for (peer, report) in zip(peers, reports) {
                    report.expectNoErrors(peer)
                    trial.expect("longest wait", report.longestWait, atMost: 1500)
                }
                // A bit is not flipped while there is no file: at most while a damaged one is replaced.
                #expect(flipped * 10 > bits.count * 9, "only \(flipped) of \(bits.count) bits were flipped")
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: peers)
            }
        }

        /// Waits for four commits, by any of the writers.
        private func waitForCommits(of peers: [Peer], after bit: Int) throws {
            let goal = peers.reduce(0) { $0 + $1.acknowledged } + 4
            try eventually("commits after bit \(bit) was flipped", within: .seconds(10)) {
                for peer in peers where !peer.process.isRunning {
                    throw TestKitError("\(peer) ended after bit \(bit): \(peer.process.errorText)")
                }
                return peers.reduce(0) { $0 + $1.acknowledged } >= goal
            }
        }

        /// - returns: the file; nil when there is none at this moment, because a damaged one is being replaced.
        private func flip(_ bit: Int, of path: String) throws -> FileIdentity? {
            let descriptor = open(path, O_RDWR | O_CLOEXEC)
            if descriptor == -1, errno == ENOENT { return nil }
            guard descriptor >= 0 else { throw TestKitError("open \(path): errno \(errno)") }
            defer { close(descriptor) }
            var byte: UInt8 = 0
            guard pread(descriptor, &byte, 1, off_t(bit / 8)) == 1 else { throw TestKitError("pread: errno \(errno)") }
            byte ^= 1 << UInt8(bit % 8)
            guard pwrite(descriptor, &byte, 1, off_t(bit / 8)) == 1 else {
                throw TestKitError("pwrite: errno \(errno)")
            }
            var status = stat()
            guard fstat(descriptor, &status) == 0 else { throw TestKitError("fstat: errno \(errno)") }
            return FileIdentity(status)
        }
    }
}
