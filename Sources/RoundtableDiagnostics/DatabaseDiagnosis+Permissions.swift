import RoundtableCore
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

// These are the findings about permissions: which users are kept out of a file that belongs to the database, and which get too much.

extension DatabaseDiagnosis {
    /// A file or folder, and what this process may do with it.
    struct InspectedFile {
        var path: String
        var status: FileStatus
        var isReadable: Bool
        var isWritable: Bool

        /// - returns: nil when there is no such file, or its folder cannot be entered.
        init?(_ path: String) {
            guard let status = try? System.status(ofFileAt: path) else { return nil }
            self.path = path
            self.status = status
            isReadable = System.mayRead(path)
            isWritable = System.mayWrite(path)
        }

        /// Whether a user of the database may be denied what the permissions of the database grant.
        func keepsOut(usersOf database: InspectedFile) -> Bool {
            let (file, other) = (status, database.status)
            let hasSameGroup = file.st_gid == other.st_gid
            let (group, others) = (file.st_mode >> 3, file.st_mode)
            let forOwner = Credentials(ownerOf: other).permissions(for: file)
            let forGroup = hasSameGroup ? group : others
            let forOthers = hasSameGroup ? others : others & group
            return other.st_mode >> 6 & 0o6 & ~forOwner != 0 || other.st_mode >> 3 & 0o6 & ~forGroup != 0
                || other.st_mode & 0o6 & ~forOthers != 0
        }

        /// Whether users who may not read or write the database may do that with this file.
        func admitsMore(thanUsersOf database: InspectedFile) -> Bool {
            let (file, other) = (status, database.status)
            let limit = file.st_gid == other.st_gid ? other.st_mode >> 3 : other.st_mode
            return file.st_mode >> 3 & 0o6 & ~limit != 0 || file.st_mode & 0o6 & ~other.st_mode != 0
        }
    }

    mutating func examinePermissions(_ status: DatabaseStatus, _ facts: SystemFacts) {
        guard let database = facts.database else { return }
        if database.isReadable, !database.isWritable {
            find(
                .permissions,
                .notice,
                """
                This process, of \(FileOwner(user: geteuid())), may read the database, and not write it. The file has \
                \(database.status.accessText).
                """,
                advice: """
                    Nothing, if this user is meant to read only. Else add the user to the database's group, or change its mode.
                    """
            )
        }
        for file in facts.companions {
            let name = String(decoding: file.path.utf8.dropFirst(status.path.utf8.count), as: UTF8.self)
            let access = "The \(name) file has \(file.status.accessText), the database \(database.status.accessText)"
            let isDenied = database.isReadable && !file.isReadable || database.isWritable && !file.isWritable
            // Participants do without the control block.
            if isDenied, file.path != status.controlBlock.path {
                find(
                    .permissions,
                    .error,
                    """
                    This process, of \(FileOwner(user: geteuid())), cannot \(file.isReadable ? "write" : "read") the file, and so not use the database as its \
                    permissions allow. \(access).
                    """,
                    at: file.path,
                    advice: Self.equalize
                )
            } else if isDenied || file.keepsOut(usersOf: database) {
                find(
                    .permissions,
                    .warning,
                    "\(access): some users of the database may be kept out.",
                    at: file.path,
                    advice: Self.equalize
                )
            } else if file.admitsMore(thanUsersOf: database) {
                find(
                    .permissions,
                    .warning,
                    "\(access): users may read or write it who may not use the database.",
                    at: file.path,
                    advice: Self.widenOrEqualize(database, file)
                )
            }
        }
    }

