import ArgumentParser
import Dispatch
import Foundation
import GRDB
import Roundtable
import RoundtableKernel
import RoundtableToolSupport

/// Prints the changes of a history as they are committed by any process.
struct HistoryFollowing {
    /// Of the database, for people.
    let path: String
    /// nil: all recorded tables.
    let tables: [String]?
    let isJSON: Bool

    private static let pageSize = 1000

    /// What is printed next. The observation's queue alone uses it.
    private final class Position: @unchecked Sendable {
        // @unchecked is correct because one serial queue uses it.
        var token: HistoryToken?
        var hasBegun = false
        var layout: TextTable.Layout?
    }

    /// Prints until a signal, until standard output is not read any more, or until the database is gone.
    ///
    /// - Parameters:
    ///   - identity: of the database's file; nil when it is not known, and the end of the database is not noticed.
    ///   - start: the token after which to begin.
    func run(
        _ database: SharedDatabase,
        _ identity: FileIdentity?,
        from start: @escaping (Database) throws -> HistoryToken?
    ) throws {
        defer { try? database.close() }
        let end = WatchEnd()
        let signals = EndingSignals { end.reach(.signal($0)) }
        defer { signals.ignore() }
        end.reachWhenUnread()
        let queue = DispatchQueue(label: "roundtable.history")
        let position = Position()
        // The queue runs one call of it at a time.
        nonisolated(unsafe) let start = start
        // The queue runs one call of it at a time.
        nonisolated(unsafe) let printNew = {
            do {
                if try !printChanges(database, position, start) { end.reach(.unread) }
            } catch {
                end.reach(.unwritable(error))
            }
        }
        // Observation begins before the first page is read, so that no change is missed in between.
        let observation = try database.observeChanges(in: DatabaseRegion.fullDatabase, on: queue) { _ in printNew() }
        queue.sync { printNew() }
        if let identity { end.reachWhenGone(path: database.path, identity: identity) }
        let reason = end.wait(until: .distantFuture)
        observation.cancel()
        // The rest of a page is not printed after the end.
        queue.sync {}
        switch reason {
        case .signal(let number): throw ExitCode(128 + number)
        case .unwritable(let error): throw error
        case .gone: throw WatchEnd.goneError(path, next: "Follow again.")
        case .enough, .unread, nil: break
        }
    }

    /// - returns: whether standard output is still read.
    private func printChanges(
        _ database: SharedDatabase,
        _ position: Position,
        _ start: (Database) throws -> HistoryToken?
    ) throws -> Bool {
        while true {
            let page = try database.read { db in
                if !position.hasBegun { position.token = try start(db) }
                return try DatabaseHistory.changes(since: position.token, in: tables, limit: Self.pageSize, from: db)
            }
            let isFirst = !position.hasBegun
            position.hasBegun = true
            position.token = page.token
            if isFirst || !page.changes.isEmpty {
                let text =
                    isJSON
                    ? HistoryText.followedLines(page)
                    : Terminal.dressed(HistoryText.followed(page, &position.layout, in: Terminal.width))
                guard try Terminal.writeIfRead(text) else { return false }
            }
            if !page.hasMore { return true }
        }
    }
}
