import CRoundtableShims
import Foundation
import RoundtableKernel
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

// Rule X12: Limits are the sender's: 1 MiB for a payload, 10,000 files and 64 MiB in `commands`, by default. It counts again before it
// refuses, and at least every 256 submissions. Beyond a limit a submission fails, and nothing is dropped.

/// Submits the commands of one sender of this process, one after the other (rules X1, X3, X12).
final class OutboxStream: Sendable {
    private struct State {
        /// The epoch of the stream; nil before the first submission.
        var epoch: UInt64?
        let stream = UInt32.random(in: 0 ... .max)
        /// The fork generation of this process. A child of `fork` begins a stream of its own.
        let generation = rt_fork_generation()
        /// Whether the names of the folders are on the disk.
        var hasSyncedFolders = false
        var number: UInt64 = 0
        var access: FileAccess?
        /// The commands that the last count found in `commands`, and those that this stream has submitted since.
        var waiting = OutboxUsage()
        var submissionsSinceCount = 0
    }

    /// The number of submissions after which the waiting commands are counted again.
    private static let countingInterval = 256

    private let folder: OutboxFolder
    private let sender: String
    /// The state stays locked while files are written, so that one submission runs at a time.
    private let state = Mutex(State())

    private init(folder: OutboxFolder, sender: String) {
        self.folder = folder
        self.sender = sender
    }

    private struct Weak: Sendable {
        weak var stream: OutboxStream?
    }
    private static let all = Mutex<[String: Weak]>([:])

    /// Returns the stream that all outboxes of this process with this name share, so that their commands have one order.
    static func of(_ sender: String, in folder: OutboxFolder) -> OutboxStream {
        all.withLock { all in
            // A path contains no zero byte.
            let key = "\(folder.path)\0\(sender)"
            if let known = all[key]?.stream { return known }
            all = all.filter { $0.value.stream != nil }
            let stream = OutboxStream(folder: folder, sender: sender)
            all[key] = Weak(stream: stream)
            return stream
        }
    }

    /// - throws: ``OutboxError``, `SystemError`.
    func submit(_ command: CommandFile, _ options: CommandOutbox.Options) throws {
        let bytes = command.bytes
        try state.withLock { state in
            try begin(&state, options)
            try makeRoom(for: bytes.count, &state, options)
            do {
                try submit(bytes, command.id, &state, options)
            } catch let error as SystemError where error.isFolderGone {
                // The outbox, or a part of it, was removed.
                try makeFolders(&state, options)
                try submit(bytes, command.id, &state, options)
            } catch let error as SystemError where error.isAlreadyThere {
                // Another process has given a file the next name, so a new stream begins.
                state = State()
                try begin(&state, options)
                try submit(bytes, command.id, &state, options)
            }
        }
    }

    private func begin(_ state: inout State, _ options: CommandOutbox.Options) throws {
        if state.generation != rt_fork_generation() { state = State() }
        if state.epoch != nil {
            if options.durability == .machine, !state.hasSyncedFolders { try makeFolders(&state, options) }
            return
        }
        try makeFolders(&state, options)
        let commands = try folder.open(.commands)
        let names = try commands.names()
        // The folder may hold many files of other senders.
        let prefix = (CommandFileName.encoded(sender) ?? "") + "."
        let own = names.lazy.filter { $0.utf8.starts(with: prefix.utf8) }.compactMap(CommandFileName.init)
        state.waiting = try OutboxUsage(of: commands, names)
        state.epoch = lastEpoch(of: Array(own), in: commands) + 1
    }

    /// The largest epoch of the sender's waiting commands, or 0. Files that cannot be read count too. Damaged files do not: their names
    /// may be arbitrary, and if one contained the largest possible epoch, no new stream could begin.
    private func lastEpoch(of names: [CommandFileName], in commands: OpenFolder) -> UInt64 {
        let last = names.sorted().last { name in
            switch Result(catching: { try CommandFile.read(name, in: commands, notOf: folder.databasePath) }) {
            case .success(.damaged), .success(nil): false
            // A file that cannot be read may be a command.
            case .success, .failure: true
            }
        }
        return last?.epoch ?? 0
    }

