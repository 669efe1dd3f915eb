#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Who may use a file.
package struct FileAccess: Sendable {
    package let mode: mode_t
    package let owner: uid_t
    package let group: gid_t

    /// Of this process, for tests.
    init(mode: mode_t) {
        (self.mode, owner, group) = (mode, geteuid(), getegid())
    }

    package init(_ status: stat) {
        mode = status.st_mode & 0o666
        owner = status.st_uid
        group = status.st_gid
    }
}

extension System {
    /// The identity of the file at `path`, or nil when there is none. Does not open it.
    package static func identity(ofFileAt path: String) throws -> FileIdentity? {
        try status(ofFileAt: path).map(FileIdentity.init)
    }

    /// `stat`, or nil when there is no such file. Does not open it.
    package static func status(ofFileAt path: String) throws -> stat? {
        var status = stat()
        do {
            try perform(.stat, path) { stat(path, &status) }
            return status
        } catch let error as SystemError where error.errno == ENOENT || error.errno == ENOTDIR {
            return nil
        }
    }

    /// Whether this process may write the file, or create files in the folder. Asked once, as advice: SQLite decides.
    package static func mayWrite(_ path: String) -> Bool { access(path, W_OK) == 0 }

    /// Whether this process may read the file.
    package static func mayRead(_ path: String) -> Bool { access(path, R_OK) == 0 }

    /// Puts a file with these bytes at `path`, whole or not at all (rule B1).
    ///
    /// - returns: false when a file is there already.
    static func createWhole(_ bytes: [UInt8], at path: String, access: FileAccess?, suffix: String) throws -> Bool {
        let temporary = "\(path)-\(suffix)"
        let descriptor = try perform(.open, temporary) {
            open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o644)
        }
        // Whatever happens, the temporary name goes. When even that fails, the name stays behind, and harms nobody: it
        // is never opened again.
        defer { _ = try? perform(.unlink, temporary) { unlink(temporary) } }
        do {
            defer { close(descriptor) }
            if let access {
                try perform(.chmod, temporary) { fchmod(descriptor, access.mode) }
                // As SQLite does for its own companion files: else root would lock the owner out.
                if geteuid() == 0 { try perform(.chown, temporary) { fchown(descriptor, access.owner, access.group) } }
            }
            var written = 0
            while written < bytes.count {
                written += try perform(.write, temporary) {
                    bytes.withUnsafeBytes { write(descriptor, $0.baseAddress! + written, bytes.count - written) }
                }
            }
        }
        do {
            try perform(.link, path) { link(temporary, path) }
            return true
        } catch let error as SystemError where error.errno == EEXIST {
            return false
        }
    }

    /// Removes the file at `path` if it is still `identity`.
    static func remove(_ identity: FileIdentity, at path: String) throws {
        guard try Self.identity(ofFileAt: path) == identity else { return }
        do {
            try perform(.unlink, path) { unlink(path) }
        } catch let error as SystemError where error.errno == ENOENT {
            // Another process removed it first.
        }
    }
}
