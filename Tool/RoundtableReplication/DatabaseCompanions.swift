/// The names of the files that belong to a database: its own name, and an ending. Programs open them by these names, and do what they say.
/// They are written out, because a fuzzer links this file without the modules that have them.
package enum DatabaseCompanions {
    /// The endings of files whose content is a part of the database.
    package static let journals = ["-wal", "-journal"]

    /// All endings, without those of control blocks. The outbox is no file of one database: its commands wait for whatever database is there.
    package static let endings = journals + ["-shm", "-salt", "-replication", "-replica", "-term", "-fenced", "-txid"]

    /// Whether a name belongs to this database.
    package static func isCompanion(_ name: String, of database: String) -> Bool {
        guard name.hasPrefix(database) else { return false }
        let ending = name.dropFirst(database.count)
        return endings.contains(String(ending)) || ending.wholeMatch(of: /-coord[0-9]*/) != nil
    }

    /// Whether a name would belong to some database, or is that of its outbox, also where case does not matter.
    package static func isReserved(_ name: String) -> Bool {
        let name = name.uppercased()
        return (endings + ["-outbox"]).contains { name.hasSuffix($0.uppercased()) }
            || name.firstMatch(of: /-COORD[0-9]*$/) != nil
    }
}
