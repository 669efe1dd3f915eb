import Foundation
import RoundtableFiles

/// The commands of one listing that are still to be decided. They are taken from all senders in rotation, and in order from each.
struct OutboxQueues {
    /// The limits of what is read ahead: a number of commands, and the bytes of their payloads.
    static let maximumCount = 100
    static let maximumBytes = 4 << 20

    private struct Queue {
        let sender: String
        var names: ArraySlice<CommandFileName>
    }

    private var queues: [Queue]
    /// The commands that were read, in the order in which they are to be decided.
    private(set) var ready: [PendingCommand] = []

    /// - parameter last: the sender whose command was decided last. It now comes last.
    init(_ listing: OutboxListing, after last: String?) {
        let senders = listing.commands.keys.sorted()
        let index = last.flatMap { last in senders.firstIndex { $0 > last } } ?? 0
        queues = (senders[index...] + senders[..<index]).map { Queue(sender: $0, names: listing.commands[$0]![...]) }
    }

    /// Creates queues that hold dead letters alone.
    init(_ letters: [DeadLetter]) {
        queues = []
        insert(letters)
    }

    var isEmpty: Bool { ready.isEmpty && queues.isEmpty }

    /// Inserts dead letters, which are decided before all commands in files.
    mutating func insert(_ letters: [DeadLetter]) {
        ready.insert(contentsOf: letters.map { PendingCommand(source: .deadLetter, command: $0.command) }, at: 0)
    }

    /// The result of reading a file.
    enum Reading {
        case ready(CommandFile)
        /// The file does not exist any more, or is not to be applied. The next file of the sender is read.
        case skipped
        /// No command of this sender can be decided now.
        case blocked
        /// No command of this sender can be decided now. The file may be one that is being copied there, so it was possibly not put there
        /// after all files that precede it.
        case unfinished
    }

    /// Reads files ahead, up to the limits.
    mutating func fill(_ read: (CommandFileName) -> Reading) {
        var bytes = ready.reduce(0) { $0 + $1.command.payload.count }
        while ready.count < Self.maximumCount, bytes < Self.maximumBytes, !queues.isEmpty {
            var queue = queues.removeFirst()
            var isBlocked = false
            reading: while let name = queue.names.popFirst() {
                switch read(name) {
                case .ready(let command):
                    ready.append(PendingCommand(source: .file(name), command: command))
                    bytes += command.payload.count
                    break reading
                case .skipped: continue
                case .blocked, .unfinished:
                    isBlocked = true
                    break reading
                }
            }
            if !queue.names.isEmpty, !isBlocked { queues.append(queue) }
        }
    }

    /// - parameter blocked: the senders whose commands are not decided until the next listing.
    mutating func remove(decided: Int, blocked: Set<String>) {
        ready.removeFirst(decided)
        ready.removeAll { $0.file.map { blocked.contains($0.encodedSender) } ?? false }
        queues.removeAll { blocked.contains($0.sender) }
    }
}
