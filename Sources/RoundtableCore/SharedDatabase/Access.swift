import CRoundtableShims
import GRDB

/// The accesses that the calling thread is inside of, innermost first. A closure given to `read` or `write` runs on one thread
/// from beginning to end, so a thread-local list distinguishes a nested access from a new one.
package struct Access {
    let owner: ObjectIdentifier
    /// nil for the writer connection.
    let reader: ReaderConnection?
    private let outer: UnsafePointer<Access>?

    private static var innermost: UnsafePointer<Access>? {
        rt_thread_local_get().map { UnsafePointer($0.assumingMemoryBound(to: Access.self)) }
    }

    static func isReading(_ owner: AnyObject) -> Bool { current(to: owner) { $0.reader != nil } != nil }
    package static func isWriting(_ owner: AnyObject) -> Bool { current(to: owner) { $0.reader == nil } != nil }

    /// The innermost access of this thread to `owner` for which `predicate` is true.
    static func current(to owner: AnyObject, where predicate: (Access) -> Bool = { _ in true }) -> Access? {
        var pointer = innermost
        while let access = pointer?.pointee {
            if access.owner == ObjectIdentifier(owner), predicate(access) { return access }
            pointer = access.outer
        }
        return nil
    }

    /// Runs `body` inside an access.
    static func with<T>(_ owner: AnyObject, reader: ReaderConnection?, _ body: () throws -> T) rethrows -> T {
        let outer = innermost
        let access = Access(owner: ObjectIdentifier(owner), reader: reader, outer: outer)
        return try withUnsafePointer(to: access) { pointer in
            rt_thread_local_set(UnsafeMutableRawPointer(mutating: pointer))
            defer { rt_thread_local_set(outer.map { UnsafeMutableRawPointer(mutating: $0) }) }
            return try body()
        }
    }
}
