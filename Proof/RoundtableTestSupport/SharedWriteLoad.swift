import Foundation

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The work of a peer with many tasks that write at the same time, some of which fail in every way there is, until a command arrives.
package struct SharedWriteLoad: Codable, Sendable {
    package var tasks: Int
    /// The path of a ``SharedWriteJournal``.
    package var journal: String
    package var seed: UInt64
    /// The pause of each task between two writes.
    package var pauseMilliseconds: Int?

    package init(tasks: Int, journal: String, seed: UInt64) {
        self.tasks = tasks
        self.journal = journal
        self.seed = seed
    }

    /// A row says that `author` committed its write number `n`. Nothing but the writes themselves keeps a row from being there twice.
    package static let tables = """
        CREATE TABLE sharedWrite (id INTEGER PRIMARY KEY, author TEXT NOT NULL, n INTEGER NOT NULL);
        CREATE TABLE sharedWriteChild (parent INTEGER REFERENCES sharedWrite DEFERRABLE INITIALLY DEFERRED);
        """
}

/// A file with the outcomes that the callers of writes received. It survives `kill -9`.
package final class SharedWriteJournal: Sendable {
    package enum Outcome: String, Sendable {
        case acknowledged = "a"
        case failed = "f"
        /// The write had another outcome than it must have.
        case wrong = "w"
    }

    private let descriptor: Int32

    package init(appendingTo path: String) throws {
        descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o666)
        try check(descriptor, "open \(path)")
    }

    deinit { close(descriptor) }

    /// Appends with one system call. Safe from any thread.
    package func record(_ outcome: Outcome, of number: Int) throws {
        let text = Array("\(outcome.rawValue) \(number)\n".utf8)
        try check(Int32(truncatingIfNeeded: write(descriptor, text, text.count)), "write")
    }

    /// Reads a file. A last line that its writer did not finish is left out.
    package static func read(_ path: String) throws -> [(outcome: Outcome, number: Int)] {
        guard FileManager.default.fileExists(atPath: path) else { return [] }
        let text = try String(contentsOfFile: path, encoding: .utf8)
        return text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().compactMap { line in
            let words = line.split(separator: " ")
            guard words.count == 2, let outcome = Outcome(rawValue: String(words[0])), let number = Int(words[1]) else {
                return nil
            }
            return (outcome, number)
        }
    }
}
