import ArgumentParser
import Dispatch
import Foundation
import Roundtable
import RoundtableKernel
import RoundtableProcesses
import RoundtableToolSupport
import Synchronization

/// The processes of the demo. They are started and watched together, and none is left behind.
final class DemoFleet: Sendable {
    /// The known state of one process.
    struct Member: Sendable {
        let player: DemoCast.Player
        var pid: Int32 = 0
        var report: PeerReport?
        var hasEnded = false
        /// The failure that ended the process; nil if there was none.
        var failure: String?

        var isReady: Bool { report != nil || hasEnded }
        var hasOpened: Bool { report.map { $0.phase != .ready } ?? false || hasEnded }
        /// Whether the process has done its work. It may still have its files open.
        var hasRested: Bool { report.map { $0.phase == .rested || $0.phase == .done } ?? false || hasEnded }
        var isDone: Bool { report?.phase == .done }
        var errorCount: Int { (report?.errors ?? 0) + (failure == nil ? 0 : 1) }
    }

    private struct Child {
        let pid: Int32
        let input: FileHandle
        /// Whether the process is reaped. Its pid cannot be reused before.
        var isReaped = false
    }

    /// `start` fills `children`, and `stop` kills them. A signal may call `stop` at any time.
    private struct State {
        var members: [Member]
        var children: [Child] = []
        var isStopped = false
        /// The signal that ends the demo.
        var interruption: Int32?
        /// The database that this process is reading now.
        var reading: SharedDatabase?
    }

    private let state: Mutex<State>
    /// The listening threads, one for each child. Each thread ends when its child is reaped.
    private let listeners = DispatchGroup()

    init(_ cast: DemoCast) {
        state = Mutex(State(members: cast.players.map { Member(player: $0) }))
    }

    var members: [Member] { state.withLock { $0.members } }

    func start(databaseAt url: URL) throws {
        guard let program = Bundle.main.executableURL else { throw ToolError("the path of this program is not known") }
        for (index, member) in members.enumerated() {
            let (input, output) = (try Self.makePipe(), try Self.makePipe())
            var launch = ProgramLaunch(
                program.path,
                ["demo-peer", "--path", url.path, "--name", member.player.name, "--role", member.player.role.rawValue]
            )
            launch.descriptors = [
                STDIN_FILENO: input.reader.fileDescriptor, STDOUT_FILENO: output.writer.fileDescriptor,
            ]
            // The children stay in the group of this process, so that Ctrl-Z stops all of them, and `fg` continues all of them.
            launch.hasOwnGroup = false
            let isStarted = try state.withLock { state in
                if state.isStopped { return false }
                let pid = try launch.start().get()
                state.children.append(Child(pid: pid, input: input.writer))
                state.members[index].pid = pid
                listeners.enter()
                return true
            }
            guard isStarted else { return }
            // This process closes the child's ends of the pipes, so that the output ends when the child ends.
            try input.reader.close()
            try output.writer.close()
            DetachedThread.startOrQueue { [self, reading = output.reader] in
                listen(to: reading, index)
                listeners.leave()
            }
        }
    }

    /// Makes a pipe that `exec` closes, so that no child inherits the pipes of another child.
    private static func makePipe() throws -> (reader: FileHandle, writer: FileHandle) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else {
            let code = errno
            throw ToolError(
                "pipe: \(String(cString: strerror(code))) (errno \(code)). \(SystemErrorAdvice.next(code))."
            )
        }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (
            FileHandle(fileDescriptor: ends[0], closeOnDealloc: true),
            FileHandle(fileDescriptor: ends[1], closeOnDealloc: true)
        )
    }

    /// Reads reports until the process ends, and reaps it.
    private func listen(to output: FileHandle, _ index: Int) {
        var buffer = Data()
        while case let data = output.availableData, !data.isEmpty {
            buffer.append(data)
            while let end = buffer.firstIndex(of: UInt8(ascii: "\n")) {
                let report = try? JSONDecoder().decode(PeerReport.self, from: buffer[buffer.startIndex..<end])
                buffer = Data(buffer[(end + 1)...])
                if let report { state.withLock { $0.members[index].report = report } }
            }
        }
        let pid = state.withLock { $0.children[index].pid }
        ProgramExit.hasEnded(pid, waits: true)
        state.withLock { state in
            let exit = ProgramExit.reap(pid, waits: true) ?? .unknown
            state.children[index].isReaped = true
            state.members[index].hasEnded = true
            guard !state.isStopped else { return }
            state.members[index].failure = Self.failure(exit, state.members[index])
        }
    }

    private static func failure(_ exit: ProgramExit, _ member: Member) -> String? {
        switch exit {
        case .status(0): member.isDone ? nil : "ended without a result"
        case .status(let status): "ended with exit code \(status)"
        case .signal(let number): "was killed by signal \(number)"
        case .unknown: "ended, and the system does not say how"
        }
    }

    /// Sends a command to all processes.
    func tell(_ command: String) {
        let line = Data("\(command)\n".utf8)
        // Writing to a process that has ended fails. Its listening thread detects that it has ended.
        for input in state.withLock({ $0.children.map(\.input) }) { try? input.write(contentsOf: line) }
    }

    /// Kills the processes that still run, and waits until they are reaped.
    func stop() {
        state.withLock { state in
            state.isStopped = true
            for child in state.children where !child.isReaped { kill(child.pid, SIGKILL) }
        }
        listeners.wait()
    }

    // MARK: Interruption

    /// Ends the demo. The main task then finds that the demo was interrupted, and cleans up. Any thread may call this.
    func interrupt(by signal: Int32) {
        let reading = state.withLock { state in
            state.interruption = signal
            return state.reading
        }
        reading?.interrupt()
        stop()
    }

    /// - throws: `ExitCode` when the demo was interrupted.
    func checkInterruption() throws {
        if let signal = state.withLock({ $0.interruption }) { throw ExitCode(128 + signal) }
    }

    /// Runs `body`, which passes the database that it reads to its argument. An interruption makes `body` fail.
    func interruptible<T>(_ body: ((SharedDatabase) throws -> Void) throws -> T) throws -> T {
        defer { state.withLock { $0.reading = nil } }
        return try body { database in
            state.withLock { $0.reading = database }
            try checkInterruption()
        }
    }

    // MARK: Waiting

    /// Waits until `condition` holds for all members.
    ///
    /// - parameter patience: the longest wait. The time while the demo was stopped (Ctrl-Z) does not count.
    /// - returns: false when the wait took longer.
    func wait(
        for patience: Duration,
        _ condition: (Member) -> Bool,
        _ tick: () throws -> Void = {}
    ) async throws -> Bool {
        var left = patience
        var last = ContinuousClock.now
        while true {
            try checkInterruption()
            let members = members
            try tick()
            if members.allSatisfy(condition) { return true }
            guard left > .zero else { return false }
            try await Task.sleep(for: .milliseconds(50))
            let now = ContinuousClock.now
            // If the process was stopped, the difference is long, so at most one second is counted.
            left -= min(now - last, .seconds(1))
            last = now
        }
    }
}
