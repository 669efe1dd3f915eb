import RoundtableKernel

/// Follows writes, for example as spans. The functions of RoundtableService set it.
package protocol WriteTracer: Sendable {
    /// A write is requested. Called in the task of the caller, or on its thread.
    func begin(at site: CallSite) -> any TracedWrite
}

/// A write that is followed.
package protocol TracedWrite: Sendable {
    /// The write has waited for the gate, the connection, the turn and SQLite's lock, and its closure begins.
    func didBegin()
    /// The write is committed, or has failed, perhaps before it began.
    func didEnd(_ error: (any Error)?)
}

extension TracedWrite {
    /// Runs a write, and notes how it has ended.
    func following<T>(_ write: () throws -> T) rethrows -> T {
        do {
            let result = try write()
            didEnd(nil)
            return result
        } catch {
            didEnd(error)
            throw error
        }
    }

    /// Runs a write, and notes how it has ended.
    func following<T>(_ write: () async throws -> T) async rethrows -> T {
        do {
            let result = try await write()
            didEnd(nil)
            return result
        } catch {
            didEnd(error)
            throw error
        }
    }
}