    /// Creates missing folders. It syncs the names of all of them, even of those that another process created, because these names must
    /// survive what the commands survive.
    private func makeFolders(_ state: inout State, _ options: CommandOutbox.Options) throws {
        state.hasSyncedFolders = false
        let isNew = try folder.make()
        state.access = try folder.access()
        guard options.durability == .machine else { return }
        try OpenFolder(at: folder.path).sync()
        do {
            try OpenFolder(at: folder.parent, followingLinks: true).sync()
        } catch let error as SystemError where !isNew && [EACCES, EPERM].contains(error.errno) {
            // This process may not read the parent folder, and so cannot sync it. The process that created the outbox had to sync it.
        }
        state.hasSyncedFolders = true
    }

    private func makeRoom(for size: Int, _ state: inout State, _ options: CommandOutbox.Options) throws {
        func limit() -> OutboxError.Limit? {
            if state.waiting.count >= options.maximumCount { return .count(options.maximumCount) }
            // Files of other programs may have any size, so the sum may overflow.
            let (bytes, isBeyond) = state.waiting.bytes.addingReportingOverflow(size)
            if isBeyond || bytes > options.maximumBytes { return .bytes(options.maximumBytes) }
            return nil
        }
        if state.submissionsSinceCount >= Self.countingInterval || limit() != nil {
            state.waiting =
                try folder.openIfThere(.commands).map { try OutboxUsage(of: $0, $0.names()) } ?? OutboxUsage()
            state.submissionsSinceCount = 0
        }
        guard let limit = limit() else { return }
        let waiting = state.waiting
        throw OutboxError.full(path: folder.path, count: waiting.count, bytes: waiting.bytes, limit: limit)
    }

    private func submit(_ bytes: [UInt8], _ id: UUID, _ state: inout State, _ options: CommandOutbox.Options) throws {
        let isDurable = options.durability == .machine
        let name = CommandFileName(
            sender: sender,
            epoch: state.epoch ?? 1,
            stream: state.stream,
            number: state.number + 1
        )
        // The sender's name was checked when the outbox was created, and the numbers do not run out.
        guard let name else {
            throw OutboxError.senderNameNotUsable(sender, reason: "its commands have no more numbers")
        }
        try folder.put(
            bytes,
            as: "\(name)",
            in: .commands,
            access: state.access,
            isDurable: isDurable,
            isReplacing: false,
            prepare: options.protect
        )
        // Other processes may have seen the file, so its number is used up.
        state.number += 1
        state.submissionsSinceCount += 1
        state.waiting.add(bytes.count)
        guard isDurable else { return }
        do {
            try folder.sync(.commands)
        } catch let error as SystemError {
            // An owner may have applied the command by now, whether its file still exists or not.
            throw OutboxError.perhapsSubmitted(
                id: id,
                path: folder.path(of: name),
                reason: "its folder could not be synced: \(error.reason)"
            )
        }
    }
}

/// The number and the size of the files in `commands` that have the name of a command, whatever they hold.
struct OutboxUsage: Equatable, Sendable {
    private(set) var count = 0
    private(set) var bytes = 0

    init() {}

    init(of commands: OpenFolder, _ names: [String]) throws {
        for name in names where CommandFileName(name) != nil {
            // A file that was removed in between does not count, nor does a symbolic link.
            guard let status = try commands.status(ofFile: name), !status.isSymbolicLink else { continue }
            add(Int(clamping: status.st_size))
        }
    }

    mutating func add(_ size: Int) {
        count += 1
        let (sum, isTooLarge) = bytes.addingReportingOverflow(size)
        bytes = isTooLarge ? .max : sum
    }
}

extension CommandOutbox.Options {
    /// Sets the protection class of a file, on systems that have protection classes.
    fileprivate func protect(_ path: String) {
        #if canImport(Darwin)
            if let fileProtection, let wanted = ProtectionClass(named: fileProtection.rawValue) {
                try? ProtectionClasses.present?.set(wanted, path)
            }
        #endif
    }
}
