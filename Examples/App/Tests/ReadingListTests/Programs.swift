#if os(Linux)
    import Foundation
    import Glibc
    import Synchronization

    /// The three programs, and the folder that they share.
    struct Programs: ~Copyable {
        let folder: URL

        init() throws {
            folder = FileManager.default.temporaryDirectory.appendingPathComponent("reading-list-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        }

        deinit { try? FileManager.default.removeItem(at: folder) }

        func share(_ urls: String...) throws -> String { try Self.run("share", [folder.path] + urls) }
        func widget(_ arguments: String...) throws -> String { try Self.run("widget", [folder.path] + arguments) }
        func app(environment: [String: String] = [:]) throws -> RunningApp {
            try RunningApp(Self.process("app", [folder.path], environment))
        }

        /// Starts to share links, one after the other, each of another page.
        func startSharing() throws -> Sharing { try Sharing(from: folder) }

        /// Waits until the widget shows a text.
        func widgetShows(_ text: String) throws {
            try eventually("the widget shows '\(text)'") { try widget().contains(text) }
        }

        /// Runs a program to its end.
        ///
        /// - returns: what it has printed, without the last newline.
        static func run(_ name: String, _ arguments: [String]) throws -> String {
            let process = process(name, arguments, [:])
            let output = Pipe()
            process.standardOutput = output
            try process.run()
            let bytes = try output.fileHandleForReading.readToEnd() ?? Data()
            process.waitUntilExit()
            guard process.terminationStatus == 0 else {
                throw Failure("\(name) has ended with \(process.terminationStatus)")
            }
            return String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .newlines)
        }

        /// The programs are beside this one, in the folder of the build.
        fileprivate static func process(
            _ name: String,
            _ arguments: [String],
            _ environment: [String: String]
        ) -> Process {
            let process = Process()
            let this = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
            process.executableURL = this.deletingLastPathComponent().appendingPathComponent(name)
            process.arguments = arguments
            process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
            return process
        }
    }

    /// The share extension, which shares 300 links, and more when asked: a fast machine shares 300 soon.
    final class Sharing {
        private let folder: URL
        private var process: Process
        private(set) var count = 0

        fileprivate init(from folder: URL) throws {
            self.folder = folder
            process = Programs.process("share", [], [:])
            try share()
        }

        private func share() throws {
            let links = (count + 1...count + 300).map { "https://\($0).example" }
            process = Programs.process("share", [folder.path] + links, [:])
            process.standardOutput = FileHandle.nullDevice
            try process.run()
            count += links.count
        }

        var isRunning: Bool { process.isRunning }

        /// Shares more links if all were shared.
        func goOn() throws {
            if !process.isRunning { try share() }
        }

        func waitUntilExit() { process.waitUntilExit() }
    }

    /// The app, which runs until it is ended. It is killed when the test forgets it.
    final class RunningApp {
        private let process: Process
        private let input = Pipe()
        private let output = Lines()

        var pid: Int32 { process.processIdentifier }

        /// Starts the app, and waits until it has opened its database.
        init(_ process: Process) throws {
            self.process = process
            process.standardInput = input
            process.standardOutput = output.pipe
            try process.run()
            output.follow()
            _ = try line { $0.hasPrefix("The app runs.") }
        }

        deinit { kill() }

        /// Kills the app if it runs.
        func kill() {
            guard process.isRunning else { return }
            Glibc.kill(pid, SIGKILL)
            process.waitUntilExit()
        }

        /// Types a line, and waits for the answer that ends with `last`.
        ///
        /// - returns: the lines of the answer.
        func type(_ text: String, until last: String) throws -> [String] {
            try input.fileHandleForWriting.write(contentsOf: Data("\(text)\n".utf8))
            return try line { $0.hasSuffix(last) }
        }

        /// Ends the app as its user does, and waits for that.
        func end() throws {
            try input.fileHandleForWriting.close()
            _ = try line { $0 == "The app has ended." }
            process.waitUntilExit()
        }

        /// Sends the signal of Ctrl-Z, and waits until the app has stopped itself.
        func suspend() throws {
            Glibc.kill(pid, SIGTSTP)
            try eventually("the app is stopped") {
                // The state follows the name, which is in parentheses: proc_pid_stat(5).
                try String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8).contains("(app) T")
            }
        }

        func resume() { Glibc.kill(pid, SIGCONT) }

        private func line(_ isLast: (String) -> Bool) throws -> [String] {
            var lines: [String] = []
            try eventually("the app answers") {
                while let line = output.next() {
                    lines.append(line)
                    if isLast(line) { return true }
                }
                return false
            } details: {
                "it has printed \(lines)"
            }
            return lines
        }
    }

    /// The lines that a process prints.
    private final class Lines: Sendable {
        let pipe = Pipe()
        private let bytes = Mutex(Data())

        func follow() {
            Thread.detachNewThread { [self] in
                while case let data = pipe.fileHandleForReading.availableData, !data.isEmpty {
                    bytes.withLock { $0.append(data) }
                }
            }
        }

        /// The next whole line; nil if there is none yet.
        func next() -> String? {
            bytes.withLock { bytes in
                guard let end = bytes.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
                defer { bytes = Data(bytes[(end + 1)...]) }
                return String(decoding: bytes[..<end], as: UTF8.self)
            }
        }
    }

    struct Failure: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    /// Waits until a condition holds, at most a minute.
    func eventually(
        _ what: String,
        _ condition: () throws -> Bool,
        details: () -> String = { "" }
    ) throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while try !condition() {
            guard ContinuousClock.now < deadline else {
                throw Failure("a minute has passed, and not: \(what). \(details())")
            }
            usleep(2_000)
        }
    }
#endif
