import Foundation
import RoundtableKernel

/// One value in one file, for processes that do not open the database.
///
/// ```swift
/// let file = SnapshotFile<WidgetState>(at: url, version: 3, accepting: 2...3, as: "app")
/// try await file.write(WidgetState(openTasks: 5))
///
/// switch try file.read() {
/// case .value(let state, let info): show(state, asOf: info.date)
/// case .absent, .tooNew, .tooOld, .damaged: showPlaceholder()
/// }
/// ```
///
/// A file is replaced whole: a reader finds the old value or the new one, never half of either. A reader never waits, even if a writer is
/// frozen or killed in the middle of writing. No lock is taken, so the system has no reason to kill a suspended process for one.
///
/// See the guide *Snapshot files* of Roundtable, and `SharedDatabase.publish(to:atMostEvery:reloading:onPublish:_:)`, which keeps a
/// file equal to what the database holds. The format is in `docs/PROTOCOL-FILES.md`, section V.
public struct SnapshotFile<Value: Codable & Sendable>: Sendable {
    /// Where the file is.
    public var url: URL { store.url }

    /// The version of the values that this process writes.
    public let version: Int
    /// The versions of the values that this process reads.
    public let acceptedVersions: ClosedRange<Int>

    package let store: SnapshotStore
    package let encoding: SnapshotEncoding<Value>

    /// Creates a snapshot file value. This does not access the file.
    ///
    /// - Parameters:
    ///   - url: the URL of the file. Its folder must exist, and should hold little else. A symbolic link is replaced, not
    ///     followed.
    ///   - version: your own number for the layout of `Value`, not negative. Raise it when older programs could not decode the
    ///     new layout.
    ///   - accepted: the versions that this process can decode; by default `version` alone.
    ///   - writer: the name of this process, for people; at most 48 bytes of it are stored.
    ///   - encoding: how values become bytes. It must be the same in all processes.
    ///   - options: the permissions, the durability and the maximum size of the file.
    public init(
        at url: URL,
        version: Int = 1,
        accepting accepted: ClosedRange<Int>? = nil,
        as writer: String,
        encoding: SnapshotEncoding<Value> = .json,
        options: SnapshotFileOptions = SnapshotFileOptions()
    ) {
        let accepted = accepted ?? version...version
        precondition(
            accepted.lowerBound >= 0 && accepted.contains(version),
            "\(url.path): version \(version) is not among those accepted, \(accepted), or negative"
        )
        self.version = version
        acceptedVersions = accepted
        self.encoding = encoding
        store = SnapshotStore(url, version: UInt64(version), writer: writer, options: options)
    }

    // MARK: Reading

    /// Reads what the file holds now. It never waits for a writer, unless accesses are coordinated (`SnapshotFileOptions.isCoordinated`).
    ///
    /// - throws: ``SnapshotFileError`` if the file cannot be read. What the file holds is never an error: a damaged value is a result.
    public func read() throws(SnapshotFileError) -> SnapshotReading<Value> {
        reading(of: try store.contents())
    }

    package func reading(of contents: SnapshotContents) -> SnapshotReading<Value> {
        switch contents {
        case .absent: return .absent
        case .newerFormat(let header): return .tooNew(SnapshotInfo(header))
        case .damaged(let damage, let header): return header.flatMap(refusal) ?? .damaged(damage)
        case .whole(let header, let bytes):
            if let refusal = refusal(of: header) { return refusal }
            do {
                return .value(try encoding.decode(Data(bytes), Int(header.version)), SnapshotInfo(header))
            } catch {
                return .damaged(.undecodable("\(error)"))
            }
        }
    }

    private func refusal(of header: SnapshotHeader) -> SnapshotReading<Value>? {
        let info = SnapshotInfo(header)
        if info.version > acceptedVersions.upperBound { return .tooNew(info) }
        if info.version < acceptedVersions.lowerBound { return .tooOld(info) }
        return nil
    }

    /// A sequence of what the file holds: now, and whenever any process replaces or removes it.
    ///
    /// ```swift
    /// for await reading in file.values() {
    ///     if case .value(let state, _) = reading { show(state) }
    /// }
    /// ```
    ///
    /// A value that is replaced before you ask for it is skipped; the last value always arrives. The sequence sleeps until something
    /// happens in the folder, and ends when its task is cancelled. If the folder cannot be watched, or does not exist yet, the sequence
    /// reads the file four times a second.
    public func values() -> SnapshotValues<Value> { SnapshotValues(file: self) }

    // MARK: Writing

    /// Replaces what the file holds, even if that is damaged. A file of a database that is open in this process is not replaced, nor is a
    /// file that was never a snapshot file and is not empty: the call throws an error instead.
    ///
    /// When the call returns, all processes find the value, and with ``CommitDurability/machine``, it survives a power cut.
    /// Processes that write at the same time do not wait for each other: the last one wins. The call blocks the thread while the disk
    /// works.
    ///
    /// - returns: the information that readers get with the value.
    /// - throws: ``SnapshotFileError``. The old value is then intact, except with ``SnapshotFileError/notDurable(path:errno:)``.
    @_disfavoredOverload
    @discardableResult
    public func write(_ value: Value) throws(SnapshotFileError) -> SnapshotInfo {
        let bytes = try encode(value)
        guard let header = try store.write(bytes, encoding.kind) else {
            preconditionFailure("only a write that expects something is refused")
        }
        return SnapshotInfo(header)
    }

    /// Writes a value like the synchronous `write(_:)`, without blocking the thread, with the same results and errors.
    @discardableResult
    public func write(_ value: Value) async throws(SnapshotFileError) -> SnapshotInfo {
        try await offThread { () -> Result<SnapshotInfo, SnapshotFileError> in
            do throws(SnapshotFileError) { return .success(try write(value)) } catch { return .failure(error) }
        }.get()
    }

    package func encode(_ value: Value) throws(SnapshotFileError) -> [UInt8] {
        do {
            return [UInt8](try encoding.encode(value))
        } catch {
            throw .encodingFailed(path: store.path, reason: "\(error)")
        }
    }
}
