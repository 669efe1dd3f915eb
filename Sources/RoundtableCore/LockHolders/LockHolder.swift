import Foundation
import GRDB
import RoundtableKernel

/// The holder of SQLite's write lock, as far as it can be determined.
struct LockHolder {
    enum Party {
        case participant(ParticipantRecord)
        /// A process that does not use Roundtable, or does not use this control block.
        case stranger(pid: Int32, name: String?)
        case unknown
    }

    let party: Party

    /// - parameter participant: our own participant, which is excluded; nil when there is none, or none yet.
    static func find(databasePath: String, participant: Participant?) -> LockHolder {
        let block = participant?.block ?? (try? ControlBlock.open(forDatabaseAt: databasePath, writable: false))
        let participants = (block?.participants() ?? [])
            .filter { $0.slot != participant?.slot.index && $0.liveness != .dead }
        return find(databasePath: databasePath, among: participants)
    }

    static func find(databasePath: String, among participants: [ParticipantRecord]) -> LockHolder {
        let writers = participants.filter { $0.writing != nil }
        if let pid = SystemLocks.writer(databasePath: databasePath) {
            let own = writers.filter { $0.isProcess(pid) } + participants.filter { $0.isProcess(pid) }
            if let holder = own.first { return LockHolder(party: .participant(holder)) }
            return LockHolder(party: .stranger(pid: pid, name: ProcessTable.name(pid)))
        }
        // The system does not name the owner, so this takes the participant that has been writing for longest.
        if let holder = writers.max(by: { $0.writing ?? 0 < $1.writing ?? 0 }) {
            return LockHolder(party: .participant(holder))
        }
        return LockHolder(party: .unknown)
    }

    /// - parameter waited: how long the caller has waited, in nanoseconds; nil when that is not known.
    func description(waited: Nanoseconds? = nil) -> String {
        let waiting = waited.map { "; waited \(Self.seconds($0))" } ?? ""
        switch party {
        case .participant(let holder):
            var text = "\(holder.name) "
            if let writing = holder.writing {
                text += "has been writing for \(Self.seconds(writing))"
                if let callSite = holder.callSite { text += ", since \(callSite)" }
            } else {
                text += "holds the write lock"
            }
            if holder.liveness == .stopped { text += "; it is stopped (SIGSTOP)" }
            return text + waiting
        case .stranger(let pid, let name):
            return """
                \(name.map { "'\($0)' " } ?? "")(pid \(pid)) holds the write lock, and does not take turns: it does not use Roundtable, or \
                opened the database before its \(ControlBlock.ending) file was removed\(waiting)
                """
        case .unknown:
            return "another connection holds a lock\(waiting)"
        }
    }

    static func seconds(_ time: Nanoseconds) -> String {
        String(format: "%.1f s", Double(time) / 1e9)
    }
}
