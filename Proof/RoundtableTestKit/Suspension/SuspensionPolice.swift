#if os(Linux)
    import Foundation
    import Glibc
    import RoundtableKernel

    /// Suspends real processes as iOS does, on Linux, and inspects the locks that they hold while they are suspended. It finds from
    /// outside what iOS kills a process for (0xDEAD10CC).
    ///
    /// ```swift
    /// let police = try SuspensionPolice()
    /// defer { police.end() }
    /// let pid = try police.launch(["./my-daemon", "app.db"])
    /// let report = try police.patrol(pid, freezes: 200)
    /// #expect(report.convictions.isEmpty, "\(report)")
    /// ```
    ///
    /// Only one thread at a time may use it. It does not change the files that it inspects, and takes no lock. The calling process may
    /// have the same database open, because the police drops none of its locks.
    public final class SuspensionPolice {
        /// The terms of all following suspensions. Whether assertions are granted at all is fixed at initialization.
        public var terms: SuspensionTerms
        let desk: SuspensionDesk
        var launched: [Int32: LaunchedProcess] = [:]
        private var frozen: Set<ProcessTree.Member> = []
        private var hasEnded = false

        /// Creates the police, and the socket that processes connect to.
        ///
        /// - throws: `SuspensionPoliceError` when the socket cannot be created.
        public init(_ terms: SuspensionTerms = SuspensionTerms()) throws {
            self.terms = terms
            desk = try SuspensionDesk(
                grantsAssertions: terms.assertionTime > .zero,
                refusedShare: terms.refusedShare,
                seed: terms.refusalSeed
            )
        }

        deinit { end() }

        /// The environment variables that a process needs to connect. ``launch(_:environment:outputToErrors:)`` sets them.
        public var environment: [String: String] { [AbstractSocket.environmentName: desk.name] }

        /// The number of requests for assertions that were refused.
        package var refusals: Int { desk.refusals }

        /// Kills the processes that it has launched, with their descendants. Resumes all other processes that it keeps frozen.
        public func end() {
            guard !hasEnded else { return }
            hasEnded = true
            for process in launched.values { process.end() }
            thaw()
            desk.end()
        }

        // MARK: Suspending

        /// Suspends a process with its descendants, inspects their locks, and resumes the processes that held no forbidden lock.
        ///
        /// 1. The police gives notice: by message to connected processes, by signal to others that handle it.
        /// 2. The time of the notice passes. A process that connects meanwhile has notice immediately, with the time that is left.
        /// 3. While one of the processes holds an assertion, the police waits, until the assertions' time is up.
        /// 4. The police sends SIGSTOP until no thread runs. If a process began an assertion before it stopped, all continue with step 3.
        /// 5. The police applies the law. It kills a convicted process, unless the terms say otherwise.
        /// 6. After `duration`, the police sends SIGCONT and the message `resumed`.
        ///
        /// - parameter pid: the process. It must not be the calling process, or an ancestor of it.
        /// - parameter duration: how long the processes stay frozen after the law was applied.
        /// - throws: `SuspensionPoliceError` when the process cannot be stopped, inspected or judged. The process is then resumed.
        @discardableResult
        public func freeze(_ pid: Int32, for duration: Duration = .zero) throws -> Verdict {
            let began = ContinuousClock.now
            var verdict = Verdict()
            desk.catchUp()
            desk.forget(ProcessTree(root: pid).pids)
            var notified = Notified()
            giveNotice(pid, left: terms.notice ?? .zero, &notified)
            giveSignal(pid, &notified)
            defer { resume(pid) }
            let noticeEnd = began + (terms.notice ?? .zero)
            wait(until: noticeEnd) {
                giveNotice(pid, left: noticeEnd - .now, &notified)
                // The signal is tried again, because a process that has just been continued may put its handler back only now.
                giveSignal(pid, &notified)
                return Self.isDone(pid)
            }

            var tree = ProcessTree(root: pid)
            while true {
                waitForAssertions(pid, since: began, &notified, &verdict)
                let stopBegan = ContinuousClock.now
                verdict.frozenSeconds = (stopBegan - began) / .seconds(1)
                tree = try stop(pid)
                verdict.stoppingSeconds = (ContinuousClock.now - stopBegan) / .seconds(1)
                // The messages that a process sent before it stopped count (rule J6).
                desk.catchUp()
                if verdict.isExpired || desk.assertions(of: tree.pids).isEmpty { break }
                thaw()
            }
            verdict.notified = notified.count
            verdict.processes = tree.members.count
            verdict.answeredSeconds = desk.answered(tree.pids).map { ($0 - began) / .seconds(1) }
            guard !tree.members.isEmpty else {
                try checkIsShown(pid)
                return verdict
            }

            let examinationBegan = ContinuousClock.now
            verdict.convictions = try tree.members.flatMap(examine)
            verdict.examiningSeconds = (ContinuousClock.now - examinationBegan) / .seconds(1)
            // The descendants of a process that is not shown would be missing.
            for member in tree.members { try checkIsShown(member.pid) }
            try checkJudgeable(notified.bySignal, convicted: Set(verdict.convictions.map(\.pid)))
            verdict.outcome = verdict.convictions.isEmpty ? .released : .convicted
            if terms.punishment == .kill {
                let convicted = Set(verdict.convictions.map(\.pid))
                for member in tree.members where convicted.contains(member.pid) { member.signal(SIGKILL) }
                for pid in convicted { launched[pid]?.waitForEnd() }
            }
            wait(until: .now + duration) { false }
            return verdict
        }

        /// The forbidden locks that a process holds now, without freezing it and without its descendants. If the process is running, the
        /// locks may be from different moments.
        ///
        /// - throws: `SuspensionPoliceError` when the system denies access to the files of the process.
        public func findings(of pid: Int32) throws -> [Conviction] {
            guard let member = ProcessTree.Member(pid) else { return [] }
            return try examine(member)
        }

        /// - throws: when the system does not show a process that may exist, for example because this process has too many open files. It
        ///   cannot be judged then, nor be taken for one that has ended.
        func checkIsShown(_ pid: Int32) throws {
            do {
                _ = try ProcessTable.contents(of: "/proc/\(pid)/stat")
            } catch let error as SystemError {
                // It has ended.
                if [ENOENT, ESRCH].contains(error.errno) { return }
                throw SuspensionPoliceError("cannot look at process \(pid)", errno: error.errno)
            }
        }

        // Rule J9: A stop signal (SIGTSTP, SIGTTIN, SIGTTOU) is no notice to a process of an orphaned process group: the system does not
        // stop it then, by POSIX, so a handler that has released its locks and stops the process continues immediately, and takes them
        // again. Such a process, if it catches or blocks the signal, is not convicted: the police reports that it cannot be judged so, and
        // lets it continue.

        /// - throws: when a convicted process could not do what the notice asks for (rule J9).
        private func checkJudgeable(_ notified: Set<ProcessTree.Member>, convicted: Set<Int32>) throws {
            guard let signal = terms.noticeSignal, Self.stopSignals.contains(signal) else { return }
            for member in notified where convicted.contains(member.pid) {
                guard !member.handling(of: signal).isDisjoint(with: [.caught, .blocked]),
                    ProcessGroup(of: member.pid)?.isOrphaned == true
                else { continue }
                throw SuspensionPoliceError(
                    """
                    '\(ProcessTable.name(member.pid) ?? "?")' (pid \(member.pid)) cannot be judged with a stop signal as the notice: its process \
                    group is orphaned, so the system does not stop it, and after its handler it continues and takes its locks again. Start it from \
                    a shell or by the police, or give another notice: a signal such as SIGUSR1 that it handles, a message, or none
                    """
                )
            }
        }

        private static let stopSignals: Set<Int32> = [SIGTSTP, SIGTTIN, SIGTTOU]

        private func examine(_ member: ProcessTree.Member) throws -> [Conviction] {
            guard let files = try OpenFile.all(of: member.pid) else { return [] }
            return terms.law.findings(in: files).map { Conviction(pid: member.pid, $0) }
        }

        // MARK: Notice and assertions

        /// The processes that have had notice.
        private struct Notified {
            var byMessage: Set<Int32> = []
            var bySignal: Set<ProcessTree.Member> = []
            var count: Int { byMessage.union(bySignal.map(\.pid)).count }
        }

        /// Gives notice by message to connected processes that have had none.
        private func giveNotice(_ pid: Int32, left: Duration, _ notified: inout Notified) {
            guard terms.notice != nil else { return }
            desk.catchUp()
            let milliseconds = max(0, Int(left / .milliseconds(1)))
            notified.byMessage.formUnion(desk.giveNotice(milliseconds: milliseconds, to: ProcessTree(root: pid).pids))
        }

        /// Gives notice by signal to processes that handle the signal, are not connected, and have had none.
        private func giveSignal(_ pid: Int32, _ notified: inout Notified) {
            guard terms.notice != nil, let signal = terms.noticeSignal else { return }
            let tree = ProcessTree(root: pid)
            let connected = desk.connectedPids(among: tree.pids)
            for member in tree.members where !connected.contains(member.pid) && !notified.bySignal.contains(member) {
                guard !tree.isAwaited(member), handles(signal, member) else { continue }
                notified.bySignal.insert(member)
                member.signal(signal)
            }
        }

        /// Whether the process catches or ignores the signal, or blocks it for longer than a moment. A shell blocks signals for a moment,
        /// until its child has run `exec`.
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
            _ notified: inout Notified,
            _ verdict: inout Verdict
        ) {
            func held() -> [String] {
                desk.catchUp()
                // A process may have connected since the time of the notice passed.
                giveNotice(pid, left: .zero, &notified)
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
            verdict.assertionSeconds += (ContinuousClock.now - waitBegan) / .seconds(1)
        }

        /// Whether the process has ended, or has stopped itself, as a program does that handles SIGTSTP. Waiting longer is then useless.
        private static func isDone(_ pid: Int32) -> Bool {
            let tree = ProcessTree(root: pid)
            return tree.members.isEmpty || tree.areStopped
        }

        /// Sleeps until `deadline`, or until `condition` holds. It checks the condition every 5 ms.
        ///
        /// - returns: whether the condition held.
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

        // Rule J1: A process is suspended together with its descendants, by SIGSTOP, parents first. Locks are inspected when no thread of
        // any of them runs (`/proc/PID/task/TID/stat`). Then each process is killed, or all continue with SIGCONT. A process is identified
        // by its pid and start time. A parent that has begun a child with vfork(2) takes no signal until the child has run `exec`, so such
        // a child is continued.

        // Rule J8: The police ends with all that it has launched killed and reaped, and everything else running. If it is killed, the
        // system continues and hangs up what it has launched: each has a process group of its own.

        /// Stops a process and all its descendants, parents first (rule J1). A parent that has begun a child with vfork(2), as shells and
        /// `posix_spawn` do, takes no signal until the child has run `exec`. So a child that has stopped before that, by itself or by a
        /// terminal, is continued.
        private func stop(_ pid: Int32) throws -> ProcessTree {
            let deadline = ContinuousClock.now + .seconds(10)
            var tree = ProcessTree(root: pid)
            guard !tree.pids.contains(getpid()) else {
                throw SuspensionPoliceError(
                    "pid \(pid) is the police itself, or has started it: it would not continue. Judge another process"
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
                // Only a process that is not in this set can start children meanwhile.
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
            // Processes that have stopped themselves are resumed, too.
            frozen.formUnion(ProcessTree(root: pid).members)
            let pids = Set(frozen.map(\.pid))
            thaw()
            desk.forget(pids)
            if terms.notice != nil { desk.send(.resumed, to: pids) }
        }
    }
#endif
