import Foundation

/// A child process of this program that carries a `ParticipantTask` out.
final class ParticipantProcess {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    private let process = Process()
    private let input = Pipe()
    private let output: FileHandle
    private let outputFile: URL
    private let name: String
    /// Whether it goes on by itself until its schedule ends.
    private var isBusy = false

    /// - parameter folder: where the child's output goes; a file holds any amount of it while nobody reads.
    convenience init(_ task: ParticipantTask, in folder: URL) throws {
        let json = String(decoding: try JSONEncoder().encode(task), as: UTF8.self)
        try self.init(["participant", json], name: "\(task.side) participant \(task.author)", in: folder)
    }

    /// - parameter arguments: those of this program, for a command that says `ready` and ends when its input does.
    convenience init(_ arguments: [String], name: String, in folder: URL) throws {
        guard let executable = Bundle.main.executableURL else {
            throw Failure(description: "cannot find the executable of this process, to start it again")
        }
        try self.init(executable, arguments, name: name, in: folder)
    }

    /// - parameter arguments: those of another program, which does the same.
    init(_ executable: URL, _ arguments: [String], name: String, in folder: URL) throws {
        outputFile = folder.appendingPathComponent("participant-\(UUID().uuidString)")
        guard FileManager.default.createFile(atPath: outputFile.path, contents: nil) else {
            throw Failure(description: "\(outputFile.path): cannot be created")
        }
        output = try FileHandle(forWritingTo: outputFile)
        self.name = name
        process.executableURL = executable
        process.arguments = arguments
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        try input.fileHandleForReading.close()
    }

    var pid: Int32 { process.processIdentifier }

    private var label: String { "\(name) (pid \(process.processIdentifier))" }

    /// Until the child has opened its database.
    func waitUntilReady() throws {
        try waitForOutput("open its database", seconds: 60) { $0.starts(with: Self.ready) }
    }

    func start(_ schedule: Schedule) throws {
        isBusy = true
        try input.fileHandleForWriting.write(contentsOf: JSONEncoder().encode(schedule) + Data("\n".utf8))
    }

    /// Whether the child has said this, after that it is ready.
    func hasSaid(_ text: String) throws -> Bool {
        try check(isRunning: "say '\(text)'")
        return try Data(contentsOf: outputFile).dropFirst(Self.ready.count).starts(with: Data(text.utf8))
    }

    func signal(_ number: Int32) {
        if process.isRunning { kill(process.processIdentifier, number) }
    }

    /// Says that there is no more to come.
    func closeInput() { try? input.fileHandleForWriting.close() }

    /// Waits for the child to end.
    ///
    /// - parameter seconds: how long it may take.
    func result<Result: Decodable>(_ type: Result.Type, within seconds: Double) throws -> Result {
        closeInput()
        try waitForEnd(seconds: seconds, mayContinue: Interruption.check)
        isBusy = false
        guard process.terminationReason == .exit, process.terminationStatus == 0 else {
            throw Failure(description: "\(label) ended with \(process.terminationStatus)")
        }
        return try JSONDecoder().decode(
            type,
            from: Data(contentsOf: outputFile).dropFirst(Self.ready.count)
        )
    }

    /// Makes sure that the child is gone. It ends by itself when its input does, unless it is busy.
    func end() {
        closeInput()
        if isBusy { signal(SIGKILL) }
        try? waitForEnd(seconds: 10)
        try? output.close()
        try? FileManager.default.removeItem(at: outputFile)
    }

    private static let ready = Data("ready\n".utf8)

    private func waitForOutput(_ what: String, seconds: Double, _ isThere: (Data) -> Bool) throws {
        let deadline = Clock.now + Nanoseconds(seconds: seconds)
        while !isThere(try Data(contentsOf: outputFile)) {
            try Interruption.check()
            try check(isRunning: what)
            guard Clock.now < deadline else {
                throw Failure(description: "\(label) did not \(what) in \(seconds) s")
            }
            Clock.sleep(until: Clock.now + 2_000_000)
        }
    }

    private func check(isRunning what: String) throws {
        guard process.isRunning else {
            throw Failure(description: "\(label) ended with \(process.terminationStatus) before it could \(what)")
        }
    }

    /// - parameter mayContinue: throws when this process waits no longer.
    private func waitForEnd(seconds: Double, mayContinue: () throws -> Void = {}) throws {
        let deadline = Clock.now + Nanoseconds(seconds: seconds)
        while process.isRunning {
            try mayContinue()
            guard Clock.now < deadline else {
                kill(process.processIdentifier, SIGKILL)
                process.waitUntilExit()
                throw Failure(description: "\(label) did not end in \(seconds) s, and was killed")
            }
            Clock.sleep(until: Clock.now + 2_000_000)
        }
    }
}
