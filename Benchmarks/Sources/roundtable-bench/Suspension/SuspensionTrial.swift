#if os(Linux)
    import Foundation
    import RoundtableTestKit

    /// Puts a contestant before the police, in rounds: each has a new database, and as many processes as it takes, one after
    /// the other.
    struct SuspensionTrial {
        var task: SuspensionTask
        let police: SuspensionPolice
        /// How long the process runs between a freeze and the next notice, at most.
        var longestPause: Duration
        let folder: URL

        private static let convictionsToKeep = 10

        /// - parameter seed: of the moments.
        func run(freezes: Int, seed: UInt64, _ findings: inout SuspensionFindings) throws {
            let round = folder.appendingPathComponent(UUID().uuidString)
            try FileManager.default.createDirectory(at: round, withIntermediateDirectories: false)
            defer { try? FileManager.default.removeItem(at: round) }
            var task = task
            task.folder = round.path
            var ledger = LedgerAudit(task)
            var left = freezes
            var life: UInt64 = 0
            while left > 0 {
                let pid = try launch(task)
                try ledger.count(&findings)
                findings.starts += 1
                let report = try police.patrol(
                    pid,
                    freezes: left,
                    pauses: .zero...longestPause,
                    seed: seed &+ life,
                    onVerdict: { verdict in
                        findings.add(verdict)
                        if verdict.outcome == .convicted { keep(verdict, task, &findings) }
                    }
                )
                findings.add(report)
                left -= report.freezes
                life += 1
                if left > 0, report.convicted == 0 || police.terms.punishment == .report {
                    findings.crashes += 1
                    guard findings.crashes < 20 else {
                        throw SuspensionFailure("\(task.contestant.label) has ended by itself 20 times")
                    }
                }
                // At any moment: of the last, too, no row may be lost.
                police.terminate(pid)
            }
            try ledger.close(&findings)
            findings.add(SuspensionJournal.entries(task))
        }

        // MARK: The process

        private func launch(_ task: SuspensionTask) throws -> Int32 {
            guard let executable = Bundle.main.executablePath else {
                throw SuspensionFailure("cannot find the executable of this process, to start it again")
            }
            let json = String(decoding: try JSONEncoder().encode(task), as: UTF8.self)
            let pid = try police.launch(
                [executable, "suspension-program", json],
                // A crash is counted. Who wants to see it sets the variable.
                environment: ProcessInfo.processInfo.environment["SWIFT_BACKTRACE"] == nil
                    ? ["SWIFT_BACKTRACE": "enable=no"] : [:],
                outputToErrors: true
            )
            let deadline = Clock.now + Nanoseconds(seconds: 60)
            while !SuspensionJournal.isReady(task, pid: pid) {
                guard Clock.now < deadline, FileManager.default.fileExists(atPath: "/proc/\(pid)/exe") else {
                    police.terminate(pid)
                    throw SuspensionFailure("\(task.contestant.label) did not open its database in 60 s")
                }
                usleep(2000)
            }
            return pid
        }

        private func keep(_ verdict: Verdict, _ task: SuspensionTask, _ findings: inout SuspensionFindings) {
            let ticks = SuspensionJournal.ticks(task)
            if ticks.isStalled(verdict, notice: police.terms.notice ?? .zero) { findings.stalled += 1 }
            guard findings.convictions.count < Self.convictionsToKeep else { return }
            let answered =
                verdict.answered.map { String(format: "answered after %.1f ms", $0 / .milliseconds(1)) } ?? "no answer"
            let entries = SuspensionJournal.entries(task).suffix(6).map { entry in
                let ago = (Clock.now - entry.time).milliseconds
                return String(format: "%.1f ms before: ", ago) + "\(entry.kind) \(entry.text ?? "")"
            }
            let ran = String(
                format:
                    "since the notice, its writer ran %.1f ms and waited %.1f ms for a processor, and no other thread of it ran "
                    + "for %.1f ms; stopping took %.1f ms",
                ticks.running.milliseconds,
                ticks.waiting.milliseconds,
                ticks.longestGap(until: verdict),
                verdict.stopping / .milliseconds(1)
            )
            let text =
                "\(verdict); \(answered), \(ran), assertions \(verdict.assertions), "
                + "\(verdict.isExpired ? "expired" : "not expired"); " + entries.joined(separator: "; ")
            findings.convictions.append(text)
            if task.contestant == .ours {
                FileHandle.standardError.write(Data("convicted: \(text)\n".utf8))
            }
        }
    }
#endif
