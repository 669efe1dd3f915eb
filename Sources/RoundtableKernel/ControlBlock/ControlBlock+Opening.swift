#if canImport(Darwin)
    import Darwin
#else
    import Glibc
    import Synchronization
#endif

extension ControlBlock {
    /// Why the control block cannot be used.
    package enum Unusable: Error, Equatable, CustomStringConvertible {
        /// No participant has created one yet, or other programs remove it whenever it is created.
        case absent
        /// The file is not a control block, or is a damaged one (rule L2): another program has written it. It is replaced at the next turn.
        case damaged
        /// The name of the control block is a link to a file of a database (rule G5).
        case locked(LockedFileError)
        case system(SystemError)
        /// The file belongs to a user who may not write the database, as far as is known (rule B7). In a sticky folder such as `/tmp`, this
        /// can be any user but the database's owner: a folder that only the users of the database may write avoids that.
        case foreign(owner: UInt32)
        /// The file has another name, and users may write it who may not write the database (rule B7).
        case shared
        /// All slots belong to processes that are not proven dead.
        case full

        package var description: String {
            switch self {
            case .absent: "there is no control block"
            case .damaged: "the control block is damaged"
            case .locked(let error): error.description
            case .system(let error): error.description
            case .foreign(let owner):
                "the control block belongs to user \(owner), who is not known to have the permission to write the database: remove the file"
            case .shared:
                "the control block has another name, such as that of another database's, and users may write it who may not write this database: remove the file"
            case .full:
                """
                all \(Layout.slotCount) places of the control block are taken, or locked by a process that only reads: open the database \
                once in each process
                """
            }
        }
    }

    /// Maps the existing control block of a database. It creates nothing.
    package static func open(forDatabaseAt databasePath: String, writable: Bool) throws(Unusable) -> ControlBlock {
        let path = path(forDatabaseAt: databasePath)
        do {
            let file = try MappedFile(path: path, size: Layout.fileSize, writable: writable, notOf: databasePath)
            let block = ControlBlock(path: path, file: file)
            guard try mayOwnBlock(file.status.st_uid, ofDatabaseAt: databasePath) else {
                throw Unusable.foreign(owner: UInt32(file.status.st_uid))
            }
            if try isShared(file.status, withDatabaseAt: databasePath) { throw Unusable.shared }
            // Nothing has been read yet. Another program, or an earlier version of the package, may have left the file in a stricter class.
            try ProtectionClasses.present?.relax(path)
            guard block.hasSeal else { throw Unusable.damaged }
            return block
        } catch let error as Unusable {
            throw error
        } catch let error as LockedFileError {
            throw .locked(error)
        } catch let error as SystemError {
            switch (error.call, error.errno) {
            case (.open, ENOENT), (.open, ENOTDIR): throw .absent
            // The file has another size.
            case (.fstat, EINVAL): throw .damaged
            case (.read, _) where error.isMissingFile: throw unusable(noFileAt: path)
            default: throw .system(error)
            }
        } catch {
            preconditionFailure("only system errors come from mapping: \(error)")
        }
    }

    /// Maps the control block of a database. It creates the block if it is absent (rule B1), and replaces a file that is
    /// not a control block (rule L2).
    ///
    /// - parameter access: the permissions of a new file; nil leaves them to the umask.
    package static func openOrCreate(
        forDatabaseAt databasePath: String,
        access: FileAccess?
    ) throws(Unusable) -> ControlBlock {
        let path = path(forDatabaseAt: databasePath)
        var last = Unusable.absent
        // A round that does not return met another process that created, replaced or removed the file.
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
                let current = { try access?.current(ofDatabaseAt: databasePath, in: $0) }
                _ = try System.createWhole(image, at: path, access: current, unfinished: unfinishedPrefix) {
                    try ProtectionClasses.present?.relax($0, mappedWith: databasePath)
                }
            }
        }
        throw last
    }

    /// Whether a control block of this user is used (rule B7). Before there is a database, only the own user's and the superuser's are.
    static func mayOwnBlock(_ owner: uid_t, ofDatabaseAt databasePath: String) throws -> Bool {
        if owner == 0 || owner == geteuid() { return true }
        guard let database = try System.status(ofFileAt: databasePath) else { return false }
        if owner == database.st_uid { return true }
        guard database.st_mode & 0o022 != 0,
            let folder = try System.status(ofFileAt: System.place(of: databasePath).folder)
        else { return false }
        // Users who may not write the database can create files in a sticky folder, such as /tmp. Who may write another kind of folder can put
        // a database in the place of this one.
        return folder.st_mode & S_ISVTX == 0
    }

    /// Whether a file beside a database has another name, and lets users write it who may not write the database (rule B7). A block that is
    /// being created has two names for a moment, and the permissions of the database.
    private static func isShared(_ file: FileStatus, withDatabaseAt databasePath: String) throws -> Bool {
        guard file.st_nlink > 1, let database = try System.status(ofFileAt: databasePath) else { return false }
        return file.st_mode & 0o022 & ~database.st_mode != 0
    }

    /// Whether a process believes what a file beside a database says of other processes (rule B7).
    package static func mayUse(_ file: FileStatus, besideDatabaseAt databasePath: String) throws -> Bool {
        try mayOwnBlock(file.st_uid, ofDatabaseAt: databasePath) && !isShared(file, withDatabaseAt: databasePath)
    }

    /// Whether the seal is intact and the mapping still shows the file. It costs two loads, and is checked before each turn (rule L3).
    package var isIntact: Bool {
        !file.isLost && word(at: Layout.Header.magic).pointee.load(ordering: .relaxed) == Layout.magic
            && halfWord(at: Layout.Header.version).pointee.load(ordering: .relaxed) == Layout.version
    }

    /// Whether the file at `path` is still the mapped one, at its full size (rules L3, L4).
    package var isInPlace: Bool {
        guard let status = try? System.statusOfLink(at: path) else { return false }
        return FileIdentity(status) == file.identity && Int(status.st_size) == file.size
    }

    private var hasSeal: Bool {
        let seal = Layout.seal()
        return seal.indices.allSatisfy { file.base.load(fromByteOffset: $0, as: UInt8.self) == seal[$0] }
    }

    /// The prefix of the names of unfinished files. The database's name is not part of it, because that could make the name too long.
    static let unfinishedPrefix = ".roundtable\(kind)"

    /// The error for a name that cannot be opened as a file. A folder cannot be replaced, and a symbolic link is assumed to be
    /// intended, so both are reported as errors. Anything else is not a control block, and can be replaced.
    private static func unusable(noFileAt path: String) -> Unusable {
        guard let status = try? System.statusOfLink(at: path) else { return .absent }
        if status.isFolder { return .system(SystemError(call: .open, errno: EISDIR, path: path)) }
        if status.isSymbolicLink { return .system(SystemError(call: .open, errno: ELOOP, path: path)) }
        return .damaged
    }
}

extension FileAccess {
    /// The access of a new file beside a database. The superuser gives that file to the database's owner, so it counts who that is in the very
    /// folder where the file is created: the owner of a folder on the path can put another folder, or a link to one, in its place.
    ///
    /// - returns: without a database there, these permissions with the own user's id.
    fileprivate func current(ofDatabaseAt path: String, in folder: OpenFolder) throws -> FileAccess {
        let status = try folder.status(ofFile: System.place(of: path).name)
        guard let status, status.isRegularFile else { return FileAccess(mode: mode) }
        return FileAccess(status)
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
