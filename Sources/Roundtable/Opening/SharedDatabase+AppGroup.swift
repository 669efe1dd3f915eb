#if canImport(Darwin)
    import Foundation

    extension SharedDatabase {
        /// The URL of a database that an app shares with its extensions.
        ///
        /// ```swift
        /// let url = try SharedDatabase.url(inAppGroup: "group.com.example.players", named: "Database/players.sqlite")
        /// ```
        ///
        /// - Parameters:
        ///   - group: the identifier of the App Group, as in the entitlements of each target that opens the database.
        ///   - name: the name of the file, or its path in the group's container. Missing folders of the path are created. The database
        ///     should have a folder of its own, because it has companion files.
        /// - throws: ``SharedDatabaseError/noAppGroup(_:)`` when this process is not in the group; errors of creating the folders. macOS
        ///   does not report that the process is not in the group: there, opening the database fails.
        public static func url(inAppGroup group: String, named name: String) throws -> URL {
            do {
                return try AppGroup.url(group, named: name)
            } catch let error as AppGroupError {
                throw SharedDatabaseError.noAppGroup(error.group)
            }
        }
    }
#endif
