#if os(Linux)
    import Foundation
    import Glibc
    import Roundtable
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    extension Program {
        /// The tool, beside the test program.
        static func roundtable() throws -> URL {
            let program = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            let tool = URL(fileURLWithPath: program).deletingLastPathComponent().appendingPathComponent("roundtable")
            try #require(FileManager.default.isExecutableFile(atPath: tool.path), "build the product roundtable first")
            return tool
        }
    }

    /// How many rows a long write inserts.
    enum LongWriteCount: String {
        /// It does not end by itself.
        case endless = ""
        /// It does not end before `PeerFleet.setCount`: no machine is so fast that the first run ends before it is interrupted.
        case setLater = " LIMIT (SELECT max(n) FROM longWriteCount)"
    }

    extension PeerFleet {
        func spawnTool(_ arguments: String...) throws -> ChildProcess {
            try spawn(program: Program.roundtable(), arguments: arguments)
        }

        /// The tool, that inserts numbers in one transaction; returns when it is inside.
        func spawnLongWrite(of count: LongWriteCount = .endless) throws -> ChildProcess {
            let tool = try spawnTool("sql", database.path, Self.longWrite(of: count), "--as", "tool", "--timeout", "60")
            try waitForWriting("tool", tool)
            return tool
        }

        static func longWrite(of count: LongWriteCount) -> String {
            let limit = count.rawValue
            return """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n\(limit)) INSERT INTO big SELECT i FROM n
                """
        }

        /// The table of long writes, and the number of rows, which is negative until it is set: SQLite then has no limit.
        func makeBigTable(_ peer: Peer) throws {
            let sql = "CREATE TABLE big(x); CREATE TABLE longWriteCount(n); INSERT INTO longWriteCount VALUES (-1)"
            try peer.call(.execute(sql: sql))
        }

        static func setCount(_ count: Int) -> String { "INSERT INTO longWriteCount VALUES (\(count))" }

        func participant(_ author: String) -> ParticipantRecord? {
            (try? participants())?.first { $0.author == author && $0.liveness != .dead }
        }

        func waitForWriting(_ author: String, _ process: ChildProcess) throws {
            try eventually("'\(author)' has the write lock", within: .seconds(30)) {
                guard process.isRunning else { throw TestKitError("it has ended: \(process.errorText)") }
                return try DatabaseStatus(ofDatabaseAt: self.database).writeLock?.name == author
            }
        }
    }

    extension ChildProcess {
        var isStopped: Bool { ProcessTable.entry(pid)?.isStopped == true }

        /// The signal that stopped it, as a shell sees it; nil when it is not stopped, or that was asked for already.
        var stopSignal: Int32? {
            var info = siginfo_t()
            guard waitid(P_PID, id_t(pid), &info, WSTOPPED | WNOHANG) == 0, info.si_signo == SIGCHLD else { return nil }
            return info._sifields._sigchld.si_status
        }

        func catches(_ number: Int32) -> Bool {
            let bytes = (try? ProcessTable.contents(of: "/proc/\(pid)/status")) ?? []
            let line = String(decoding: bytes, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix("SigCgt:") }
            let mask = line?.split(whereSeparator: \.isWhitespace).last.flatMap { UInt64($0, radix: 16) }
            return (mask ?? 0) & (1 << UInt64(number - 1)) != 0
        }

        /// Sends a stop signal, and returns when the process is stopped by it.
        func stopByTerminal(_ number: Int32 = SIGTSTP) throws {
            signal(number)
            try waitForStop(by: number)
        }

        func waitForStop(by number: Int32) throws {
            var found: Int32?
            try eventually("process \(pid) is stopped") {
                found = self.stopSignal
                return found != nil
            }
            #expect(found == number)
            #expect(isStopped)
        }
    }

    extension Duration {
        var milliseconds: Double { self / .milliseconds(1) }
    }
#endif
