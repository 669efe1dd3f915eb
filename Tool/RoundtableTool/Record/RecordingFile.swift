import Foundation
import RoundtableKernel
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The file of a recording, which keeps the last seconds: when it is twice as long, it is replaced by its second half.
///
/// A process that dies leaves at most an incomplete last line behind, which readers ignore, and the next recorder removes.
struct RecordingFile {
    let path: String
    private let keep: Nanoseconds
    private let header: String
    private var file: Int32
    private var size: Int
    /// Where the second half begins; nil while the first one is being written.
    private var half: (offset: Int, since: Nanoseconds)?
    private var since: Nanoseconds

    /// - parameter keep: in ns.
    /// - throws: `ToolError` when there is another file at that path, or when it cannot be written.
    init(path: String, header: String, keep: Nanoseconds) throws {
        (self.path, self.header, self.keep) = (path, header, keep)
        since = MonotonicClock.now
        (file, size) = try Self.openLocked(path)
        do {
            if size > 0 {
                try checkContent()
                try removeIncompleteLine()
            }
            guard size > 0 else {
                try write(header)
                return
            }
            // What was recorded before is the first half. Without this, a recorder that is started again and again would never shorten the file.
            let beginning = try beginningOfLast(keep)
            if beginning > 0 { try replace(from: beginning) }
            let offset = size
            // Not `write(_:)`, which may shorten the file.
            try Self.write(header, to: file, path)
            size += header.utf8.count
            half = (offset, MonotonicClock.now)
        } catch {
            systemClose(file)
            throw error
        }
    }

