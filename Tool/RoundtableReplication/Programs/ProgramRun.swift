import Foundation
import RoundtableKernel
import RoundtableProcesses
import RoundtableToolSupport
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A run of a program, whose output is captured. One thread waits for it; any thread may end it.
///
/// A run that is given up (`deinit`) is killed and reaped.
final class ProgramRun: Sendable {
    /// The number that the pipe with the configuration has in the program.
    static let configurationDescriptor: Int32 = 3
    /// The numbers that the folders have in the program, as many as a program gets at most.
    private static let folderDescriptors: Range<Int32> = 4..<6
    /// Descriptors from this one on are none of those that a program has.
    static let freeDescriptor = folderDescriptors.upperBound

    /// The path by which a program reaches one of its folders. On Linux, it leads to the open folder, wherever its name leads.
    static func path(of folder: OpenFolder, at index: Int = 0) -> String {
        #if os(Linux)
            "/dev/fd/\(folderDescriptors.lowerBound + Int32(index))"
        #else
            folder.path
        #endif
    }

    /// Lets a program inherit folders.
    ///
    /// - returns: descriptors for the caller to close when the program is started.
    static func pass(_ folders: [OpenFolder], to launch: inout ProgramLaunch) throws -> [Int32] {
        var copies: [Int32] = []
        for (number, folder) in zip(folderDescriptors, folders) {
            let copy = fcntl(folder.descriptor, F_DUPFD_CLOEXEC, freeDescriptor)
            guard copy != -1 else {
                let error = POSIXError.last
                for copy in copies { close(copy) }
                throw error
            }
            copies.append(copy)
            launch.descriptors[number] = copy
        }
        return copies
    }

    let pid: Int32
    private let state: Mutex<State>

    private struct State {
        var output: Capture
        var errors: Capture
        /// How the program ended; nil until it is reaped. No signal is sent afterwards, because the pid may be that of another process.
        var exit: ProgramExit?
    }

    /// - Parameters:
    ///   - configuration: what the program reads from ``configurationDescriptor``.
    ///   - folders: what the program reaches by ``path(of:at:)``.
    init(_ launch: ProgramLaunch, configuration: String? = nil, folders: [OpenFolder] = []) throws {
        var launch = launch
        var inherited: [Int32] = []
        defer { for descriptor in inherited { close(descriptor) } }
        let output = try ProgramPipe.make()
        inherited.append(output.writing)
        var captures = [Capture(output.reading)]
        var isStarted = false
        defer { if !isStarted { for capture in captures { close(capture.descriptor) } } }
        let errors = try ProgramPipe.make()
        inherited.append(errors.writing)
        captures.append(Capture(errors.reading))
        guard let none = ProgramPipe.aside(open("/dev/null", O_RDONLY | O_CLOEXEC)) else { throw POSIXError.last }
        inherited.append(none)
        launch.descriptors = [STDIN_FILENO: none, STDOUT_FILENO: output.writing, STDERR_FILENO: errors.writing]
        if let configuration {
            let pipe = try ProgramPipe.filled(with: configuration)
            inherited.append(pipe)
            launch.descriptors[Self.configurationDescriptor] = pipe
        }
        inherited += try Self.pass(folders, to: &launch)
        pid = try launch.start().mapError { ToolError("\($0)") }.get()
        isStarted = true
        state = Mutex(State(output: captures[0], errors: captures[1]))
    }

    deinit {
        signal(SIGKILL)
        while (try? wait(upTo: 1000)) == .some(nil) {}
    }

    /// Sends a signal, unless the program has been reaped.
    func signal(_ number: Int32) {
        state.withLock { if $0.exit == nil { kill(pid, number) } }
    }

    /// A program may close its output and go on, and a child of the program may keep the output open.
    private static let interval = Duration.milliseconds(50)

    /// Waits until the program has ended.
    ///
    /// - Parameters:
    ///   - milliseconds: how long to wait at most.
    ///   - patience: how long after the program its children may write. What the program has written itself is read in any case.
    /// - returns: nil when the time is over.
    func wait(upTo milliseconds: Int32, patience: Duration = .milliseconds(100)) throws -> ProgramOutput? {
        let deadline = ContinuousClock.now + .milliseconds(milliseconds)
        var endOfOutput: ContinuousClock.Instant?
        while true {
            let open = state.withLock { [$0.output, $0.errors].filter(\.isOpen).map(\.descriptor) }
            // After it is reaped, the pid may be that of another child.
            if endOfOutput == nil, state.withLock({ $0.exit != nil }) || ProgramExit.hasEnded(pid, waits: false) {
                endOfOutput = .now + patience
            }
            if let endOfOutput, open.isEmpty || .now >= endOfOutput { return reap() }
            let rest = (endOfOutput ?? deadline) - .now
            guard rest > .zero else { return nil }
            let left = min(rest, open.isEmpty ? .milliseconds(2) : Self.interval) / .milliseconds(1)
            var requests = open.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            // Without the lock, so that `signal` can be called.
            let count = poll(&requests, nfds_t(requests.count), Int32(left.rounded(.up)))
            if count == -1, errno != EINTR { throw POSIXError.last }
            guard count > 0 else { continue }
            for request in requests where request.revents != 0 {
                state.withLock {
                    if $0.output.descriptor == request.fd { $0.output.read() } else { $0.errors.read() }
                }
            }
        }
    }

    private func reap() -> ProgramOutput {
        state.withLock { state in
            let exit = state.exit ?? ProgramExit.reap(pid, waits: true) ?? .unknown
            state.exit = exit
            state.output.drain()
            state.errors.drain()
            return ProgramOutput(
                exit: exit,
                standardOutput: state.output.text,
                standardError: state.errors.text
            )
        }
    }

    /// What has been read from a pipe.
    private struct Capture {
        let descriptor: Int32
        private(set) var isOpen = true
        private var bytes: [UInt8] = []

        init(_ descriptor: Int32) { self.descriptor = descriptor }

        var text: String { String(decoding: bytes, as: UTF8.self) }

        mutating func read() {
            var buffer = [UInt8](repeating: 0, count: 65536)
            let count = systemRead(descriptor, &buffer, buffer.count)
            if count > 0 {
                bytes += buffer[..<count]
            } else if count == 0 || errno != EINTR {
                end()
            }
        }

        /// Reads what is in the pipe, which holds 1 MiB at most, and closes it. A child of the program may go on writing.
        mutating func drain() {
            for _ in 0..<16 where isOpen {
                var request = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                guard poll(&request, 1, 0) > 0 else { break }
                read()
            }
            end()
        }

        private mutating func end() {
            if isOpen { close(descriptor) }
            isOpen = false
        }
    }
}

/// What a run of a program that has ended has written.
struct ProgramOutput: Equatable, Sendable {
    let exit: ProgramExit
    let standardOutput: String
    let standardError: String
}

extension ProgramExit {
    /// A part of a sentence, as `exit code 1`.
    var sentence: String {
        switch self {
        case .status(let code): "exit code \(code)"
        case .signal(let number): "signal \(number)"
        case .unknown: "an exit code that is not known, because SIGCHLD is ignored"
        }
    }
}

// The modules are named because `read` and `write` are also methods of types that call them.
#if canImport(Darwin)
    private let systemRead = Darwin.read
    private let systemWrite = Darwin.write
#else
    private let systemRead = Glibc.read
    private let systemWrite = Glibc.write
#endif

extension POSIXError {
    /// The error of the system call that has just failed.
    static var last: POSIXError { POSIXError(Code(rawValue: errno) ?? .EIO) }
}
