import Foundation
import RoundtableKernel

extension SharedDatabase {
    /// What an access does that has to wait: a write for its turn and then for SQLite's write lock, a read for the rare locks that make
    /// readers wait.
    public enum BusyMode: Sendable {
        /// It waits for nobody, and fails at once with `SQLITE_BUSY`. A turn that is free is taken; if another participant has it, SQLite is
        /// asked once, out of turn.
        case immediateError

        /// It fails with `SQLITE_BUSY` after this time.
        case timeout(Duration)

        /// It waits as long as this answers true. Then it asks SQLite once more, and fails with `SQLITE_BUSY` if that is busy still.
        ///
        /// Asked first after 10 ms, then ever less often, down to once in 100 ms: waits that are shorter ask nothing. Roundtable does the
        /// waiting, the callback should answer at once: meanwhile a turn that becomes free is kept for this participant, until the
        /// patience of the others ends.
        ///
        /// It is called on the thread that waits: that of the caller, if it blocks; else one of the system. No lock is held by
        /// Roundtable or SQLite, but the database's connection is in use: the callback may use other databases, and not this one.
        case callback(@Sendable (BusyWait) -> Bool)
    }

    /// A wait that a ``BusyMode/callback(_:)`` is asked about.
    public struct BusyWait: Sendable, Equatable {
        /// Of the database file.
        public let path: String

        /// How often the callback has answered for this wait.
        public let tries: Int

        /// Since the write was requested and reached the writer connection, or the read met the lock.
        public let elapsed: Duration

        /// Who has SQLite's write lock, or the turn. nil when it cannot be found out, or changes just now.
        public let holder: LockHolder?

        /// Who is in the way.
        public struct LockHolder: Sendable, Equatable {
            /// The author of a participant, the name of the program of any other process. nil when the system does not tell.
            public let name: String?

            /// Of a participant: in its own pid namespace.
            public let pid: Int32

            /// Whether that is another one than that of this process, as in another container.
            public let isInOtherPIDNamespace: Bool

            /// Whether it shares through Roundtable. Of other processes, nothing else is known.
            public let isParticipant: Bool

            /// Since when a participant has been writing.
            public let since: Date?

            /// Where in its code a participant's write was called, such as `Sync/Import.swift:88`.
            public let callSite: String?

            /// Whether it was stopped by a signal, and so will not go on by itself.
            public let isStopped: Bool
        }
    }
}

extension SharedDatabase.BusyWait: CustomStringConvertible {
    public var description: String {
        let seconds = String(format: "%.1f s", Double(elapsed.nanoseconds) / 1e9)
        guard let holder else { return "\(path): waited \(seconds) for another connection" }
        let name = holder.name.map { "'\($0)' " } ?? ""
        let pid = ProcessTable.description(ofPID: holder.pid, isElsewhere: holder.isInOtherPIDNamespace)
        return "\(path): waited \(seconds) for \(name)(\(pid))"
    }
}

extension SharedDatabase.Options {
    /// Short for the ``SharedDatabase/BusyMode/timeout(_:)`` of ``busyMode``. Of the other modes: zero for an immediate error, and no end for
    /// a callback.
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

    /// For waits that nobody has asked for: opening connections, checkpoints.
    var backgroundBusyTimeout: Duration {
        if case .timeout(let timeout) = busyMode { timeout } else { Self.defaultBusyTimeout }
    }
}

extension LockHolder {
    /// nil when nobody is known.
    func named(at date: Date = Date()) -> SharedDatabase.BusyWait.LockHolder? {
        switch party {
        case .participant(let holder):
            SharedDatabase.BusyWait.LockHolder(
                name: holder.author,
                pid: holder.pid,
                isInOtherPIDNamespace: holder.isElsewhere,
                isParticipant: true,
                since: holder.writing.map { date.addingTimeInterval(-Double($0) / 1e9) },
                callSite: holder.callSite,
                isStopped: holder.liveness == .stopped
            )
        case .stranger(let pid, let name):
            SharedDatabase.BusyWait.LockHolder(
                name: name,
                pid: pid,
                isInOtherPIDNamespace: false,
                isParticipant: false,
                since: nil,
                callSite: nil,
                isStopped: ProcessTable.entry(pid)?.isStopped == true
            )
        case .unknown: nil
        }
    }
}
