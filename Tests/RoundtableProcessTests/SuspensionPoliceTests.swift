#if os(Linux)
    import RoundtableTestBasics
    import Foundation
    import Glibc
    import RoundtableKernel
    import RoundtableTestSupport
    import Testing

    extension ProcessTests {
        /// What the police does to a process: notice, assertions, verdict, and what becomes of it (rules J1 to J8).
        @Suite(.serialized, .enabled(if: Program.python != nil, "python3 is not installed"))
        struct SuspensionPoliceConduct {
            private static let lock = "import fcntl; f = open('thing.lock', 'w'); fcntl.flock(f, fcntl.LOCK_EX)"
            private static let unlock = "fcntl.flock(f, fcntl.LOCK_UN)"

            private func withProgram(
                _ terms: SuspensionTerms,
                _ body: (SuspensionPolice, PythonProgram) throws -> Void
            ) throws {
                try PeerFleet.run { fleet in
                    try withPolice(terms) { police in
                        let program = try PythonProgram(fleet, environment: police.environment)
                        try program.run("import os; os.chdir('\(fleet.databaseFolder.path)')")
                        try body(police, program)
                    }
                }
            }

            /// Connects, and remembers each message of the police; `onMessage` is Python, with the message as `m`.
            private func connect(_ program: PythonProgram, onMessage: String = "pass") throws {
                try prepareToConnect(program, onMessage: onMessage)
                try program.run("connect()")
            }

            /// - parameter onMessage: as of `connect`, which the program has as a function then.
            private func prepareToConnect(_ program: PythonProgram, onMessage: String) throws {
                let listen = """
                    def listen():
                        for m in s.makefile():
                            m = m.strip(); heard.append(m)
                            \(onMessage)
                    """
                try program.run("import os, socket, threading, time; heard = []; s = socket.socket(socket.AF_UNIX)")
                try program.run("exec(\(Self.quoted(listen)), globals())")
                try program.run("name = '\\0' + os.environ['ROUNDTABLE_POLICE']")
                try program.run("t = threading.Thread(target=listen, daemon=True)")
                try program.run("connect = lambda: (s.connect(name), t.start())")
            }

            private static func quoted(_ text: String) -> String {
                let escapes = [("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n")]
                return "'" + escapes.reduce(text) { $0.replacingOccurrences(of: $1.0, with: $1.1) } + "'"
            }

            private func waitUntilHeard(_ message: String, _ program: PythonProgram) throws {
                try eventually("the program hears '\(message)'") { try heard(program).contains(message) }
            }

            private func heard(_ program: PythonProgram) throws -> [String] {
                try program.run("answer = ','.join(heard)").split(separator: ",").map(String.init)
            }

            // MARK: Verdict

            /// The convicted is killed by SIGKILL; the verdict names program, pid, file, lock and rule.
            @Test(.timeLimit(.minutes(1))) func convictedIsKilled() throws {
                var terms = SuspensionTerms.reporting()
                terms.punishment = .kill
                try withProgram(terms) { police, program in
                    try program.run(Self.lock)
                    let verdict = try police.freeze(program.pid)
                    #expect(verdict.outcome == .convicted)
                    let crime = "(pid \(program.pid)) holds an exclusive flock lock on all of /"
                    #expect(verdict.description.contains(crime))
                    #expect(verdict.description.contains("/thing.lock: "))
                    #expect(verdict.description.hasSuffix("(lockedFile)"))
                    #expect(try program.process.waitForExit() == .signal(SIGKILL))
                    #expect(try police.freeze(program.pid).outcome == .gone)
                }
            }

            /// All threads stand still for as long as the freeze lasts, and continue after it.
            @Test(.timeLimit(.minutes(1))) func nothingRunsMeanwhile() throws {
                try withProgram(.reporting()) { police, program in
                    // Each thread has its longest gap, and the number of its rounds.
                    let watch = """
                        def watch(one):
                            last = time.monotonic()
                            while True:
                                now = time.monotonic(); one[0] = max(one[0], now - last); last = now; one[1] += 1
                                time.sleep(0.001)
                        def waitForRounds():
                            before = [one[1] for one in all]
                            while any(one[1] < number + 2 for one, number in zip(all, before)): time.sleep(0.001)
                        """
                    try program.run("import threading, time; exec(\(Self.quoted(watch)), globals())")
                    try program.run("all = [[0.0, 0] for _ in range(4)]")
                    try program.run("ts = [threading.Thread(target=watch, args=(g,), daemon=True) for g in all]")
                    try program.run("[t.start() for t in ts]; waitForRounds()")
                    _ = try police.freeze(program.pid, for: .milliseconds(400))
                    let shortestGap = "waitForRounds(); answer = str(min(one[0] for one in all))"
                    let shortest = try #require(Double(try program.run(shortestGap)))
                    #expect(shortest >= 0.4)
                }
            }

            /// Whatever happens, nothing stays stopped: what was launched is ended, and what was not continues.
            @Test(.timeLimit(.minutes(1))) func nothingIsLeftBehind() throws {
                try PeerFleet.run { fleet in
                    let program = try PythonProgram(fleet)
                    let police = try SuspensionPolice(.reporting())
                    let launched = try police.launch(["sh", "-c", "sleep 1000 & sleep 1000"])
                    // The shell ends at once, its child does not.
                    let ended = try police.launch(["sh", "-c", "sleep 1000 & true"])
                    try eventually("the shell has started its children") {
                        try police.freeze(launched).processes == 3
                    }
                    try police.freeze(program.pid)
                    try eventually("the other shell has ended") { try police.freeze(ended).outcome == .gone }
                    police.end()
                    for group in [launched, ended] {
                        try eventually("nothing is left of group \(group)") { kill(-group, 0) == -1 }
                    }
                    #expect(ProcessTable.entry(launched) == nil)
                    #expect(ProcessTable.isRunning(program.pid))
                    try program.run("pass")
                }
            }

            /// A shell that begins programs all the time, by vfork(2), is stopped at any moment of that.
            @Test(.timeLimit(.minutes(1))) func spawnsAllTheTime() throws {
                try withPolice(.reporting()) { police in
                    let pid = try police.launch(["sh", "-c", "while kill -0 $PPID; do /bin/true; done"])
                    let report = try police.patrol(pid, freezes: 200, pauses: .zero...(.milliseconds(5)))
                    #expect(report.freezes == 200 && report.convicted == 0, "\(report)")
                }
            }

            /// A freeze with notice: a shell blocks all signals until its child has run `exec`, which is not handling SIGTSTP.
            @Test(.long(), .timeLimit(.minutes(1))) func spawnsAllTheTimeWithNotice() throws {
                var terms = SuspensionTerms.reporting()
                terms.notice = .milliseconds(5)
                try withPolice(terms) { police in
                    let pid = try police.launch(["sh", "-c", "while kill -0 $PPID; do /bin/true; done"])
                    let report = try police.patrol(pid, freezes: 500, pauses: .zero...(.milliseconds(3)))
                    #expect(report.freezes == 500 && report.convicted == 0, "\(report)")
                }
            }

            /// A child that was stopped between vfork(2) and `exec` prevents its parent from stopping (rule J1).
            ///
            ///     parent              child                    police
            ///     vfork, waits
            ///                         opens a pipe, waits
            ///                         SIGSTOP
            ///                                                  SIGSTOP to the parent, which takes none
            ///                                                  SIGCONT to the child
            ///                         opens it, exec
            ///     stops
            ///                                                  SIGSTOP to the child: both are judged
            @Test(.timeLimit(.minutes(1))) func childIsStoppedBeforeExec() throws {
                try withProgram(.reporting()) { police, program in
                    try program.run("import os; os.mkfifo('pipe')")
                    let action = "[(os.POSIX_SPAWN_OPEN, 0, 'pipe', os.O_RDONLY, 0)]"
                    let spawn = "os.posix_spawn('/bin/sleep', ['sleep', '1000'], {}, file_actions=\(action))"
                    try program.start("child = \(spawn); answer = str(child)")
                    var child: Int32?
                    try eventually("the child is there") {
                        let children = "/proc/\(program.pid)/task/\(program.pid)/children"
                        let bytes = try ProcessTable.contents(of: children)
                        child = Int32(String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespaces))
                        return child != nil
                    }
                    let pid = try #require(child)
                    defer { kill(pid, SIGKILL) }
                    kill(pid, SIGSTOP)
                    try eventually("the child is stopped") { ProcessTable.entry(pid)?.isStopped == true }
                    // From now on, the child's opening waits for nothing.
                    let pipe = Glibc.open("/proc/\(program.pid)/cwd/pipe", O_RDWR)
                    try #require(pipe >= 0)
                    defer { close(pipe) }
                    let verdict = try police.freeze(program.pid)
                    #expect(verdict.outcome == .released && verdict.processes == 2, "\(verdict)")
                    #expect(try program.answer() == "\(pid)")
                    #expect(ProcessTable.name(pid) == "sleep")
                }
            }

            /// A process whose main thread has ended, and other threads have not, is no dead one.
            @Test(.timeLimit(.minutes(1))) func mainThreadHasEnded() throws {
                try withProgram(.reporting()) { police, program in
                    try program.run(Self.lock)
                    // exit(2), of this thread alone.
                    try program.run("import ctypes, threading, time; leave = lambda: ctypes.CDLL(None).syscall(60, 0)")
                    try program.run("t = threading.Thread(target=lambda: time.sleep(1000)); t.start()")
                    try program.start("leave()")
                    try eventually("the main thread ends") {
                        let bytes = try ProcessTable.contents(of: "/proc/\(program.pid)/stat")
                        return String(decoding: bytes, as: UTF8.self).contains(") Z ")
                    }
                    #expect(try police.freeze(program.pid).convictions.map(\.rule) == [.lockedFile])
                }
            }

            /// The police does not suspend itself.
            @Test func oneself() throws {
                try withPolice(.reporting()) { police in
                    _ = #expect(throws: SuspensionPoliceError.self) { try police.freeze(getpid()) }
                }
            }

            // MARK: Notice

            /// A message to a connected program, in time to release a lock; the answer is recorded.
            @Test(.timeLimit(.minutes(1))) func noticeByMessage() throws {
                var terms = SuspensionTerms()
                terms.notice = .milliseconds(500)
                try withProgram(terms) { police, program in
                    try program.run(Self.lock)
                    try connect(program, onMessage: "m.startswith('susp') and (\(Self.unlock), s.send(b'closed\\n'))")
                    let verdict = try police.freeze(program.pid)
                    #expect(verdict.outcome == .released, "\(verdict)")
                    #expect(verdict.notified == 1)
                    #expect(try #require(verdict.answered) < .milliseconds(500))
                    try waitUntilHeard("resumed", program)
                    #expect(try heard(program) == ["suspending 500", "resumed"])
                }
            }

            /// A signal to a program that handles it. One that does not is left alone until the freeze: by default, SIGTSTP would be that.
            @Test(.timeLimit(.minutes(1)), arguments: [true, false]) func noticeBySignal(isHandled: Bool) throws {
                var terms = SuspensionTerms()
                terms.notice = .milliseconds(500)
                try withProgram(terms) { police, program in
                    try program.run("import os, signal, threading; received = []")
                    try program.run(Self.lock)
                    if isHandled {
                        // As a program does that means to stop itself once it has released the lock.
                        let handle = "received.append(1), \(Self.unlock), os.kill(os.getpid(), signal.SIGSTOP)"
                        try program.run("signal.signal(signal.SIGTSTP, lambda *_: (\(handle)))")
                    } else {
                        try program.run("threading.Timer(0.1, lambda: \(Self.unlock)).start()")
                    }
                    let verdict = try police.freeze(program.pid)
                    #expect(verdict.outcome == .released, "\(verdict)")
                    #expect(verdict.notified == (isHandled ? 1 : 0))
                    #expect(try program.run("answer = str(len(received))") == (isHandled ? "1" : "0"))
                }
            }

            /// In an orphaned process group, SIGTSTP stops no process: one that has released its lock and stops itself continues. It is not convicted
            /// for what it takes then (rule J9). One that does not handle the signal is convicted.
            @Test(.timeLimit(.minutes(1)), arguments: [true, false], [true, false])
            func orphanedProcessGroup(isOrphaned: Bool, isHandled: Bool) throws {
                var terms = SuspensionTerms()
                terms.notice = .milliseconds(300)
                try PeerFleet.run { fleet in
                    let folder = fleet.databaseFolder.path
                    let code = """
                        import fcntl, os, signal, time
                        f = open('\(folder)/thing.lock', 'w')
                        def stop(*_):
                            fcntl.flock(f, fcntl.LOCK_UN); signal.signal(signal.SIGTSTP, signal.SIG_DFL)
                            os.kill(os.getpid(), signal.SIGTSTP)
                            signal.signal(signal.SIGTSTP, stop); fcntl.flock(f, fcntl.LOCK_EX)
                        if \(isHandled ? 1 : 0): signal.signal(signal.SIGTSTP, stop)
                        fcntl.flock(f, fcntl.LOCK_EX)
                        open('\(folder)/new', 'w').write(str(os.getpid())); os.rename('\(folder)/new', '\(folder)/pid')
                        while True: time.sleep(1)
                        """
                    let python = try #require(Program.python)
                    let process = try fleet.spawn(
                        program: isOrphaned ? URL(fileURLWithPath: "/usr/bin/setsid") : python,
                        arguments: (isOrphaned ? ["--wait", python.path] : []) + ["-c", code]
                    )
                    var found: Int32?
                    try eventually("the program has its lock") {
                        guard process.isRunning else { throw TestKitError("it has ended: \(process.errorText)") }
                        found = (try? String(contentsOfFile: folder + "/pid", encoding: .utf8)).flatMap { Int32($0) }
                        return found != nil
                    }
                    let pid = try #require(found)
                    defer { kill(pid, SIGKILL) }
                    try withPolice(terms) { police in
                        guard isOrphaned, isHandled else {
                            #expect(try police.freeze(pid).outcome == (isHandled ? .released : .convicted))
                            return
                        }
                        let error = #expect(throws: SuspensionPoliceError.self) { try police.freeze(pid) }
                        #expect(
                            error?.description.contains("(pid \(pid)) cannot be judged") == true,
                            "\(String(describing: error))"
                        )
                        #expect(error?.description.contains("group is orphaned") == true)
                        try eventually("it continues") { ProcessTable.entry(pid)?.isStopped == false }
                        // Another notice, or none, is a judgement.
                        police.terms.notice = nil
                        #expect(try police.freeze(pid).outcome == .convicted)
                    }
                }
            }

            /// While it begins a thread, the C library blocks all signals. Such a program does not handle SIGTSTP: it would be stopped too early.
            @Test(.timeLimit(.minutes(1))) func noSignalToAProgramThatBeginsThreads() throws {
                var terms = SuspensionTerms()
                terms.notice = .milliseconds(500)
                try withProgram(terms) { police, program in
                    try program.run("import threading, time; end = time.time() + 0.5")
                    let begin = "t = threading.Thread(target=int); t.start(); t.join()"
                    try program.start("exec(\(Self.quoted("while time.time() < end:\n    \(begin)")), globals())")
                    let verdict = try police.freeze(program.pid)
                    #expect(verdict.notified == 0 && verdict.frozen >= .milliseconds(500), "\(verdict)")
                    #expect(try program.answer() == "ok")
                }
            }

            /// A message to a program that connects during the notice: here, because of the signal. If it is notified in two ways, it counts once.
            @Test(.timeLimit(.minutes(1))) func noticeToAProgramThatConnectsMeanwhile() throws {
                var terms = SuspensionTerms()
                terms.notice = .milliseconds(500)
                try withProgram(terms) { police, program in
                    try program.run("import signal")
                    try program.run(Self.lock)
                    let onMessage = "m.startswith('susp') and (\(Self.unlock), s.send(b'closed\\n'))"
                    try prepareToConnect(program, onMessage: onMessage)
                    try program.run("signal.signal(signal.SIGTSTP, lambda *_: connect())")
                    let verdict = try police.freeze(program.pid)
                    #expect(verdict.outcome == .released, "\(verdict)")
                    #expect(verdict.notified == 1)
                    #expect(try #require(verdict.answered) < .milliseconds(500))
                    try waitUntilHeard("resumed", program)
                    let heard = try heard(program)
                    let left = try #require(heard.first?.split(separator: " ").last.flatMap { Int($0) })
                    #expect(heard == ["suspending \(left)", "resumed"] && (0..<500).contains(left), "\(heard)")
                }
            }

            /// Without notice, no program is notified.
            @Test(.timeLimit(.minutes(1))) func noNotice() throws {
                try withProgram(.reporting()) { police, program in
                    try connect(program)
                    let verdict = try police.freeze(program.pid)
                    #expect(verdict.notified == 0)
                    #expect(try heard(program) == [])
                }
            }

            // MARK: Assertions

            /// A holder of an assertion is frozen when it ends it, and not before.
            @Test(.timeLimit(.minutes(1))) func assertionPutsTheFreezeOff() throws {
                var terms = SuspensionTerms()
                terms.notice = .zero
                try withProgram(terms) { police, program in
                    try connect(
                        program,
                        onMessage: "m == 'suspending 0' and (time.sleep(0.4), \(Self.unlock), s.send(b'end 7\\n'))"
                    )
                    try program.run(Self.lock)
                    try program.run("s.send(b'begin 7 sync of today\\n')")
                    try waitUntilHeard("granted 7", program)
                    let verdict = try police.freeze(program.pid)
                    #expect(verdict.outcome == .released, "\(verdict)")
                    #expect(verdict.assertions == ["sync of today"])
                    #expect(verdict.assertionTime >= .milliseconds(390))
                    #expect(!verdict.isExpired)
                }
            }

            /// An assertion that was sent before the process stopped counts, though the police has not granted it yet.
            ///
            ///     program                      police
            ///                                  freeze: no assertion, SIGSTOP
            ///     begin (before it stops)
            ///     stops
            ///                                  reads: an assertion. SIGCONT
            ///     unlocks, ends
            ///                                  SIGSTOP: released
            @Test(.timeLimit(.minutes(1))) func assertionJustBeforeTheFreeze() throws {
                try withProgram(.reporting()) { police, program in
                    try connect(program)
                    let work = """
                        def work():
                            n = 0
                            while True:
                                n += 1
                                s.send(b'begin %d work\\n' % n)
                                fcntl.flock(f, fcntl.LOCK_EX); time.sleep(0.002); fcntl.flock(f, fcntl.LOCK_UN)
                                s.send(b'end %d\\n' % n)
                                time.sleep(0.002)
                        """
                    try program.run("import fcntl; f = open('thing.lock', 'w')")
                    try program.run("exec(\(Self.quoted(work)), globals())")
                    try program.run("w = threading.Thread(target=work, daemon=True); w.start()")
                    let report = try police.patrol(program.pid, freezes: 30, pauses: .zero...(.milliseconds(10)))
                    #expect(report.freezes == 30)
                    #expect(report.convicted == 0, "\(report)")
                    #expect(report.postponed > 5)
                }
            }

            /// A holder that does not end it is notified that its time is up, and frozen all the same; then none is granted.
            @Test(.timeLimit(.minutes(1))) func assertionExpires() throws {
                var terms = SuspensionTerms()
                terms.notice = .zero
                terms.assertionTime = .milliseconds(600)
                terms.expiryNotice = .milliseconds(400)
                terms.punishment = .report
                let violations = try TimedTrial.run { [terms] trial in
                    try withProgram(terms) { police, program in
                        try connect(program, onMessage: "m.startswith('exp') and s.send(b'begin 8 more\\n')")
                        try program.run(Self.lock)
                        try program.run("s.send(b'begin 7 sync\\n')")
                        try waitUntilHeard("granted 7", program)
                        let verdict = try police.freeze(program.pid)
                        #expect(verdict.outcome == .convicted)
                        #expect(verdict.isExpired)
                        #expect(verdict.assertionTime >= .milliseconds(590) && verdict.assertionTime < .seconds(2))
                        try waitUntilHeard("resumed", program)
                        let messages = try heard(program)
                        let left = messages.compactMap { $0.hasPrefix("expiring ") ? Double($0.dropFirst(9)) : nil }
                        #expect(left.count == 1 && left.allSatisfy { $0 <= 400 }, "\(messages)")
                        // What is left when the police gets to say so.
                        trial.expect("delay of the notice", 400 - (left.first ?? .nan), atMost: 100)
                        #expect(messages.contains("refused 8"))
                        // In the foreground again.
                        try program.run("s.send(b'begin 9 later\\n')")
                        try waitUntilHeard("granted 9", program)
                    }
                }
                #expect(violations == [])
            }

            /// Of a process that dies, no assertion stays.
            @Test(.timeLimit(.minutes(1))) func assertionOfTheDead() throws {
                try withProgram(SuspensionTerms()) { police, program in
                    try connect(program)
                    try program.run("s.send(b'begin 7 sync\\n')")
                    try waitUntilHeard("granted 7", program)
                    try program.process.killAndReap()
                    #expect(try police.freeze(program.pid).outcome == .gone)
                }
            }

            @Test(.timeLimit(.minutes(1))) func noAssertionIsGranted() throws {
                var terms = SuspensionTerms.reporting()
                terms.assertionTime = .zero
                try withProgram(terms) { police, program in
                    try connect(program)
                    try program.run("s.send(b'begin 7 sync\\n')")
                    try waitUntilHeard("refused 7", program)
                    #expect(try police.freeze(program.pid).assertions == [])
                }
            }

            // MARK: Patrol

            /// A patrol reports what it did, and ends when the process does.
            @Test(.timeLimit(.minutes(1))) func patrol() throws {
                try PeerFleet.run { fleet in
                    try withPolice(.reporting()) { police in
                        let lock = fleet.folder.appendingPathComponent("half.lock").path
                        let script = """
                            import fcntl, time
                            f = open('\(lock)', 'w')
                            end = time.monotonic() + 60
                            while time.monotonic() < end:
                                fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(0.01)
                                fcntl.lockf(f, fcntl.LOCK_UN); time.sleep(0.01)
                            """
                        let pid = try police.launch(["python3", "-c", script])
                        try eventually("it has begun") { FileManager.default.fileExists(atPath: lock) }
                        let report = try police.patrol(pid, freezes: 100, pauses: .zero...(.milliseconds(40)), seed: 42)
                        #expect(report.freezes == 100 && report.released + report.convicted == 100)
                        #expect((15...85).contains(report.convicted), "\(report)")
                        #expect(report.convictedByRule == ["lockedFile": report.convicted])
                        let copy = try JSONDecoder().decode(PoliceReport.self, from: JSONEncoder().encode(report))
                        #expect(copy.convictions == report.convictions && copy.seed == 42)

                        police.terms.punishment = .kill
                        let last = try police.patrol(pid, freezes: 1000, pauses: .zero...(.milliseconds(40)))
                        #expect(last.convicted == 1 && last.freezes < 1000)
                    }
                }
            }
        }
    }
#endif
