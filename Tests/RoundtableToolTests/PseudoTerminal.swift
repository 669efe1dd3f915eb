import Foundation
import RoundtableKernel
import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A terminal without a screen, in which a program runs as it does in a window. It needs setsid(1), so that the terminal is the program's own
/// and sends it the signals of its keys.
final class PseudoTerminal {
    static let launcher = URL(fileURLWithPath: "/usr/bin/setsid")
    static var isPossible: Bool { FileManager.default.isExecutableFile(atPath: launcher.path) }

    private let master: Int32
    private let slave: Int32
    private let process = Process()
    /// The flags of the terminal before the program began, which may change them at once.
    let initialFlags: [tcflag_t]
    /// All that the program has written.
    private(set) var output = ""
    private var bytes: [UInt8] = []

    /// - parameter environment: what is added to the environment.
    init(
        _ arguments: [String],
        in folder: Folder,
        columns: UInt16 = 80,
        rows: UInt16 = 24,
        environment: [String: String] = [:]
    ) throws {
        let name: String
        (master, name) = try Self.open()
        slave = systemOpen(name, O_RDWR | O_NOCTTY)
        var settings = termios()
        tcgetattr(slave, &settings)
        initialFlags = Self.flags(settings)
        try #require(slave >= 0)
        _ = fcntl(master, F_SETFL, O_NONBLOCK)
        _ = fcntl(master, F_SETFD, FD_CLOEXEC)
        resize(columns: columns, rows: rows)
        let tty = FileHandle(fileDescriptor: slave)
        process.executableURL = Self.launcher
        process.arguments = ["--ctty", "--wait"] + arguments
        process.currentDirectoryURL = folder.url
        var variables = ProcessInfo.processInfo.environment
        variables["NO_COLOR"] = nil
        variables["TERM"] = "xterm"
        variables["TMPDIR"] = folder.url.path
        process.environment = variables.merging(environment) { $1 }
        process.standardInput = tty
        process.standardOutput = tty
        process.standardError = tty
        try process.run()
    }

    /// - returns: the side of the screen and the keys, and the name of the program's side.
    private static func open() throws -> (Int32, String) {
        #if canImport(Darwin)
            let master = posix_openpt(O_RDWR | O_NOCTTY)
            try #require(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0)
            return (master, String(cString: ptsname(master)))
        #else
            // What posix_openpt(3) and its like do, which Swift does not see (ioctl_tty(2)).
            let master = systemOpen("/dev/ptmx", O_RDWR | O_NOCTTY)
            try #require(master >= 0)
            var (isLocked, number): (Int32, UInt32) = (0, 0)
            let (setLock, getNumber): (UInt, UInt) = (0x4004_5431, 0x8004_5430)
            try #require(ioctl(master, setLock, &isLocked) == 0 && ioctl(master, getNumber, &number) == 0)
            return (master, "/dev/pts/\(number)")
        #endif
    }

    deinit {
        if process.isRunning {
            // The end of the terminal ends its programs.
            close(master)
            process.waitUntilExit()
        } else {
            close(master)
        }
        close(slave)
    }

    func resize(columns: UInt16, rows: UInt16) {
        var size = winsize(ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
        _ = ioctl(master, UInt(TIOCSWINSZ), &size)
    }

    func press(_ keys: String) {
        let bytes = Array(keys.utf8)
        _ = bytes.withUnsafeBytes { write(master, $0.baseAddress, $0.count) }
    }

    /// Whether keys are read as they are pressed, and not shown.
    var isRaw: Bool { settings.c_lflag & tcflag_t(ICANON | ECHO) == 0 }

    var settings: termios {
        var settings = termios()
        tcgetattr(slave, &settings)
        return settings
    }

    static func flags(_ settings: termios) -> [tcflag_t] {
        [settings.c_iflag, settings.c_oflag, settings.c_cflag, settings.c_lflag]
    }

    /// Waits until what is written after `start` contains `text`.
    @discardableResult
    func wait(
        for text: String,
        after start: Int = 0,
        _ location: SourceLocation = #_sourceLocation
    ) throws -> String {
        try wait("'\(text)'", location) { $0.output.dropFirst(start).contains(text) }
        return String(output.dropFirst(start))
    }

    func wait(
        _ what: String,
        isRead: Bool = true,
        _ location: SourceLocation = #_sourceLocation,
        until condition: (PseudoTerminal) throws -> Bool
    ) throws {
        let deadline = MonotonicClock.now + 30_000_000_000
        while true {
            if isRead { collect(for: 20) } else { usleep(20_000) }
            if try condition(self) { return }
            try #require(
                MonotonicClock.now < deadline,
                "\(what) did not come. Written: \(output.debugDescription)",
                sourceLocation: location
            )
        }
    }

    /// Reads nothing until the terminal takes no more text.
    func waitUntilFull() throws {
        try wait("a full terminal", isRead: false) { terminal in
            var request = pollfd(fd: terminal.slave, events: Int16(POLLOUT), revents: 0)
            return poll(&request, 1, 0) == 0
        }
    }

    var isRunning: Bool { process.isRunning }

    /// Whether the program has changed the flags that it shares with the test.
    var isNonBlocking: Bool { fcntl(slave, F_GETFL) & O_NONBLOCK != 0 }

    /// Waits for the program's end, and returns its exit code.
    ///
    /// - parameter isRead: whether to read meanwhile what it writes.
    func waitForEnd(isRead: Bool = true, _ location: SourceLocation = #_sourceLocation) throws -> Int32 {
        try wait("the end", isRead: isRead, location) { !$0.process.isRunning }
        collect(for: 0)
        return process.terminationStatus
    }

    private func collect(for milliseconds: Int32) {
        var request = pollfd(fd: master, events: Int16(POLLIN), revents: 0)
        guard poll(&request, 1, milliseconds) > 0 else { return }
        var buffer = [UInt8](repeating: 0, count: 65536)
        while true {
            let count = read(master, &buffer, buffer.count)
            guard count > 0 else { break }
            bytes += buffer[..<count]
        }
        output = String(decoding: bytes, as: UTF8.self)
    }
}

// The class has a method of this name.
private func systemOpen(_ path: String, _ flags: Int32) -> Int32 { open(path, flags) }