    /// Opens the file, and locks it against other recorders.
    ///
    /// - returns: the file, which only its owner can read from now on, and its size.
    private static func openLocked(_ path: String) throws -> (file: Int32, size: Int) {
        while true {
            let file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o600)
            guard file >= 0 else {
                guard errno == ELOOP else { throw failure(path, "cannot be opened") }
                throw ToolError("\(path): is a symbolic link, and is not followed. Name the file that it leads to.")
            }
            do {
                let status = try System.status(ofDescriptor: file, path)
                guard status.isRegularFile else { throw refusal(path) }
                guard status.st_uid == geteuid(), status.st_nlink == 1 else {
                    throw ToolError(
                        "\(path): belongs to another user, or has another name (\(status.accessText)), and what is recorded would be read there. Choose another file, or remove it."
                    )
                }
                guard flock(file, LOCK_EX | LOCK_NB) == 0 else {
                    throw ToolError("\(path): another process records into it. Choose another file.")
                }
                // Another recorder may have replaced the file before the lock was taken. Then this one is not at its path any more.
                if try System.identity(ofFileAt: path) == FileIdentity(status) {
                    if status.st_mode & 0o077 != 0 { try System.setMode(0o600, ofDescriptor: file, path) }
                    return (file, Int(try System.status(ofDescriptor: file, path).st_size))
                }
                systemClose(file)
            } catch {
                systemClose(file)
                throw error
            }
        }
    }

    private func checkContent() throws {
        var start = [UInt8](repeating: 0, count: 512)
        let count = pread(file, &start, start.count, 0)
        let text = String(decoding: start.prefix(max(0, count)), as: UTF8.self)
        guard text.hasPrefix("{"), text.contains(#""kind":"recording""#) else { throw Self.refusal(path) }
        try checkDatabase()
    }

    /// Removes what a recorder that was killed has left of a line, because a program that reads the file would take it and the next line
    /// for one.
    private mutating func removeIncompleteLine() throws {
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        var end = size
        while end > 0 {
            let start = max(0, end - buffer.count)
            let count = pread(file, &buffer, end - start, off_t(start))
            guard count == end - start else { throw Self.failure(path, "cannot be read") }
            if let newline = buffer[..<count].lastIndex(of: UInt8(ascii: "\n")) {
                end = start + newline + 1
                break
            }
            end = start
        }
        guard end < size else { return }
        guard ftruncate(file, off_t(end)) == 0 else { throw Self.failure(path, "cannot be shortened") }
        size = end
    }

    private static func refusal(_ path: String) -> ToolError {
        ToolError("\(path): is no recording, and is not overwritten. Choose another file, or remove it.")
    }

    /// Two databases in one recording would look like one.
    private func checkDatabase() throws {
        // The first line has one path, and each of its bytes takes at most six (\u001b).
        var start = [UInt8](repeating: 0, count: 6 * Int(PATH_MAX) + 1024)
        let count = pread(file, &start, start.count, 0)
        let first = start.prefix(max(0, count)).prefix { $0 != UInt8(ascii: "\n") }
        // Of an incomplete line, the database is not known.
        guard let recorded = RecordLine.path(of: Data(first)), let new = RecordLine.path(of: Data(header.utf8)) else {
            return
        }
        func resolved(_ path: String) -> String { URL(fileURLWithPath: path).resolvingSymlinksInPath().path }
        guard resolved(recorded) == resolved(new) else {
            throw ToolError(
                "\(path): is a recording of another database, \(recorded), and is not continued with \(new). Choose another file, or remove it."
            )
        }
    }

    mutating func write(_ line: String) throws {
        let now = MonotonicClock.now
        if let half, now.subtractingSaturating(half.since) >= keep {
            try replace(from: half.offset)
            since = half.since
            self.half = (size, now)
        } else if half == nil, now.subtractingSaturating(since) >= keep {
            half = (size, now)
        }
        try Self.write(line, to: file, path)
        size += line.utf8.count
    }

    func close() { systemClose(file) }

    // MARK: Shortening

    /// Where the last `duration` of what is recorded begins, by the times of its lines; 0 if all of it is that short.
    private func beginningOfLast(_ duration: Nanoseconds) throws -> Int {
        var (first, last): (Double?, Double?)
        try forEachLine { _, time in
            first = first ?? time
            last = time
            return true
        }
        guard let first, let last, first < last - Double(duration) / 1e9 else { return 0 }
        var beginning = 0
        try forEachLine { offset, time in
            beginning = offset
            return time < last - Double(duration) / 1e9
        }
        return beginning
    }

    /// Calls `body` with the offset and the time of each whole line that has a time, until it returns false.
    private func forEachLine(_ body: (Int, Double) -> Bool) throws {
        var rest: [UInt8] = []
        var (position, start) = (0, 0)
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = pread(file, &buffer, buffer.count, off_t(position))
            guard count >= 0 else { throw Self.failure(path, "cannot be read") }
            if count == 0 { return }
            position += count
            var piece = buffer[..<count]
            while let end = piece.firstIndex(of: UInt8(ascii: "\n")) {
                rest += piece[..<end]
                if let time = RecordLine.time(of: rest), !body(start, time) { return }
                start += rest.count + 1
                rest = []
                piece = piece[(end + 1)...]
            }
            rest += piece
        }
    }

    /// Replaces the file by its header and what begins at `offset`. Readers find the old file or the new one.
    private mutating func replace(from offset: Int) throws {
        let name = path + ".new"
        // A recorder that was killed may have left this file behind. Nothing that another user has put there is written to.
        unlink(name)
        let new = open(name, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard new >= 0 else { throw Self.failure(name, "cannot be created") }
        do {
            // The lock is there before the name, so that no other process records into it.
            guard flock(new, LOCK_EX | LOCK_NB) == 0 else { throw Self.failure(name, "is locked") }
            try Self.write(header, to: new, name)
            var (position, copied) = (offset, header.utf8.count)
            var buffer = [UInt8](repeating: 0, count: 1 << 16)
            while true {
                let count = pread(file, &buffer, buffer.count, off_t(position))
                guard count >= 0 else { throw Self.failure(path, "cannot be read") }
                if count == 0 { break }
                try Self.write(buffer.prefix(count), to: new, name)
                position += count
                copied += count
            }
            guard rename(name, path) == 0 else { throw Self.failure(path, "cannot be replaced") }
            systemClose(file)
            (file, size) = (new, copied)
        } catch {
            systemClose(new)
            unlink(name)
            throw error
        }
    }

    private static func write(_ text: String, to file: Int32, _ path: String) throws {
        try write(Array(text.utf8)[...], to: file, path)
    }

    private static func write(_ bytes: ArraySlice<UInt8>, to file: Int32, _ path: String) throws {
        var rest = bytes
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { systemWrite(file, $0.baseAddress, $0.count) }
            if count == -1, errno == EINTR { continue }
            guard count > 0 else { throw failure(path, "cannot be written") }
            rest = rest.dropFirst(count)
        }
    }

    private static func failure(_ path: String, _ what: String) -> ToolError {
        let code = errno
        return ToolError(
            "\(path): \(what): \(String(cString: strerror(code))) (errno \(code)). \(SystemErrorAdvice.next(code))."
        )
    }
}

// The modules are named because methods here have the names of these functions.
#if canImport(Darwin)
    private let systemWrite = Darwin.write
#else
    private let systemWrite = Glibc.write
#endif
