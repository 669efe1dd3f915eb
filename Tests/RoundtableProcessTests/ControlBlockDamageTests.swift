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
    /// The control block is advice: whatever becomes of it, no row is lost, and no process fails, hangs or crashes
    /// (rules G1–G3, L1–L5; DESIGN rule 1).
    @Suite struct ControlBlockDamage {
        enum Damage: String, CaseIterable, CustomTestStringConvertible {
            case deleted, emptied, halved, randomBytes, randomBytesBehindSeal, randomTurns
            case otherVersion, otherVersionInPlace, readOnly, replacedByFolder
            var testDescription: String { rawValue }

            /// Damage that the participants undo: they use one control block again without help.
            var isRepaired: Bool {
                switch self {
                case .deleted, .emptied, .halved, .randomBytes, .randomBytesBehindSeal, .randomTurns, .readOnly: true
                case .otherVersion, .otherVersionInPlace: true
                case .replacedByFolder: false
                }
            }

            /// What the participants say meanwhile.
            var reason: String? {
                switch self {
                case .replacedByFolder: "open"
                default: nil
                }
            }
        }

        @Test(.long(), .timeLimit(.minutes(1)), arguments: Damage.allCases)
        func whileFourWrite(damage: Damage) throws {
            var random = SeededGenerator()
            try PeerFleet.runTimed { fleet, trial in
                var peers = try fleet.spawnOpen(4)
                for peer in peers { try peer.send(.writeLoop(WriteLoad(seconds: 60))) }
                for _ in 0..<(isLongRun ? 20 : 4) {
                    try fleet.waitForProgress(of: peers, commits: 20)
                    usleep(.random(in: 0...20_000, using: &random))
                    try inflict(damage, on: fleet.controlBlock.path, using: &random)
                }
                try fleet.waitForProgress(of: peers, commits: 50)
                if damage == .halved {
                    // A process in the half that is left misses nothing. A new one does, and makes a new block.
                    peers.append(try fleet.spawnOpen("newcomer"))
                    try peers[4].send(.writeLoop(WriteLoad(seconds: 60)))
                }
                if damage.isRepaired { try expectOneControlBlock(of: peers, in: fleet) }
                let reports = try peers.map { try $0.stopLoop() }
                for (peer, report) in zip(peers, reports) { report.expectNoErrors(peer) }
                print("control block \(damage): longest waits \(reports.map(\.longestWait)) ms")
                // Each damage may cost some patience and a time to rejoin, and not a time-out.
                for report in reports { trial.expect("longest wait", report.longestWait, atMost: 1500) }

                if let reason = damage.reason {
                    // Rule L4: they look at most 4 times a second, when they write.
                    for peer in peers {
                        try eventually("\(peer) says '\(reason)'") {
                            try peer.call(.write(rows: 1))
                            return try peer.call(.status).message?.contains(reason) == true
                        }
                    }
                    // Once the folder is removed, they use one control block again.
                    try remove(fleet.controlBlock.path)
                    for peer in peers { try peer.send(.writeLoop(WriteLoad(seconds: 60))) }
                    try expectOneControlBlock(of: peers, in: fleet)
                    for peer in peers { try peer.stopLoop().expectNoErrors(peer) }
                }
                for peer in peers { #expect(try peer.call(.status).message == nil) }
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: peers)
            }
        }

        /// Waits until all writers are at the control block that is there now.
        private func expectOneControlBlock(of peers: [Peer], in fleet: PeerFleet) throws {
            try eventually("all use one control block") {
                let pids = ((try? fleet.participants()) ?? []).filter { $0.liveness != .dead }.map(\.pid)
                return Set(pids) == Set(peers.map(\.pid))
            }
        }

        private func remove(_ path: String) throws {
            if unlink(path) == -1, rmdir(path) == -1 { throw TestKitError("cannot remove \(path): errno \(errno)") }
        }

        func inflict(_ damage: Damage, on path: String, using random: inout SeededGenerator) throws {
            switch damage {
            case .deleted:
                // The file may have been removed before: not all processes have returned by then.
                unlink(path)
            case .emptied:
                truncate(path, 0)
            case .halved:
                truncate(path, off_t(Layout.fileSize / 2))
            case .randomBytes:
                try overwrite(path, with: random.bytes(Layout.fileSize), at: 0)
            case .randomBytesBehindSeal:
                try overwrite(path, with: random.bytes(Layout.fileSize - 128), at: 128)
            case .randomTurns:
                try overwriteTurns(path, using: &random)
            case .otherVersion:
                var bytes = [UInt8](repeating: 0, count: Layout.fileSize)
                withUnsafeBytes(of: Layout.magic.littleEndian) { bytes.replaceSubrange(0..<8, with: $0) }
                bytes[8] = 99
                try Data(bytes).write(to: URL(fileURLWithPath: path), options: .atomic)
            case .otherVersionInPlace:
                try overwrite(path, with: [99], at: 8)
            case .readOnly:
                chmod(path, 0o444)
            case .replacedByFolder:
                unlink(path)
                mkdir(path, 0o755)
            }
        }

        /// Puts turn words in place whose phases exist, and whose slots often do not; all participants seem to wait.
        private func overwriteTurns(_ path: String, using random: inout SeededGenerator) throws {
            for _ in 0..<20 {
                let slot = [1, 2, 64, Layout.slotCount, Layout.slotCount + 1, 0xFFFF].randomElement(using: &random)!
                let words: [UInt64] = [
                    .random(in: 0...0xFFFF_FFFF, using: &random) << 32 | UInt64(slot) << 16
                        | .random(in: 0...4, using: &random)
                ]
                try overwrite(path, with: words.withUnsafeBytes { Array($0) }, at: 128)
                try overwrite(path, with: [UInt8](repeating: 0xFF, count: Layout.slotCount / 8), at: 384)
                usleep(.random(in: 0...2000, using: &random))
            }
        }

        private func overwrite(_ path: String, with bytes: [UInt8], at offset: Int) throws {
            let descriptor = open(path, O_WRONLY | O_CLOEXEC)
            // Damaged before, and not replaced yet.
            if descriptor == -1, errno == ENOENT { return }
            guard descriptor >= 0 else { throw TestKitError("open \(path): errno \(errno)") }
            defer { close(descriptor) }
            _ = bytes.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, off_t(offset)) }
        }

        /// A process that may not open the control block writes without it, beside those that have it, and says why (rule L5).
        @Test(.timeLimit(.minutes(1)))
        func unopenable() throws {
            try PeerFleet.run { fleet in
                let seated = try fleet.spawnOpen(2)
                let standing = try fleet.spawn(2)
                for peer in standing {
                    try peer.call(.inject([Fault(.open, errno: EACCES)]))
                    try peer.call(.open(fleet.opening(peer)))
                    let reason = try peer.call(.status).message
                    #expect(reason?.contains("Permission denied") == true, "\(reason ?? "coordinated")")
                }
                let peers = seated + standing
                for (peer, report) in zip(peers, try fleet.writeAtOnce(peers, WriteLoad(seconds: 2))) {
                    report.expectNoErrors(peer)
                }
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: peers)
            }
        }

        /// A real user may write the database, and not the control block (rule L5).
        @Test(
            .timeLimit(.minutes(1)),
            .enabled(if: isSuperuser, "only the superuser can start a process as another user")
        )
        func anotherUsersControlBlock() throws {
            try PeerFleet.run { fleet in
                let owner = try fleet.spawnOpen("owner")
                for suffix in ["", "-wal", "-shm"] { chmod(fleet.database.path + suffix, 0o666) }
                chmod(fleet.controlBlock.path, 0o644)
                let other = try fleet.spawn("other", user: nobody)
                try other.call(.open(fleet.opening(other)))
                #expect(try other.call(.status).message?.contains("Permission denied") == true)
                let peers = [owner, other]
                for (peer, report) in zip(peers, try fleet.writeAtOnce(peers, WriteLoad(seconds: 2))) {
                    report.expectNoErrors(peer)
                }
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: peers)
            }
        }

        /// A full disk does not prevent a process from opening an existing database, nor does any other failure of the calls
        /// that make the control block (rules B1, L5).
        @Test(.timeLimit(.minutes(1)), arguments: [SystemCall.open, .write, .link, .mmap, .fstat, .chmod, .unlink])
        func systemCallsFail(call: SystemCall) throws {
            try PeerFleet.run { fleet in
                let first = try fleet.spawnOpen("first")
                try first.call(.write(rows: 1))
                try first.call(.close)
                for attempt in 0..<4 {
                    unlink(fleet.controlBlock.path)
                    let peer = try fleet.spawn()
                    // The Nth call, and all later ones.
                    try peer.call(.inject([Fault(call, errno: ENOSPC, skipping: attempt)]))
                    try peer.call(.open(fleet.opening(peer)))
                    try peer.call(.write(rows: 1))
                    try peer.call(.close)
                }
                try Ledger(of: fleet.database).expectEverything(acknowledgedBy: fleet.peers)
            }
        }
    }
}
