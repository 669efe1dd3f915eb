import Dispatch
import GRDB
import Roundtable

/// A participant that observes what others write, as long as it is open.
struct ObservingContestant: Contestant {
    private let contestant: SharedDatabaseContestant
    private let observation: AnyDatabaseCancellable

    init(_ path: String, _ settings: ContestantSettings) throws {
        contestant = try SharedDatabaseContestant(path, settings)
        let values = ValueObservation.tracking { try Int.fetchOne($0.cachedStatement(sql: Statements.newest)) ?? 0 }
        observation = values.start(
            in: contestant.database,
            scheduling: .async(onQueue: DispatchQueue(label: "observer"))
        ) { error in
            preconditionFailure("an observation ended: \(error)")
        } onChange: { _ in
        }
    }

    func insert(author: Int, inside: () -> Void) throws { try contestant.insert(author: author, inside: inside) }
    func update(ids: [Int64], inside: () -> Void) throws { try contestant.update(ids: ids, inside: inside) }
    func select(id: Int64) throws -> Int64? { try contestant.select(id: id) }
    func read(id: Int64, inside: () -> Void) throws { try contestant.read(id: id, inside: inside) }
    func readNothing() throws { try contestant.readNothing() }

    func close() throws {
        observation.cancel()
        try contestant.close()
    }
}
