import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The name of a file while it is being written. The name identifies the writer, so that other processes can remove the files of dead
/// writers (rule V3).
package enum UnfinishedFile {
    private static let ending = ".new"
    private static let number = Atomic<UInt64>(0)
    private static let token = UInt32.random(in: 1 ... .max)

    /// A unique name: `PREFIX.PID-START-NAMESPACE-TOKEN-NUMBER.new`.
    package static func name(_ prefix: String) -> String {
        let writer = ProcessIdentity.current
        let number = number.add(1, ordering: .relaxed).newValue
        return "\(prefix).\(writer.pid)-\(writer.startTime)-\(writer.namespace)-\(token)-\(number)\(ending)"
    }

    /// Whether a path may be that of an unfinished file.
    package static func isName(_ path: String) -> Bool { path.hasSuffix(ending) }

    /// The process that writes or wrote the file; nil when the name is not that of an unfinished file with this prefix.
    static func writer(ofFileNamed name: String, _ prefix: String) -> ProcessIdentity? {
        // The comparison is by bytes, as in the system, because a character may have several encodings.
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

    /// Removes the unfinished files of dead writers from a folder. If it is unknown whether the writer is dead, a file is removed when it is
    /// older than an hour. A folder with such a name stays: whoever may write the folder around it can give it that name
    /// (`StagingFolder.removeAbandoned(in:_:)`).
    ///
    /// - returns: the number of files removed.
    @discardableResult
    package static func removeAbandoned(in folder: OpenFolder, _ prefix: String) throws -> Int {
        var removed = 0
        for name in try abandoned(in: folder, prefix) where try folder.status(ofFile: name)?.isFolder == false {
            do {
                if try folder.removeFile(name) { removed += 1 }
            } catch let error as SystemError where [EACCES, EPERM].contains(error.errno) {
                // In a sticky folder, the file of another user stays.
            }
        }
        return removed
    }

    /// The names in a folder that dead writers have given.
    package static func abandoned(in folder: OpenFolder, _ prefix: String) throws -> [String] {
        let reader = ProcessIdentity.current
        return try folder.names().filter { name in
            guard let writer = writer(ofFileNamed: name, prefix) else { return false }
            return switch writer.liveness(seenFrom: reader) {
            case .alive, .stopped: false
            case .dead: true
            case .unknown: try isOlderThanAnHour(name, in: folder)
            }
        }
    }

    private static func isOlderThanAnHour(_ name: String, in folder: OpenFolder) throws -> Bool {
        guard let status = try folder.status(ofFile: name) else { return false }
        return Int64(time(nil)) - status.modificationTime / 1_000_000_000 > 3600
    }
}
