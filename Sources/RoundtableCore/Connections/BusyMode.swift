import Foundation
import RoundtableKernel

extension SharedDatabase {
    /// What an access does when it has to wait: a write for its turn and then for SQLite's write lock, a read for the rare locks
    /// that block readers.
    public enum BusyMode: Sendable {
        /// The access does not wait, and fails immediately with `SQLITE_BUSY`. A write acquires the turn if it is free. If another
        /// participant holds the turn, the write tries SQLite's lock once, out of turn.
        case immediateError

        /// The access fails with `SQLITE_BUSY` after this time.
        case timeout(Duration)

        /// The access waits as long as the callback returns true. Then it tries SQLite's lock once more, and fails with
        /// `SQLITE_BUSY` if the lock is still held.
        ///
        /// The callback is first called after 10 ms, then less and less often, down to once in 100 ms. Shorter waits do not call
        /// it. Roundtable does the waiting, so the callback should return immediately: meanwhile a turn that becomes free is kept for
        /// this participant, until the patience of the others ends.
        ///
        /// The callback runs on the waiting thread: the caller's thread if the caller blocks, otherwise a system thread.
        /// Roundtable and SQLite hold no lock during the call, but the connection is in use: the callback may use other
        /// databases, but not this one.
        case callback(@Sendable (BusyWait) -> Bool)
    }

    /// A wait about which a ``BusyMode/callback(_:)`` is asked.
    public struct BusyWait: Sendable, Equatable {
        /// The path of the database file.
        public let path: String

        /// How often the callback was called for this wait before.
        public let tries: Int

        /// The time since the write was requested and reached the writer connection, or since the read met the lock.
        public let elapsed: Duration

        /// The holder of SQLite's write lock, or of the turn. nil when the holder cannot be determined, or is changing at this
        /// moment. If it is ``SharingProcess/Liveness/stopped``, it will not continue by itself.
        public let holder: SharingProcess?

        /// When the holder began to write; nil when this is not known, as for processes that are not participants.
        public let holderSince: Date?

        /// The line of code that called the holder's write, such as `Sync/Import.swift:88`; nil when this is not known, as for
        /// processes that are not participants.
        public let holderCallSite: String?
    }
}

extension SharedDatabase.BusyWait: CustomStringConvertible {
    public var description: String {
        "\(path): waited \(elapsed.seconds) for \(holder.map { "\($0)" } ?? "another connection")"
    }
}

extension SharedDatabase.Options {
    /// The timeout of ``busyMode``, if that is a ``SharedDatabase/BusyMode/timeout(_:)``. It is zero for an immediate error, and
    /// unlimited for a callback. Setting it changes ``busyMode`` to a timeout.
    public var busyTimeout: Duration {
        get {
            switch busyMode {
            case .immediateError: .zero
            case .timeout(let timeout): max(timeout, .zero)
            case .callback: .seconds(Int64.max)
            }
        }
        set { busyMode = .timeout(newValue) }
    }

    static let defaultBusyTimeout = Duration.seconds(5)

    /// The timeout of background waits: opening connections, checkpoints.
    var backgroundBusyTimeout: Duration {
        if case .timeout(let timeout) = busyMode { timeout } else { Self.defaultBusyTimeout }
    }
}

extension SharedDatabase.BusyWait {
    init(path: String, tries: Int, elapsed: Duration, holder: LockHolder, at date: Date = Date()) {
        self.path = path
        self.tries = tries
        self.elapsed = elapsed
        switch holder.party {
        case .participant(let record):
            self.holder = SharingProcess(record)
            holderSince = record.writing.map { date.addingTimeInterval(-Double($0) / 1e9) }
            holderCallSite = record.callSite
        case .stranger(let pid, _), .reader(let pid, _):
            self.holder = SharingProcess(pid: pid, among: [])
            (holderSince, holderCallSite) = (nil, nil)
        case .obstruction(let lock): (self.holder, holderSince, holderCallSite) = (lock.holder, nil, nil)
        case .unknown: (self.holder, holderSince, holderCallSite) = (nil, nil, nil)
        }
    }
}
