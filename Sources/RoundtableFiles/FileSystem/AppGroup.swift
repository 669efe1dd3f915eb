import Foundation

#if canImport(Darwin)
    /// Finds files in the container that an app shares with its extensions.
    public enum AppGroup {
        /// Returns the URL of a file that an app shares with its extensions, and creates the folders above the file.
        ///
        /// ```swift
        /// let url = try AppGroup.url("group.com.example.tasks", named: "Snapshots/widget")
        /// ```
        ///
        /// - Parameters:
        ///   - group: the identifier of the App Group, as in the entitlements of each target that uses the file.
        ///   - name: the name of the file, or its path in the group's container.
        /// - throws: ``AppGroupError`` if this process is not in the group, or the error of creating the folders. On macOS, the system does
        ///   not report that the process is not in the group, and opening the file fails instead.
        public static func url(_ group: String, named name: String) throws -> URL {
            let files = FileManager.default
            guard let container = files.containerURL(forSecurityApplicationGroupIdentifier: group) else {
                throw AppGroupError(group: group)
            }
            let url = container.appendingPathComponent(name, isDirectory: false)
            try files.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            return url
        }
    }
#endif

/// This process is not in an App Group that it needs.
public struct AppGroupError: Error, Hashable, Sendable {
    package var group: String
}

extension AppGroupError: CustomStringConvertible, LocalizedError {
    public var description: String {
        """
        This process is not in the App Group '\(group)'. Add the group to the entitlements of this target (in Xcode: Signing & \
        Capabilities, App Groups), the app's and each extension's.
        """
    }

    public var errorDescription: String? { "This program has no access to the files of its app." }
}
