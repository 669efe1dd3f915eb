#if os(Linux)
    import Foundation
    import RoundtableTestSupport
    import Testing

    /// A Python program that executes what it receives, line by line.
    final class PythonProgram {
        private let session: ProgramSession

        /// A line of input is Python; its answer is `ok`, or what it says by `say`.
        private static let driver = """
            import os, select, signal, sys
            # A signal that comes just before a wait ends it too, and its handler runs.
            wake, written = os.pipe()
            os.set_blocking(wake, False)
            os.set_blocking(written, False)
            signal.set_wakeup_fd(written)
            names = {'answer': 'ok'}
            data = b''
            while True:
                while b'\\n' not in data:
                    if 0 not in select.select([0, wake], [], [])[0]:
                        os.read(wake, 4096)
                    elif more := os.read(0, 65536):
                        data += more
                    else:
                        sys.exit()
                line, data = data.split(b'\\n', 1)
                names['answer'] = 'ok'
                exec(line, names)
                print(names['answer'], flush=True)
            """

        init(_ fleet: PeerFleet, environment: [String: String] = [:]) throws {
            let program = try #require(Program.python)
            session = ProgramSession(
                try fleet.spawn(program: program, arguments: ["-c", Self.driver], environment: environment)
            )
        }

        var process: ChildProcess { session.process }
        var pid: Int32 { process.pid }

        /// - returns: what the line left in `answer`.
        @discardableResult
        func run(_ line: String) throws -> String {
            try session.send(line)
            return try session.receive()
        }

        /// Does not wait for the answer.
        func start(_ line: String) throws { try session.send(line) }
        func answer() throws -> String { try session.receive() }
    }

    extension SuspensionTerms {
        /// The freeze is without notice; the process continues.
        static func reporting(_ law: SuspensionLaw = .documented) -> SuspensionTerms {
            var terms = SuspensionTerms()
            terms.law = law
            terms.notice = nil
            terms.punishment = .report
            return terms
        }
    }

    extension PoliceReport {
        /// No process was convicted. A process whose transactions take so long has the rest of the notice to end one: a machine that convicts it has
        /// delayed it for that rest at least.
        func expectTimelyRelease(
            after transaction: Duration = .zero,
            _ notice: Duration,
            in trial: TimedTrial
        ) {
            let delay = convicted == 0 ? .zero : notice - transaction
            trial.expect("release, \(self)", (notice + delay) / .milliseconds(1), atMost: notice / .milliseconds(1))
        }
    }

    func withPolice<T>(_ terms: SuspensionTerms, _ body: (SuspensionPolice) throws -> T) throws -> T {
        let police = try SuspensionPolice(terms)
        defer { police.end() }
        return try body(police)
    }
#endif
