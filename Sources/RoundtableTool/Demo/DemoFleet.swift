import ArgumentParser
import Foundation
import Synchronization

/// The processes of the demo: started together, watched, and never left behind.
final class DemoFleet: Sendable {
    /// What is known of one process.
    struct Member: Sendable {
        let player: DemoCast.Player
        var pid: Int32 = 0
        var report: PeerReport?
        var hasEnded = false
        /// What its end says of it; nil when all was well.
        var failure: String?

        var isReady: Bool { report != nil || hasEnded }
        var hasOpened: Bool { report.map { $0.phase != .ready } ?? false || hasEnded }
        /// It does nothing more, but keeps what it has open.
        var hasRested: Bool { report.map { $0.phase == .rested || $0.phase == .done } ?? false || hasEnded }
        var isDone: Bool { report?.phase == .done }
        var errorCount: Int { (report?.errors ?? 0) + (failure == nil ? 0 : 1) }
    }

    /// `processes` and `inputs` are filled by `start`, and closed by `stop`, which a signal may call at any time.
    private struct State {
        var members: [Member]
        var processes: [Process] = []
        var inputs: [FileHandle] = []
        var isStopped = false
        /// The signal that ends the demo.
        var interruption: Int32?
    }

    private let state: Mutex<State>

    init(_ cast: DemoCast) {
        state = Mutex(State(members: cast.players.map { Member(player: $0) }))
    }

    var members: [Member] { state.withLock { $0.members } }

    func start(databaseAt url: URL) throws {
        guard let program = Bundle.main.executableURL else { throw ToolError("the path of this program is not known") }
        for (index, member) in members.enumerated() {
            let process = Process()
            process.executableURL = program
            process.arguments = [
                "demo-peer", "--path", url.path, "--name", member.player.name, "--role", member.player.role.rawValue,
            ]
            let (input, output) = (Pipe(), Pipe())
            process.standardInput = input
            process.standardOutput = output
            let isStarted = try state.withLock { state in
                if state.isStopped { return false }
                try process.run()
                state.processes.append(process)
                state.inputs.append(input.fileHandleForWriting)
                state.members[index].pid = process.processIdentifier
                return true
            }
            guard isStarted else { return }
            let reading = output.fileHandleForReading
            Thread.detachNewThread { [self] in listen(to: reading, index) }
        }
    }

    /// Reads reports until the process ends.
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
        let process = state.withLock { $0.processes[index] }
        process.waitUntilExit()
        state.withLock { state in
            state.members[index].hasEnded = true
            if !state.isStopped { state.members[index].failure = Self.failure(process, state.members[index]) }
        }
    }

    private static func failure(_ process: Process, _ member: Member) -> String? {
        switch (process.terminationReason, process.terminationStatus) {
        case (.exit, 0): member.isDone ? nil : "ended without a result"
        case (.exit, let status): "ended with exit code \(status)"
        case (.uncaughtSignal, let signal): "was killed by signal \(signal)"
        @unknown default: "ended abnormally"
        }
    }

    /// Tells all at once.
    func tell(_ command: String) {
        let line = Data("\(command)\n".utf8)
        // A process that is gone cannot be told; its end is noticed by whoever listens to it.
        for input in state.withLock({ $0.inputs }) { try? input.write(contentsOf: line) }
    }

    /// Kills what still runs, and waits for it.
    func stop() {
        let processes = state.withLock { state in
            state.isStopped = true
            return state.processes
        }
        for process in processes where process.isRunning { kill(process.processIdentifier, SIGKILL) }
        for process in processes { process.waitUntilExit() }
    }

    /// Ends the demo: whoever waits is told, and cleans up. From any thread.
    func interrupt(by signal: Int32) {
        state.withLock { $0.interruption = signal }
        stop()
    }

    /// Waits until `condition` holds for all members; false when `deadline` passes.
    func wait(
        until deadline: ContinuousClock.Instant,
        _ condition: (Member) -> Bool,
        _ tick: () -> Void = {}
    ) async throws -> Bool {
        while true {
            if let signal = state.withLock({ $0.interruption }) { throw ExitCode(128 + signal) }
            let now = members
            tick()
            if now.allSatisfy(condition) { return true }
            guard ContinuousClock.now < deadline else { return false }
            try await Task.sleep(for: .milliseconds(50))
        }
    }
}
