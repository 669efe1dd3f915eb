import Roundtable
import RoundtableTestSupport

extension PeerSession {
    func perform(_ command: RoleCommand) throws -> PeerReply {
        let database = try opened.shared
        switch command {
        case .acquire(let patience):
            term = try blocking { try await database.role("sync").acquire(patience: .milliseconds(patience)) }
        case .write:
            guard let term else { throw TestKitError("there is no term") }
            try term.write { db in try insert(db, rows: 1) }
            acknowledge()
        case .end:
            guard let term else { throw TestKitError("there is no term") }
            try blocking { await term.end() }
        }
        return PeerReply(number: term.map { Int($0.generation) })
    }
}
