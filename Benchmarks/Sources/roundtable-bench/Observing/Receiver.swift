import Dispatch
import Foundation
import GRDB
import Roundtable

/// How a process learns of events, and notes when it did. An event is a commit of one row, which has the event's number for
/// its key.
enum Receiver: String, CaseIterable {
    /// `changes(in:)` of a participant.
    case changes
    /// The same, in a task that goes on where news come in.
    case changesAtOnce = "changes-at-once"
    /// `observeChanges`, on a queue.
    case callback
    /// The same, on no queue: where news come in.
    case callbackAtOnce = "callback-at-once"
    /// A value observation of a participant, on a queue.
    case value
    /// The same, of one that opened the database for reading.
    case readOnlyValue = "read-only-value"
    /// The same, on the main queue.
    case mainValue = "main-value"
    /// A word of shared memory, and nothing else: no database.
    case futex
    /// The system tells that `-wal` was written; then reads until the row is there.
    case fileWatch = "file-watch"
    /// Looks at `PRAGMA data_version` every 10 ms.
    case polling

    /// Receives for ever, in threads of its own. Returns when it is ready.
    func start(_ path: String, _ board: Scoreboard) throws {
        switch self {
        case .changes:
            let changes = try Self.open(path).changes()
            Task.detached { try await Self.see(changes, board) }
        case .changesAtOnce:
            let changes = try Self.open(path).changes()
            Task.detached(executorPreference: ChangesExecutor.shared) { try await Self.see(changes, board) }
        case .callback, .callbackAtOnce:
            let database = try Self.open(path)
            let queue = self == .callback ? DispatchQueue(label: "receiver") : nil
            // One call at a time.
            nonisolated(unsafe) var origin: Int?
            Self.keep(
                try database.observeChanges(on: queue) { change in
                    let sequence = Int(change.sequence)
                    origin = origin ?? sequence - board.current
                    board.see(sequence - origin!)
                }
            )
        case .value:
            Self.observe(try Self.open(path), on: DispatchQueue(label: "receiver"), board)
        case .readOnlyValue:
            let url = URL(fileURLWithPath: path)
            let answer = try SharedDatabase.openReadOnly(
                at: url,
                schema: SharedSchema(Fixture.migrator),
                as: "receiver"
            )
            guard case .available(let database) = answer else { throw WrongResult(side: .ours, what: "\(answer)") }
            Self.observe(database, on: DispatchQueue(label: "receiver"), board)
        case .mainValue:
            Self.observe(try Self.open(path), on: .main, board)
        case .futex:
            Self.thread {
                var seen = board.bell
                while true {
                    board.waitForBell(after: seen)
                    let bell = board.bell
                    if bell != seen { board.see(board.current) }
                    seen = bell
                }
            }
        case .fileWatch:
            let look = try Self.lookForRows(path)
            let watch = try WriteWatch(path: path + "-wal")
            Self.thread {
                while watch.wait() {
                    // The commit counts a moment after it was written.
                    let deadline = Clock.now + 1_000_000
                    while board.seen(board.current) == 0, Clock.now < deadline { board.see(try look()) }
                }
            }
        case .polling:
            let version = try Self.lookForVersion(path)
            let look = try Self.lookForRows(path)
            Self.thread {
                var last = try version()
                while true {
                    board.waitUntilActive()
                    Clock.sleep(until: Clock.now + 10_000_000)
                    let new = try version()
                    if new != last { board.see(try look()) }
                    last = new
                }
            }
        }
    }

    private static func see(_ changes: DatabaseChanges, _ board: Scoreboard) async throws {
        var origin: Int?
        for try await change in changes {
            let sequence = Int(change.sequence)
            // The first one is told while it is under way.
            origin = origin ?? sequence - board.current
            board.see(sequence - origin!)
        }
    }

    private static func open(_ path: String) throws -> SharedDatabase {
        try SharedDatabase.open(at: URL(fileURLWithPath: path), schema: SharedSchema(Fixture.migrator), as: "receiver")
    }

    /// Sees rows of a database of any kind.
    static func observe(_ database: any DatabaseReader, on queue: DispatchQueue, _ board: Scoreboard) {
        let observation = ValueObservation.tracking { db in
            try Int.fetchOne(db.cachedStatement(sql: Statements.newest)) ?? 0
        }
        keep(
            observation.start(in: database, scheduling: .async(onQueue: queue)) { error in
                fail(error)
            } onChange: { newest in
                board.see(newest)
            }
        )
    }

    private static func lookForRows(_ path: String) throws -> @Sendable () throws -> Int {
        let queue = try reader(path)
        return { try queue.unsafeRead { try Int.fetchOne($0.cachedStatement(sql: Statements.newest)) ?? 0 } }
    }

    private static func lookForVersion(_ path: String) throws -> @Sendable () throws -> Int {
        let queue = try reader(path)
        return { try queue.unsafeRead { try Int.fetchOne($0.cachedStatement(sql: "PRAGMA data_version")) ?? 0 } }
    }

    private static func reader(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.readonly = true
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    private static func thread(_ body: @escaping @Sendable () throws -> Void) {
        let thread = Thread {
            do { try body() } catch { fail(error) }
        }
        thread.qualityOfService = .userInitiated
        thread.start()
    }

    /// What is released ends.
    private static func keep(_ observation: AnyDatabaseCancellable) { _ = Unmanaged.passRetained(observation) }

    private static func fail(_ error: any Error) {
        FileHandle.standardError.write(Data("a receiver ended: \(error)\n".utf8))
        exit(1)
    }
}

/// Whether a file was written.
final class WriteWatch: Sendable {
    #if os(Linux)
        private let descriptor: Int32

        init(path: String) throws {
            descriptor = inotify_init1(Int32(IN_CLOEXEC))
            guard inotify_add_watch(descriptor, path, UInt32(IN_MODIFY)) >= 0 else {
                throw ParticipantProcess.Failure(description: "\(path): cannot be watched")
            }
        }

        /// - returns: false when there is nothing to wait for.
        func wait() -> Bool {
            var buffer = [UInt8](repeating: 0, count: 4096)
            return read(descriptor, &buffer, buffer.count) > 0
        }
    #else
        private let queue: Int32

        init(path: String) throws {
            queue = kqueue()
            let file = open(path, O_EVTONLY)
            var event = kevent(
                ident: UInt(bitPattern: Int(file)),
                filter: Int16(EVFILT_VNODE),
                flags: UInt16(EV_ADD | EV_CLEAR),
                fflags: UInt32(NOTE_WRITE | NOTE_EXTEND),
                data: 0,
                udata: nil
            )
            guard file >= 0, kevent(queue, &event, 1, nil, 0, nil) == 0 else {
                throw ParticipantProcess.Failure(description: "\(path): cannot be watched")
            }
        }

        /// - returns: false when there is nothing to wait for.
        func wait() -> Bool {
            var event = kevent()
            return kevent(queue, nil, 0, &event, 1, nil) > 0
        }
    #endif
}
