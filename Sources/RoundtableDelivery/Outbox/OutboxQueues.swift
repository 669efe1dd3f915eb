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
    private var readyBytes = 0

    /// - parameter last: the sender whose command was decided last. It now comes last.
    init(_ listing: OutboxListing, after last: String?) {
        let senders = listing.commands.keys.sorted()
        let index = last.flatMap { last in senders.firstIndex { $0 > last } } ?? 0
        queues = (senders[index...] + senders[..<index]).map { Queue(sender: $0, names: listing.commands[$0]![...]) }
    }

    /// Creates queues that hold dead letters alone.
    init(_ letters: [DeadLetter] = []) {
        queues = []
        insert(letters)
    }

    /// Inserts dead letters, which are decided before all commands in files.
    mutating func insert(_ letters: [DeadLetter]) {
        ready.insert(contentsOf: letters.map { PendingCommand(file: nil, command: $0.command) }, at: 0)
        for letter in letters { readyBytes += letter.payload.count }
    }

    // MARK: Reading ahead

    /// The file that is to be read next; nil when enough was read, or when no file is left. After each name, one of the three methods below
    /// is called.
    var nextFile: CommandFileName? {
        guard ready.count < Self.maximumCount, readyBytes < Self.maximumBytes else { return nil }
        return queues.first?.names.first
    }

    /// Takes the command of the next file. The next sender follows.
    mutating func take(_ command: CommandFile) {
        var queue = queues.removeFirst()
        ready.append(PendingCommand(file: queue.names.removeFirst(), command: command))
        readyBytes += command.payload.count
        if !queue.names.isEmpty { queues.append(queue) }
    }

    /// Leaves the next file out, because it does not exist any more or is not to be applied. The next file of its sender follows.
    mutating func skipFile() {
        queues[0].names.removeFirst()
        if queues[0].names.isEmpty { queues.removeFirst() }
    }

    /// Leaves out the next file and the later ones of its sender, until the next listing.
    mutating func skipSender() { queues.removeFirst() }

    // MARK: Deciding

    /// - parameter blocked: the senders whose commands are not decided until the next listing.
    mutating func remove(decided: Int, blocked: Set<String>) {
        for pending in ready[..<decided] { readyBytes -= pending.command.payload.count }
        ready.removeFirst(decided)
        if blocked.isEmpty { return }
        ready.removeAll { $0.file.map { blocked.contains($0.encodedSender) } ?? false }
        readyBytes = ready.reduce(0) { $0 + $1.command.payload.count }
        queues.removeAll { blocked.contains($0.sender) }
    }
}
