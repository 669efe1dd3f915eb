#if os(Linux)
    import Foundation
    import Glibc
    import RoundtableKernel

    /// Suspends real processes as iOS does, and looks at the locks that they hold meanwhile: the judge of 0xDEAD10CC, from outside,
    /// on Linux.
    ///
    /// ```swift
    /// let police = try SuspensionPolice()
    /// defer { police.end() }
    /// let pid = try police.launch(["./my-daemon", "app.db"])
    /// let report = try police.patrol(pid, freezes: 200)
    /// #expect(report.convictions.isEmpty, "\(report)")
    /// ```
    ///
    /// One thread at a time. It changes nothing of the files that it looks at, takes no lock, and drops none of the calling
    /// process's, which may have the same database open.
    public final class SuspensionPolice {
        public var terms: SuspensionTerms
        let desk: SuspensionDesk
        var launched: [Int32: LaunchedProcess] = [:]
        private var frozen: Set<ProcessTree.Member> = []
        private var hasEnded = false

        public init(_ terms: SuspensionTerms = SuspensionTerms()) throws {
            self.terms = terms
            desk = try SuspensionDesk(grantsAssertions: terms.assertionTime > .zero)
        }

        deinit { end() }

        /// What a process needs in its environment so that it can connect. Those that ``launch(_:environment:)`` starts have it.
        public var environment: [String: String] { [AbstractSocket.environmentName: desk.name] }

        /// Ends what it has launched, descendants included; continues whatever else it keeps frozen.
        public func end() {
            guard !hasEnded else { return }
            hasEnded = true
            for process in launched.values { process.end() }
            thaw()
            desk.end()
        }

        // MARK: Suspending

        /// Suspends a process with its descendants, looks at their locks, and lets go those that held none they must not.
        ///
        /// 1. Notice, by message to those that are connected, by signal to others that handle it.
        /// 2. The time of the notice passes. Who connects meanwhile is told at once, with the time that is left.
        /// 3. While one of them holds an assertion, nothing happens, until the assertions' time is up.
        /// 4. SIGSTOP, until no thread runs. Whoever has begun an assertion before it stopped goes back to 3.
        /// 5. The law is applied. A convicted process is killed, unless the terms say otherwise.
        /// 6. After `duration`, SIGCONT and the message that it was resumed.
        ///
        /// - throws: `SuspensionPoliceError` when the process cannot be stopped or looked at; it goes on.
        @discardableResult
        public func freeze(_ pid: Int32, for duration: Duration = .zero) throws -> Verdict {
            let began = ContinuousClock.now
            var verdict = Verdict()
            desk.catchUp()
            desk.forget(ProcessTree(root: pid).pids)
            var told = Told()
            giveNotice(pid, left: terms.notice ?? .zero, &told)
            giveSignal(pid, &told)
            defer { resume(pid) }
            let noticeEnd = began + (terms.notice ?? .zero)
            wait(until: noticeEnd) {
                giveNotice(pid, left: noticeEnd - .now, &told)
                // One that has just been continued may not have put its handler back before.
                giveSignal(pid, &told)
                return Self.isDone(pid)
            }

            var tree = ProcessTree(root: pid)
            while true {
                waitForAssertions(pid, since: began, &told, &verdict)
                let stopBegan = ContinuousClock.now
                verdict.frozen = (stopBegan - began) / .seconds(1)
                tree = try stop(pid)
                verdict.stopping = (ContinuousClock.now - stopBegan) / .seconds(1)
                // What it has sent before it stopped, it has done.
                desk.catchUp()
                if verdict.isExpired || desk.assertions(of: tree.pids).isEmpty { break }
                thaw()
            }
            verdict.notified = told.count
            verdict.processes = tree.members.count
            verdict.answered = desk.answered(tree.pids).map { ($0 - began) / .seconds(1) }
            guard !tree.members.isEmpty else { return verdict }

            let examinationBegan = ContinuousClock.now
            verdict.convictions = try tree.members.flatMap(examine)
            verdict.examining = (ContinuousClock.now - examinationBegan) / .seconds(1)
            try checkJudgeable(told.bySignal, convicted: Set(verdict.convictions.map(\.pid)))
            verdict.outcome = verdict.convictions.isEmpty ? .released : .convicted
            if terms.punishment == .kill {
                let convicted = Set(verdict.convictions.map(\.pid))
                for member in tree.members where convicted.contains(member.pid) { member.signal(SIGKILL) }
                for pid in convicted { launched[pid]?.waitForEnd() }
            }
            wait(until: .now + duration) { false }
            return verdict
        }

        /// What a process that is not being frozen holds at this moment. Of a running process: some locks may be of one moment,
        /// and some of another.
        public func findings(of pid: Int32) throws -> [Conviction] {
            guard let member = ProcessTree.Member(pid) else { return [] }
            return try examine(member)
        }

        /// - throws: when one of the convicted could not do what the notice asks for (rule J9).
        private func checkJudgeable(_ told: Set<ProcessTree.Member>, convicted: Set<Int32>) throws {
            guard let signal = terms.noticeSignal, Self.stopSignals.contains(signal) else { return }
            for member in told where convicted.contains(member.pid) {
                guard !member.handling(of: signal).isDisjoint(with: [.caught, .blocked]),
                    ProcessGroup(of: member.pid)?.isOrphaned == true
                else { continue }
                throw SuspensionPoliceError(
                    """
                    '\(ProcessTable.name(member.pid) ?? "?")' (pid \(member.pid)) cannot be judged with a stop signal as the notice: its process \
                    group is orphaned, so the system does not stop it, and after its handler it goes on and takes its locks again. Start it from \
                    a shell or by the police, or give another notice: a signal such as SIGUSR1 that it handles, a message, or none
                    """
                )
            }
        }

        private static let stopSignals: Set<Int32> = [SIGTSTP, SIGTTIN, SIGTTOU]

        private func examine(_ member: ProcessTree.Member) throws -> [Conviction] {
            guard let files = try OpenFile.all(of: member.pid) else { return [] }
            return terms.law.findings(in: files).map { finding in
                Conviction(pid: member.pid, rule: finding.rule, path: finding.path, lock: finding.lock)
            }
        }

        // MARK: Notice and assertions

        /// Who has been given notice.
        private struct Told {
            var byMessage: Set<Int32> = []
            var bySignal: Set<ProcessTree.Member> = []
            var count: Int { byMessage.union(bySignal.map(\.pid)).count }
        }

        /// To those that are connected, and have not been given it.
        private func giveNotice(_ pid: Int32, left: Duration, _ told: inout Told) {
            guard terms.notice != nil else { return }
            desk.catchUp()
            let milliseconds = max(0, Int(left / .milliseconds(1)))
            told.byMessage.formUnion(desk.giveNotice(milliseconds: milliseconds, to: ProcessTree(root: pid).pids))
        }

        /// To those that handle it, are not connected, and have not been given it.
        private func giveSignal(_ pid: Int32, _ told: inout Told) {
            guard terms.notice != nil, let signal = terms.noticeSignal else { return }
            let tree = ProcessTree(root: pid)
            let connected = desk.connectedPids(among: tree.pids)
            for member in tree.members where !connected.contains(member.pid) && !told.bySignal.contains(member) {
                guard !tree.isAwaited(member), handles(signal, member) else { continue }
                told.bySignal.insert(member)
                member.signal(signal)
            }
        }

        /// Whether it catches or ignores the signal; or blocks it, and not just for a moment, as a shell does until its child has run `exec`.
        private func handles(_ signal: Int32, _ member: ProcessTree.Member) -> Bool {
            for _ in 0..<3 {
                let handling = member.handling(of: signal)
                guard handling == [.blocked] else { return !handling.isEmpty }
                if ThreadStates(of: member.pid).isUninterruptible { return false }
                usleep(300)
            }
            return true
        }

        private func waitForAssertions(
            _ pid: Int32,
            since began: ContinuousClock.Instant,
            _ told: inout Told,
            _ verdict: inout Verdict
        ) {
            func held() -> [String] {
                desk.catchUp()
                // To who has connected since the notice was over.
                giveNotice(pid, left: .zero, &told)
                return desk.assertions(of: ProcessTree(root: pid).pids)
            }
            let names = held()
            guard !names.isEmpty, !verdict.isExpired else { return }
            let waitBegan = ContinuousClock.now
            verdict.assertions = Array(Set(verdict.assertions + names)).sorted()
            let limit = began + terms.assertionTime
            let warning = max(waitBegan, limit - terms.expiryNotice)
            func areOver() -> Bool { held().isEmpty || Self.isDone(pid) }
            if !wait(until: warning, or: areOver) {
                let pids = ProcessTree(root: pid).pids
                desk.refuse(pids)
                desk.send(.expiring(milliseconds: max(0, Int((limit - .now) / .milliseconds(1)))), to: pids)
                verdict.isExpired = !wait(until: limit, or: areOver)
            }
            verdict.assertionTime += (ContinuousClock.now - waitBegan) / .seconds(1)
        }

        /// Gone, or stopped by itself as a program does that has been given SIGTSTP: nothing more will happen.
        private static func isDone(_ pid: Int32) -> Bool {
            let tree = ProcessTree(root: pid)
            return tree.members.isEmpty || tree.areStopped
        }

        /// Sleeps until then, or until `condition` holds, which is asked every few milliseconds.
        ///
        /// - returns: whether it held.
        @discardableResult
        func wait(until deadline: ContinuousClock.Instant, or condition: () -> Bool) -> Bool {
            while true {
                if condition() { return true }
                let left = (deadline - .now) / .microseconds(1)
                guard left > 0 else { return false }
                usleep(UInt32(min(left, 5_000)))
            }
        }

        // MARK: Stopping

        /// Stops a process, and its descendants until there are no more; parents first (rule J1). A parent that has begun a child with
        /// vfork(2), as shells and `posix_spawn` do, takes no signal until the child has run `exec`: a child that is stopped before that, by
        /// itself or by a terminal, is continued.
        private func stop(_ pid: Int32) throws -> ProcessTree {
            let deadline = ContinuousClock.now + .seconds(10)
            var tree = ProcessTree(root: pid)
            guard !tree.pids.contains(getpid()) else {
                throw SuspensionPoliceError(
                    "pid \(pid) is the police itself, or has started it: it would not go on. Judge another process"
                )
            }
            var stopped: Set<ProcessTree.Member> = []
            while true {
                for member in tree.members where !frozen.contains(member) {
                    if let parent = tree.parents[member], !stopped.contains(parent) {
                        if tree.isAwaited(member), ThreadStates(of: member.pid).areStopped { member.signal(SIGCONT) }
                        continue
                    }
                    frozen.insert(member)
                    member.signal(SIGSTOP)
                }
                // Only those that run can have children meanwhile.
                stopped = Set(
                    tree.members.filter { member in
                        let states = ThreadStates(of: member.pid)
                        return states.isGone || states.areStopped && frozen.contains(member)
                    }
                )
                let areStopped = stopped.count == tree.members.count
                let next = ProcessTree(root: pid)
                if areStopped, Set(next.members).isSubset(of: tree.members) { return next }
                guard ContinuousClock.now < deadline else {
                    thaw()
                    throw SuspensionPoliceError("pid \(pid) was not stopped by SIGSTOP within 10 s")
                }
                tree = next
                usleep(100)
            }
        }

        private func thaw() {
            for member in frozen { member.signal(SIGCONT) }
            frozen = []
        }

        private func resume(_ pid: Int32) {
            // Also what has stopped itself.
            frozen.formUnion(ProcessTree(root: pid).members)
            let pids = Set(frozen.map(\.pid))
            thaw()
            desk.forget(pids)
            if terms.notice != nil { desk.send(.resumed, to: pids) }
        }
    }
#endif
