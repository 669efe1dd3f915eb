import Foundation
import RoundtableKernel

/// Asks the owner for the outcome of a command (rule X10).
package struct OutboxQuestion: Sendable {
    package let id: UUID
    package let folder: OutboxFolder

    package init(id: UUID, folder: OutboxFolder) { (self.id, self.folder) = (id, folder) }

    /// The name of the question's file and of the answer's file.
    private var name: String { id.uuidString }

    /// The interval between two looks where folders cannot be watched, in nanoseconds.
    package static let interval: Nanoseconds = 250_000_000

    /// The queue that looks for the answers of all waiting tasks, so that no task occupies a thread while it waits.
    private static let looking = DispatchQueue(label: "roundtable.outbox.questions")

    func answer(within time: Duration) async throws -> OutboxOutcome {
        // The limit is longer than a question is kept.
        let end = ContinuousClock.now + min(max(time, .zero), .seconds(7 * 24 * 3600))
        let first = try await look(makingFolders: true)
        if first.isDecided || time <= .zero { return first }
        let wakes = TaskWakes()
        let listening = listen { wakes.wake() }
        defer { withExtendedLifetime(listening) {} }
        while true {
            let outcome = try await look()
            if outcome.isDecided || ContinuousClock.now >= end { return outcome }
            await wakes.next(until: end)
            try Task.checkCancellation()
        }
    }

    private func look(makingFolders: Bool = false) async throws -> OutboxOutcome {
        try await withCheckedContinuation { continuation in
            Self.looking.async {
                continuation.resume(returning: Result { try self.lookOrAsk(makingFolders: makingFolders) })
            }
        }.get()
    }

    func answer(until deadline: Nanoseconds) throws -> OutboxOutcome {
        let first = try lookOrAsk(makingFolders: true)
        if first.isDecided || MonotonicClock.now >= deadline { return first }
        let news = MonotonicSemaphore()
        let listening = listen { news.signal() }
        defer { withExtendedLifetime(listening) {} }
        while true {
            let outcome = try lookOrAsk()
            if outcome.isDecided || MonotonicClock.now >= deadline { return outcome }
            _ = news.wait(until: deadline)
        }
    }

    private func listen(_ body: @escaping @Sendable () -> Void) -> FolderNews.Listening {
        FolderNews.listen(to: folder.path(of: .answers), body)
    }

    private func lookOrAsk(makingFolders: Bool = false) throws -> OutboxOutcome {
        try folder.translating {
            if makingFolders { try folder.make() }
            if let outcome = try takeAnswer() { return outcome }
            do {
                try ask(folder.access())
            } catch let error as SystemError where error.isFolderGone && !makingFolders {
                // The outbox, or a part of it, was removed.
                try folder.make()
                try ask(folder.access())
            }
            return try folder.missingDatabase.map { .noDatabase(path: $0) } ?? .waiting
        }
    }

    /// Creates the question's file, unless the file exists or the question is answered.
    package func ask(_ access: FileAccess?) throws {
        if try folder.status(of: name, in: .answers) != nil { return }
        do {
            try folder.open(.questions).makeFile(name, [], access: access, isDurable: false)
        } catch let error as SystemError where error.isAlreadyThere {
            // Another process has asked the same question.
        }
    }

    /// Writes the answer for the processes that ask now or have asked before.
    ///
    ///     the owner                  a process that asked      another process, with the same question
    ///     puts the answer
    ///                                takes it
    ///                                                          finds no answer, and a question that is there
    ///     removes the question
    ///
    /// The question of the second process is removed with that of the first. If the answer is gone by then, it is written once more.
    package func answer(_ outcome: OutboxOutcome, _ access: FileAccess?) throws {
        let questions = try folder.open(.questions)
        let bytes = OutboxAnswer.bytes(outcome)
        try folder.put(bytes, as: name, in: .answers, access: access)
        try questions.removeFile(name)
        if try folder.status(of: name, in: .answers) != nil { return }
        try folder.put(bytes, as: name, in: .answers, access: access)
    }

    /// Answers a pending question with *dropped*. If there is no question, an earlier answer is removed, because it no longer holds.
    package func answerDropped() throws {
        guard try folder.status(of: name, in: .questions) != nil else { return withdrawAnswer() }
        try answer(.dropped, folder.access())
    }

    /// Removes an earlier answer, because it no longer holds.
    package func withdrawAnswer() { folder.removeIfPossible(name, from: .answers) }

    /// Reads the answer, and removes it. A damaged answer is removed, too.
    ///
    /// - returns: nil when there is no whole answer.
    package func takeAnswer() throws -> OutboxOutcome? {
        guard let answers = try folder.openIfThere(.answers) else { return nil }
        let bytes: [UInt8]
        do {
            let limit = OutboxAnswer.maximumSize
            guard let found = try answers.contents(ofFile: name, limit: limit, notOf: folder.databasePath) else {
                return nil
            }
            bytes = found
        } catch is LockedFileError {
            bytes = []
        } catch let error as SystemError where error.call == .read && error.errno == EINVAL {
            // The name is that of a symbolic link or a pipe.
            bytes = []
        }
        try answers.removeFile(name)
        // A damaged answer gives nil, and the question is asked again.
        return OutboxAnswer.outcome(in: bytes)
    }
}

extension OutboxOutcome {
    fileprivate var isDecided: Bool {
        switch self {
        case .applied, .setAside, .dropped: true
        case .waiting, .noDatabase: false
        }
    }
}

/// The file that holds an answer: magic, format and outcome (4 bytes each), length and checksum of the reason (8 bytes each), the reason.
enum OutboxAnswer {
    private static let magic = [UInt8]("RTANSW\r\n".utf8)
    private static let format: UInt32 = 1
    private static let headerSize = 32
    static let maximumSize = 1 << 20
    private static let maximumReason = 64 << 10

    static func bytes(_ outcome: OutboxOutcome) -> [UInt8] {
        let (code, reason): (UInt32, String) =
            switch outcome {
            case .applied: (1, "")
            case .setAside(.failed, let error): (2, error)
            case .dropped: (3, "")
            case .setAside(.unknown, let error): (4, error)
            case .setAside(.undecodable, let error): (5, error)
            case .setAside(.refused, let error): (6, error)
            case .waiting, .noDatabase: (0, "")
            }
        let text = [UInt8](reason.utf8.prefix(maximumReason))
        var writer = ByteWriter()
        writer.append(magic)
        writer.append(format)
        writer.append(code)
        writer.append(UInt64(text.count))
        writer.append(Checksum.fnv1a(writer.bytes + text))
        return writer.bytes + text
    }

    /// Decodes an answer; nil for anything else.
    static func outcome(in bytes: [UInt8]) -> OutboxOutcome? {
        guard bytes.count >= headerSize else { return nil }
        var reader = ByteReader(bytes)
        guard reader.bytes(8) == magic, reader.integer(UInt32.self) == format else { return nil }
        let code = reader.integer(UInt32.self)
        guard reader.integer(UInt64.self) == UInt64(bytes.count - headerSize) else { return nil }
        guard Checksum.fnv1a(bytes[..<24] + bytes[headerSize...]) == reader.integer(UInt64.self) else { return nil }
        let error = String(decoding: bytes[headerSize...], as: UTF8.self)
        switch code {
        case 1: return .applied
        case 2: return .setAside(.failed, error: error)
        case 3: return .dropped
        case 4: return .setAside(.unknown, error: error)
        case 5: return .setAside(.undecodable, error: error)
        case 6: return .setAside(.refused, error: error)
        default: return nil
        }
    }
}
