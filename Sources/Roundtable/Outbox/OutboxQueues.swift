import Foundation
import RoundtableKernel

/// The commands of one listing that are still to be decided: of all senders in turn, of each in order.
struct OutboxQueues {
    /// At most so much is read ahead.
    static let maximumCount = 100
    static let maximumBytes = 4 << 20

    private struct Queue {
        let sender: String
        var names: ArraySlice<CommandFileName>
    }

    private var queues: [Queue]
    /// Read, and in the order in which they are to be decided.
    private(set) var ready: [PendingCommand] = []

    /// - parameter last: the sender whose command was decided last: it comes last now.
    init(_ listing: OutboxListing, after last: String?) {
        let senders = listing.commands.keys.sorted()
        let index = last.flatMap { last in senders.firstIndex { $0 > last } } ?? 0
        queues = (senders[index...] + senders[..<index]).map { Queue(sender: $0, names: listing.commands[$0]![...]) }
    }

    /// Of dead letters alone.
    init(_ letters: [DeadLetter]) {
        queues = []
        insert(letters)
    }

    var isEmpty: Bool { ready.isEmpty && queues.isEmpty }

    /// What is decided before all that is in files.
    mutating func insert(_ letters: [DeadLetter]) {
        ready.insert(contentsOf: letters.map { PendingCommand(source: .deadLetter, command: $0.command) }, at: 0)
    }

    /// What became of reading a file.
    enum Reading {
        case ready(CommandFile)
        /// It is not there any more, or not to be applied: on with the next of the sender.
        case skipped
        /// Nothing of this sender can be decided now.
        case blocked
        /// The same; and it may be that it is being copied there, and was not put there after all that come before it.
        case unfinished
    }

    /// Reads ahead.
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

    /// - parameter blocked: senders of which nothing is decided until the next listing.
    mutating func remove(decided: Int, blocked: Set<String>) {
        ready.removeFirst(decided)
        ready.removeAll { $0.file.map { blocked.contains($0.encodedSender) } ?? false }
        queues.removeAll { blocked.contains($0.sender) }
    }
}
