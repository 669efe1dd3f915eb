import Foundation

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
/// A file is replaced whole: who reads finds the old value or the new one, never half of either, and never waits, whoever is frozen
/// or killed in the middle of writing. No lock is taken, so there is none that a suspended process could be killed for.
///
/// See <doc:SnapshotFiles>, and ``SharedDatabase/publish(to:atMostEvery:reloading:onPublish:onError:_:)``, which keeps a file equal to what the database holds.
/// The format is in `docs/PROTOCOL.md`, section V.
public struct SnapshotFile<Value: Codable & Sendable>: Sendable {
    /// Where the file is.
    public var url: URL { store.url }

    /// What this process writes, and the versions that it reads.
    public let version: Int
    public let acceptedVersions: ClosedRange<Int>

    let store: SnapshotStore
    let encoding: SnapshotEncoding<Value>

    /// Names a file; does not touch it.
    ///
    /// - Parameters:
    ///   - url: where it is. Its folder has to be there, and is best one that holds little else. A symbolic link is replaced, not followed.
    ///   - version: your own number of what `Value` looks like, not negative. Raise it when older programs could not decode it.
    ///   - accepted: the versions that this process can decode; by default `version` alone.
    ///   - writer: the name of this process, for people; at most 48 bytes of it are stored.
    ///   - encoding: how values become bytes, the same in all processes.
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

    /// What the file holds now. Never waits for whoever writes.
    ///
    /// - throws: when the system does not let this process read it. What is in the file is never an error, but an answer.
    public func read() throws(SnapshotFileError) -> SnapshotReading<Value> {
        reading(of: try store.contents())
    }

    func reading(of contents: SnapshotContents) -> SnapshotReading<Value> {
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

    /// What the file holds, and then what it holds whenever it is replaced or removed, by any process.
    ///
    /// ```swift
    /// for await reading in file.values() {
    ///     if case .value(let state, _) = reading { show(state) }
    /// }
    /// ```
    ///
    /// What is replaced again before you ask is skipped: the last value always arrives. It sleeps until something happens in the folder, and
    /// ends with its task. Where a folder cannot be watched, or is not there yet, it looks four times a second.
    public func values() -> SnapshotValues<Value> { SnapshotValues(file: self) }

    // MARK: Writing

    /// Puts a value in the place of what the file holds, also where that is damaged. A file of a database that is open in this process, or one that was
    /// never a snapshot file and is not empty, is not replaced, but an error.
    ///
    /// When it returns, all processes find the value, and with ``SnapshotFileOptions/Durability/full``, it survives a power cut. Others that write at
    /// the same time do not wait: the last one wins. Blocks the thread while the disk is at work.
    ///
    /// - returns: what readers are told of it.
    /// - throws: ``SnapshotFileError``. The old value is intact then, but for ``SnapshotFileError/notDurable(path:errno:)``.
    @_disfavoredOverload
    @discardableResult
    public func write(_ value: Value) throws(SnapshotFileError) -> SnapshotInfo {
        let bytes = try encode(value)
        guard let header = try store.write(bytes, encoding.kind) else {
            preconditionFailure("only a write that expects something is refused")
        }
        return SnapshotInfo(header)
    }

    /// The same, without blocking the thread.
    @discardableResult
    public func write(_ value: Value) async throws(SnapshotFileError) -> SnapshotInfo {
        try await offThread { () -> Result<SnapshotInfo, SnapshotFileError> in
            do throws(SnapshotFileError) { return .success(try write(value)) } catch { return .failure(error) }
        }.get()
    }

    func encode(_ value: Value) throws(SnapshotFileError) -> [UInt8] {
        do {
            return [UInt8](try encoding.encode(value))
        } catch {
            throw .encodingFailed(path: store.path, reason: "\(error)")
        }
    }
}
