#if canImport(Darwin)
    import Foundation

    extension SharedDatabase {
        /// The place of a database that an app shares with its extensions.
        ///
        /// ```swift
        /// let url = try SharedDatabase.url(inAppGroup: "group.com.example.players", named: "Database/players.sqlite")
        /// ```
        ///
        /// - Parameters:
        ///   - group: the identifier of the App Group, as in the entitlements of each target that opens the database.
        ///   - name: of the file, or its path in the group's container. Folders on the way are created. A folder of its own is good for a
        ///     database: it has companion files.
        /// - throws: ``SharedDatabaseError/noAppGroup(_:)`` when this process is not in the group. macOS does not tell, and the database
        ///   cannot be opened then.
        public static func url(inAppGroup group: String, named name: String) throws -> URL {
            let files = FileManager.default
            guard let container = files.containerURL(forSecurityApplicationGroupIdentifier: group) else {
                throw SharedDatabaseError.noAppGroup(group)
            }
            let url = container.appendingPathComponent(name, isDirectory: false)
            try files.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            return url
        }
    }
#endif
