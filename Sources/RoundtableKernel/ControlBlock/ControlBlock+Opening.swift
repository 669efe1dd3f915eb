#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ControlBlock {
    /// Why there is no control block to work with.
    package enum Unusable: Error, Equatable, CustomStringConvertible {
        case absent
        /// Not a control block, or a damaged one (rule L2).
        case damaged
        /// Its name is a link to a file of a database (rule G5).
        case locked(LockedFileError)
        case system(SystemError)
        /// All slots belong to processes that are alive.
        case full

        package var description: String {
            switch self {
            case .absent: "there is no control block"
            case .damaged: "the control block is damaged"
            case .locked(let error): error.description
            case .system(let error): error.description
            case .full: "all \(Layout.slotCount) places of the control block are taken"
            }
        }
    }

    /// Maps the block of a database. Creates nothing.
    package static func open(forDatabaseAt databasePath: String, writable: Bool) throws(Unusable) -> ControlBlock {
        let path = path(forDatabaseAt: databasePath)
        do {
            let file = try MappedFile(path: path, size: Layout.fileSize, writable: writable, notOf: databasePath)
            let block = ControlBlock(path: path, file: file)
            guard block.hasSeal else { throw Unusable.damaged }
            return block
        } catch let error as Unusable {
            throw error
        } catch let error as LockedFileError {
            throw .locked(error)
        } catch let error as SystemError {
            switch (error.call, error.errno) {
            case (.open, ENOENT), (.open, ENOTDIR): throw .absent
            // Another size.
            case (.fstat, EINVAL): throw .damaged
            case (.read, _) where error.isNoFile: throw unusable(noFileAt: path)
            default: throw .system(error)
            }
        } catch {
            preconditionFailure("only system errors come from mapping: \(error)")
        }
    }

    /// Maps the block of a database, after creating it if it is absent (rule B1), or replacing it if it is none (rule L2).
    ///
    /// - parameter access: for a new file; nil leaves it to the umask.
    package static func openOrCreate(
        forDatabaseAt databasePath: String,
        access: FileAccess?
    ) throws(Unusable) -> ControlBlock {
        let path = path(forDatabaseAt: databasePath)
        var last = Unusable.absent
        // Each round that does not return met another process that created, replaced or removed the file meanwhile.
        for _ in 0..<16 {
            let identity = try wrappingSystemErrors { try System.statusOfLink(at: path).map(FileIdentity.init) }
            do {
                return try open(forDatabaseAt: databasePath, writable: true)
            } catch .absent {
                last = .absent
            } catch .damaged {
                last = .damaged
                try wrappingSystemErrors {
                    if let identity { try System.removeFile(at: path, ifStill: identity) }
                }
            }
            try wrappingSystemErrors {
                let image = Layout.seal() + [UInt8](repeating: 0, count: Layout.fileSize - Layout.seal().count)
                _ = try System.createWhole(image, at: path, access: access, unfinished: unfinishedPrefix)
            }
        }
        throw last
    }

    /// Whether the seal is whole and the mapping still shows the file. Two loads; asked before each turn (rule L3).
    package var isIntact: Bool {
        !file.isLost && word(at: Layout.Header.magic).pointee.load(ordering: .relaxed) == Layout.magic
            && halfWord(at: Layout.Header.version).pointee.load(ordering: .relaxed) == Layout.version
    }

    /// Whether the file at `path` is still the one that is mapped, and whole (rules L3, L4).
    package var isInPlace: Bool {
        guard let status = try? System.statusOfLink(at: path) else { return false }
        return FileIdentity(status) == file.identity && Int(status.st_size) == file.size
    }

    private var hasSeal: Bool {
        let seal = Layout.seal()
        return seal.indices.allSatisfy { file.base.load(fromByteOffset: $0, as: UInt8.self) == seal[$0] }
    }

    /// Files that are being created have names that begin so: the database's name would make them longer than names may be.
    static let unfinishedPrefix = ".roundtable\(kind)"

    /// A folder cannot be replaced, and a symbolic link is somebody's intent; anything else is no control block.
    private static func unusable(noFileAt path: String) -> Unusable {
        guard let status = try? System.statusOfLink(at: path) else { return .absent }
        if status.isFolder { return .system(SystemError(call: .open, errno: EISDIR, path: path)) }
        if status.isSymbolicLink { return .system(SystemError(call: .open, errno: ELOOP, path: path)) }
        return .damaged
    }
}

private func wrappingSystemErrors<T>(_ body: () throws -> T) throws(ControlBlock.Unusable) -> T {
    do {
        return try body()
    } catch let error as SystemError {
        throw .system(error)
    } catch {
        preconditionFailure("only system errors come from the system: \(error)")
    }
}
