/// The location of the containers of App Groups, which an app shares with its extensions.
enum AppGroupContainer {
    /// Whether the file lies in the container of an App Group, judging by its path without symbolic links:
    /// `…/Containers/Shared/AppGroup/UUID/…` on iOS and in its simulator, `…/Library/Group Containers/GROUP/…` on macOS.
    ///
    /// The system has no function for this. The groups of a process are in its entitlements, which it cannot read.
    static func holds(_ path: String) -> Bool {
        let components = path.split(separator: "/").map(String.init)
        return components.indices.contains { start in
            let rest = components[start...]
            // The container's own name must be followed by the name of a file.
            return folders.contains { rest.starts(with: $0) && rest.count >= $0.count + 2 }
        }
    }

    private static let folders = [["Containers", "Shared", "AppGroup"], ["Library", "Group Containers"]]
}
