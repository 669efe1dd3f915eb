import Foundation
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The program `roundtable record` as a child, whose lines become events. When it ends, it is started again.
///
/// It looks at the database in the place of this program. While this program is stopped, the child waits for room in the pipe, between two
/// looks: it then holds nothing of the database.
final class RecorderProcess: Sendable {
    private let program: URL
    private let arguments: [String]
    private let events: LiveEvents
    /// nil while none runs. `isStopping` keeps another one from being started.
    private let child = Mutex<(process: Process?, isStopping: Bool)>((nil, false))

    private static let pauseBeforeRestart: TimeInterval = 2
    /// No line is longer.
    private static let mostBytes = 64 << 20

    init(program: URL, arguments: [String], events: LiveEvents) {
        (self.program, self.arguments, self.events) = (program, arguments, events)
    }

    /// Finds the tool: at `path`, beside this program, or in `PATH`.
    ///
    /// - throws: `InspectorError` when there is none.
    static func find(_ path: String?) throws -> URL {
        let isProgram = { FileManager.default.isExecutableFile(atPath: $0) }
        if let path {
            guard isProgram(path) else { throw InspectorError("\(path): is no program. --tool names 'roundtable'.") }
            return URL(fileURLWithPath: path)
        }
        let own = Bundle.main.executableURL?.resolvingSymlinksInPath().deletingLastPathComponent().path
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        for folder in [own].compactMap(\.self) + folders where isProgram(folder + "/roundtable") {
            return URL(fileURLWithPath: folder + "/roundtable")
        }
        throw InspectorError("the program 'roundtable' is neither beside this one nor in PATH. Name it with --tool.")
    }

    /// Starts the child, and two threads: one reads its lines, one keeps connections alive.
    func start() {
        Thread.detachNewThread { [self] in
            while runOnce() { Thread.sleep(forTimeInterval: Self.pauseBeforeRestart) }
        }
        Thread.detachNewThread { [events] in
            while true {
                Thread.sleep(forTimeInterval: 5)
                events.keepAlive()
            }
        }
    }

    func stop() {
        child.withLock { child in
            child.isStopping = true
            if let process = child.process, process.isRunning { process.terminate() }
        }
    }

    /// Runs the child until it ends.
    ///
    /// - returns: whether to start another one.
    private func runOnce() -> Bool {
        let process = Process()
        let output = Pipe()
        process.executableURL = program
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        do {
            let isStarted = try child.withLock { child in
                if child.isStopping { return false }
                try process.run()
                child.process = process
                return true
            }
            guard isStarted else { return false }
        } catch {
            report("'\(program.path)' cannot be started: \(error)")
            return true
        }
        read(output.fileHandleForReading)
        process.waitUntilExit()
        let isStopping = child.withLock { child in
            child.process = nil
            return child.isStopping
        }
        if !isStopping {
            report("The recorder has ended with \(process.terminationStatus), and is started again.")
        }
        return !isStopping
    }

    private func read(_ file: FileHandle) {
        var rest = Data()
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            // Waits for the first bytes alone; FileHandle's methods wait for all that they were asked for, or trap on errors.
            let count = systemRead(file.fileDescriptor, &buffer, buffer.count)
            if count == -1, errno == EINTR { continue }
            guard count > 0 else { return }
            rest.append(contentsOf: buffer.prefix(count))
            if let end = rest.lastIndex(of: UInt8(ascii: "\n")) {
                for line in rest[rest.startIndex..<end].split(separator: UInt8(ascii: "\n")) {
                    let text = String(decoding: line, as: UTF8.self)
                    events.add(text, isHeader: text.contains(#""kind":"recording""#) && text.utf8.count < 8192)
                }
                rest = Data(rest[(end + 1)...])
            }
            if rest.count > Self.mostBytes { rest = Data() }
        }
    }

    private func report(_ message: String) {
        let line = Problem(time: Date().timeIntervalSince1970, message: message)
        guard let data = try? JSONEncoder().encode(line) else { return }
        events.add(String(decoding: data, as: UTF8.self))
    }

    private struct Problem: Encodable {
        var kind = "problem"
        let time: Double
        let message: String
    }
}

// The module is named because the class has a method of this name.
#if canImport(Darwin)
    private let systemRead = Darwin.read
#else
    private let systemRead = Glibc.read
#endif
