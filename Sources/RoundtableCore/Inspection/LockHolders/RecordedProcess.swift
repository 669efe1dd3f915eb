import GRDB
import RoundtableKernel

// The tables of jobs and of roles name a process by pid, start time and pid namespace, as a slot does (rule P4).

extension ProcessIdentity {
    /// The process of a row with the columns `pid`, `start_time` and `namespace`.
    package init(_ row: Row) {
        self.init(
            pid: Int32(truncatingIfNeeded: row["pid"] as Int64),
            startTime: UInt64(bitPattern: row["start_time"]),
            namespace: UInt64(bitPattern: row["namespace"])
        )
    }

    /// The values of those columns.
    package var columns: [any DatabaseValueConvertible] {
        [pid, Int64(bitPattern: startTime), Int64(bitPattern: namespace)]
    }
}

extension SharingProcess {
    /// A participant that a row names.
    package init(_ process: ProcessIdentity, author: String) {
        let reader = ProcessIdentity.current
        self.init(
            pid: process.pid,
            isInOtherPIDNamespace: process.namespace != reader.namespace,
            name: author,
            isParticipant: true,
            liveness: Liveness(process.liveness(seenFrom: reader))
        )
    }
}