    /// The advice when more users may use a file than the database. If these are the database's group, they may be meant to use it: SQLite
    /// creates a database with the mode 644, which no umask makes writable for the group.
    private static func widenOrEqualize(_ database: InspectedFile, _ file: InspectedFile) -> String {
        let (own, mode) = (database.status.st_mode & 0o666, file.status.st_mode & 0o666)
        guard file.status.st_gid == database.status.st_gid, mode & ~own & ~0o060 == 0 else { return equalize }
        let octal = String(UInt32(own | mode & 0o060), radix: 8)
        return """
            If these users are meant to use the database: chmod \(octal) \(database.path.shellQuotedPath). If they are not, take the permission \
            from them. \(equalize)
            """
    }

    private static let equalize = """
        While no process has the database open, give the file the owner, group and mode of the database. In a folder with the set-group-ID bit \
        (chmod 2770), new files get the folder's group.
        """

    /// Examines whether those who apply commands can write the folders of the outbox: this process, the owner of the database file, the
    /// owners that run, and, beside the database, all who may write it.
    ///
    /// - returns: false if there is a finding.
    mutating func examineOutboxPermissions(_ facts: SystemFacts) -> Bool {
        guard let database = facts.database else { return true }
        let own = facts.outbox.filter { !$0.isReadable || !$0.isWritable }
        // Elsewhere than beside the database, the folder need not be for all who may write the database.
        let isForThisProcess = facts.isOutboxBeside || database.status.st_uid == geteuid()
        if database.isWritable, isForThisProcess, let first = own.first {
            find(
                .permissions,
                .error,
                """
                This process, of \(FileOwner(user: geteuid())), may write the database, and not the outbox: it can neither submit nor remove what was applied. \
                \(Self.list(own)).
                """,
                at: first.path,
                advice: Self.advice(database, facts)
            )
            return false
        }
        let file = database.status
        let owner = Credentials(ownerOf: file)
        func keepsOut(_ folder: InspectedFile) -> Bool {
            let mode = folder.status.st_mode
            if file.st_mode & 0o200 != 0, owner.permissions(for: folder.status) != 0o7 { return true }
            guard facts.isOutboxBeside else { return false }
            let forGroup = folder.status.st_gid == file.st_gid ? mode >> 3 : mode
            return file.st_mode & 0o020 != 0 && forGroup & 0o7 != 0o7 || file.st_mode & 0o002 != 0 && mode & 0o7 != 0o7
        }
        let denied = facts.outboxOwners.filter { owner in
            facts.outbox.contains { owner.credentials.permissions(for: $0.status) != 0o7 }
        }
        let folders = facts.outbox.filter { folder in
            keepsOut(folder) || denied.contains { $0.credentials.permissions(for: folder.status) != 0o7 }
        }
        guard let first = folders.first else { return true }
        find(
            .permissions,
            .warning,
            """
            Some who apply commands may not write the outbox. What they apply is applied once, but its files stay, and seem to wait. \
            \(Self.list(folders)); the database has \(file.accessText).
            """,
            at: first.path,
            by: denied.map(\.process),
            advice: Self.advice(database, facts)
        )
        return false
    }

    /// The first folder with its permissions, and the names of the others.
    private static func list(_ folders: [InspectedFile]) -> String {
        let first = folders.first.map { "The folder has \($0.status.accessText)" } ?? ""
        let others = folders.dropFirst().map { "'\($0.path.split(separator: "/").last ?? "")'" }
        return others.isEmpty ? first : "\(first). The same goes for \(others.joined(separator: ", ")) in it"
    }

    private static func advice(_ database: InspectedFile, _ facts: SystemFacts) -> String {
        guard facts.isOutboxBeside else {
            return """
                Give the folder, and the folders in it, a group that all who submit or apply commands are members of, and the mode 2770 (chgrp -R; \
                chmod 2770 for each).
                """
        }
        let mode = database.status.st_mode & 0o666
        let folder = String(UInt32(0o2000 | mode | (mode & 0o444) >> 2), radix: 8)
        return """
            Give the folder, and the folders in it, the group of the database (chgrp -R \(database.status.st_gid)) and the mode \(folder) (chmod), \
            and the files in them the mode \(String(UInt32(mode), radix: 8)).
            """
    }
}
