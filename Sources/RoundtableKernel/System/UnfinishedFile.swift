import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The name of a file while it is being written. It tells who writes it, so that others can remove what the dead have left (rule V3).
package enum UnfinishedFile {
    private static let ending = ".new"
    private static let number = Atomic<UInt64>(0)
    private static let token = UInt32.random(in: 1 ... .max)

    /// A name that nobody else uses: `PREFIX.PID-START-NAMESPACE-TOKEN-NUMBER.new`.
    package static func name(_ prefix: String) -> String {
        let writer = ProcessIdentity.current
        let number = number.add(1, ordering: .relaxed).newValue
        return "\(prefix).\(writer.pid)-\(writer.startTime)-\(writer.namespace)-\(token)-\(number)\(ending)"
    }

    /// Whether a path may be one of a file that is being written.
    package static func isName(_ path: String) -> Bool { path.hasSuffix(ending) }

    /// Who writes, or wrote, the file; nil when it is none of ours.
    static func writer(ofFileNamed name: String, _ prefix: String) -> ProcessIdentity? {
        // By bytes: names are those to the system, and a character may have several.
        let (bytes, start) = (Array(name.utf8), Array("\(prefix).".utf8))
        guard bytes.starts(with: start), name.hasSuffix(ending), bytes.count >= start.count + ending.utf8.count else {
            return nil
        }
        let fields = String(decoding: bytes[start.count..<(bytes.count - ending.utf8.count)], as: UTF8.self)
            .split(separator: "-", omittingEmptySubsequences: false)
        guard fields.count == 5, let pid = Int32(fields[0]), pid > 0, let start = UInt64(fields[1]),
            let namespace = UInt64(fields[2])
        else { return nil }
        return ProcessIdentity(pid: pid, startTime: start, namespace: namespace)
    }

    /// Removes what dead writers have left in a folder; where it cannot be told whether one is dead, what is older than an hour.
    ///
    /// - returns: how many.
    @discardableResult
    package static func removeAbandoned(in folder: String, _ prefix: String) throws -> Int {
        let folder = try OpenFolder.ifThere(at: folder, followingLinks: true)
        return try folder.map { try removeAbandoned(in: $0, prefix) } ?? 0
    }

    /// The same, in a folder that is open.
    @discardableResult
    package static func removeAbandoned(in folder: OpenFolder, _ prefix: String) throws -> Int {
        let reader = ProcessIdentity.current
        var removed = 0
        for name in try folder.names() {
            guard let writer = writer(ofFileNamed: name, prefix) else { continue }
            switch writer.liveness(seenFrom: reader) {
            case .alive, .stopped: continue
            case .dead: break
            case .unknown: if try !isOlderThanAnHour(name, in: folder) { continue }
            }
            if try folder.removeFile(name) { removed += 1 }
        }
        return removed
    }

    private static func isOlderThanAnHour(_ name: String, in folder: OpenFolder) throws -> Bool {
        guard let status = try folder.status(ofFile: name) else { return false }
        return Int64(time(nil)) - status.modificationTime / 1_000_000_000 > 3600
    }
}
