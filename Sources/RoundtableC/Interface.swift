import Foundation
import Roundtable

// The functions of `roundtable.h`, which documents them.

@_cdecl("roundtable_open")
public func roundtableOpen(
    _ path: UnsafePointer<CChar>?,
    _ author: UnsafePointer<CChar>?,
    _ database: UnsafeMutablePointer<UnsafeMutableRawPointer?>?,
    _ error: ErrorOutput
) -> CInt {
    reporting(to: error) {
        guard let path, let author, let database else { throw MissingArgument() }
        database.pointee = nil
        let shared = try SharedDatabase.open(
            at: URL(fileURLWithPath: text(path, "path")),
            schema: .unmanaged,
            as: text(author, "author")
        )
        database.pointee = Unmanaged.passRetained(DatabaseBox(shared)).toOpaque()
    }
}

@_cdecl("roundtable_close")
public func roundtableClose(_ database: UnsafeMutableRawPointer?, _ error: ErrorOutput) -> CInt {
    reporting(to: error) {
        guard let database else { return }
        try DatabaseBox.at(database).close()
        Unmanaged<DatabaseBox>.fromOpaque(database).release()
    }
}

@_cdecl("roundtable_attach")
public func roundtableAttach(
    _ database: UnsafeMutableRawPointer?,
    _ connection: OpaquePointer?,
    _ handle: UnsafeMutablePointer<UnsafeMutableRawPointer?>?,
    _ error: ErrorOutput
) -> CInt {
    reporting(to: error) {
        guard let database, let connection, let handle else { throw MissingArgument() }
        handle.pointee = nil
        let shared = DatabaseBox.at(database).database
        let attached = try SharedDatabase.RawHandle(attachedTo: connection, of: shared)
        handle.pointee = Unmanaged.passRetained(attached).toOpaque()
    }
}

@_cdecl("roundtable_detach")
public func roundtableDetach(_ handle: UnsafeMutableRawPointer?, _ error: ErrorOutput) -> CInt {
    reporting(to: error) {
        guard let handle else { return }
        try sharedHandle(handle).detach()
        Unmanaged<SharedDatabase.RawHandle>.fromOpaque(handle).release()
    }
}

@_cdecl("roundtable_begin_turn")
public func roundtableBeginTurn(
    _ handle: UnsafeMutableRawPointer?,
    _ timeout: CInt,
    _ priority: CInt,
    _ error: ErrorOutput
) -> CInt {
    reporting(to: error) {
        guard let handle else { throw MissingArgument() }
        let priority = UInt8(exactly: priority).flatMap(SharedDatabase.TurnPriority.init)
        guard let priority else { throw MissingArgument(what: "priority: one of ROUNDTABLE_INTERACTIVE, …") }
        try sharedHandle(handle).beginTurn(
            timeout: timeout < 0 ? nil : .milliseconds(Int(timeout)),
            priority: priority,
            file: "C",
            line: 0
        )
    }
}

@_cdecl("roundtable_end_turn")
public func roundtableEndTurn(
    _ handle: UnsafeMutableRawPointer?,
    _ tables: UnsafePointer<UnsafePointer<CChar>?>?,
    _ count: Int,
    _ error: ErrorOutput
) -> CInt {
    reporting(to: error) {
        guard let handle else { throw MissingArgument() }
        try sharedHandle(handle).endTurn(tables: tableNames(tables, count: count))
    }
}

@_cdecl("roundtable_is_in_turn")
public func roundtableIsInTurn(_ handle: UnsafeMutableRawPointer?) -> CInt {
    handle.map { sharedHandle($0).isInTurn ? 1 : 0 } ?? 0
}

@_cdecl("roundtable_version")
public func roundtableVersion(
    _ database: UnsafeMutableRawPointer?,
    _ version: UnsafeMutablePointer<UInt64>?,
    _ error: ErrorOutput
) -> CInt {
    reporting(to: error) {
        guard let database, let version else { throw MissingArgument() }
        version.pointee = try DatabaseBox.at(database).news().version
    }
}

@_cdecl("roundtable_wait_for_change")
public func roundtableWaitForChange(
    _ database: UnsafeMutableRawPointer?,
    _ version: UnsafeMutablePointer<UInt64>?,
    _ timeout: CInt,
    _ error: ErrorOutput
) -> CInt {
    var isOver = false
    let code = reporting(to: error) {
        guard let database, let version else { throw MissingArgument() }
        let limit = timeout < 0 ? nil : TimeInterval(timeout) / 1000
        let box = DatabaseBox.at(database)
        switch try box.news().wait(after: version.pointee, upTo: limit) {
        case .version(let reached): version.pointee = reached
        case .timedOut: isOver = true
        case .closed: throw ClosedMeanwhile(path: box.database.path)
        }
    }
    return isOver ? noChange : code
}

@_cdecl("roundtable_has_changed")
public func roundtableHasChanged(
    _ database: UnsafeMutableRawPointer?,
    _ version: UInt64,
    _ table: UnsafePointer<CChar>?
) -> CInt {
    guard let database, let table else { return 1 }
    // Without an observation, any table may have changed.
    guard let news = try? DatabaseBox.at(database).news() else { return 1 }
    guard let name = String(validatingCString: table) else { return 1 }
    return news.hasChanged(name, after: version) ? 1 : 0
}

@_cdecl("roundtable_free")
public func roundtableFree(_ error: UnsafeMutablePointer<CChar>?) { free(error) }

private func sharedHandle(_ pointer: UnsafeMutableRawPointer) -> SharedDatabase.RawHandle {
    Unmanaged<SharedDatabase.RawHandle>.fromOpaque(pointer).takeUnretainedValue()
}
