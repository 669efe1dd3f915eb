import Foundation
import RoundtableCore
import RoundtableFiles
import RoundtableGate
import Synchronization

/// The outbox of one open database: its folder, and the drains that apply its commands.
final class OutboxDrains: DatabaseCompanion {
    let folder: OutboxFolder
    /// The outbox to which the database itself submits.
    private let ownOutbox = Mutex<CommandOutbox?>(nil)

    private struct State {
        var drains: [OutboxDrain] = []
        var isClosed = false
    }
    private let state = Mutex(State())

    init(_ folder: OutboxFolder) { self.folder = folder }

    /// The outbox to which the database itself submits, under the name of its author.
    func ownOutbox(of author: String) throws -> CommandOutbox {
        try ownOutbox.withLock { outbox in
            if let outbox { return outbox }
            let made = try CommandOutbox(folder, as: author)
            outbox = made
            return made
        }
    }

    func add(_ drain: OutboxDrain) {
        let isClosed = state.withLock { state in
            state.drains.append(drain)
            return state.isClosed
        }
        if isClosed { drain.close() }
    }

    /// Closes the drains, because the database is closed.
    func databaseIsClosing() {
        let drains = state.withLock { state in
            state.isClosed = true
            return state.drains
        }
        for drain in drains { drain.close() }
    }

    func databaseLostFile() { databaseIsClosing() }

    /// Applies what waits, with all drains of the database.
    func drain() throws -> OutboxReport {
        try state.withLock { $0.drains }.reduce(OutboxReport()) { try $0 + $1.drain() }
    }

    /// The handlers of this process for this kind of command.
    func handlers(of kind: OutboxCommandKind) -> OutboxHandlers? {
        state.withLock { $0.drains.lazy.map(\.handlers).first { $0.handler(of: kind) != nil } }
    }
}

extension SharedDatabase {
    var drains: OutboxDrains { companion(OutboxDrains.self) }
    var outboxFolder: OutboxFolder { drains.folder }
}

/// The outbox of each database. It applies commands from opening on, if the options say so.
package final class OutboxFeature: DatabaseFeature {
    private let options: SharedDatabase.Options
    private let outbox: OutboxDrains

    /// - throws: ``OutboxError``, if the options name a folder that cannot be used.
    package init(_ opening: inout DatabaseOpening) throws {
        options = opening.options
        outbox = OutboxDrains(try opening.options.outboxFolder(ofDatabaseAt: opening.path))
    }

    package var databaseCompanion: (any DatabaseCompanion)? { outbox }

    package func databaseDidOpen(_ database: SharedDatabase) throws {
        guard database.role == .readWrite, let handlers = options.outbox else { return }
        let drain = try database.outbox.makeDrain(handlers)
        if options.drainOnOpen { drain.drainFirst(within: options.drainOnOpenLimit.nanoseconds) }
        drain.begin()
    }
}
