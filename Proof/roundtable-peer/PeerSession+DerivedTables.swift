import Foundation
import GRDB
import Roundtable
import RoundtableTestSupport

extension PeerSession {
    /// Performs any command but `open`, which the caller performs.
    func perform(_ command: DerivedTableCommand, _ database: SharedDatabase) throws -> PeerReply {
        switch command {
        case .open: return PeerReply()
        case .write(let seed, let count):
            var statements = RandomStatements(SeededGenerator(seed: seed))
            for _ in 0..<count { try database.write { try statements.transaction($0) } }
            return PeerReply(number: count)
        case .follow: return try follow(database)
        }
    }

    func openExtended(path: String, revision: Int) throws -> SharedDatabase {
        let schema =
            revision == 0
            ? SharedSchema.unmanaged
            : SharedSchema(DerivedTableWorld.migrator(), derivedTables: DerivedTableWorld.set(revision))
        return try SharedDatabase.open(at: URL(fileURLWithPath: path), schema: schema, as: "revision \(revision)")
    }

    private func follow(_ database: SharedDatabase) throws -> PeerReply {
        let views = [DerivedTableWorld.boxes, DerivedTableWorld.tags]
        var contents = try database.read { db in try views.map { try $0.contents(in: db) } }
        var count = 0
        var problems: [String] = []
        repeat {
            try database.read { db in
                for (index, view) in views.enumerated() {
                    let before = contents[index]
                    problems += try ViewWitness.discrepancies(view, since: &contents[index], db)
                    if contents[index] != before { count += 1 }
                }
                problems += try DerivedTableWorld.discrepancies(of: views, db)
            }
        } while problems.isEmpty && !channel.hasInput
        return PeerReply(.done, message: problems.first, number: count)
    }
}
