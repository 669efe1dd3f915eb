/// The folders that Apple's systems give to apps, judging by paths without symbolic links. The system has no function for this: the groups of a
/// process are in its entitlements, which it cannot read.
package enum AppContainer {
    /// `…/Containers/Shared/AppGroup/UUID` on iOS and in its simulator, `…/Library/Group Containers/GROUP` on macOS.
    private static let shared = [["Containers", "Shared", "AppGroup"], ["Library", "Group Containers"]]
    /// `…/Containers/Data/Application/UUID`, `…/Containers/Data/PluginKitPlugin/UUID` on iOS, `…/Library/Containers/ID` on macOS.
    private static let own = [
        ["Containers", "Data", "Application"], ["Containers", "Data", "PluginKitPlugin"], ["Library", "Containers"],
    ]

    /// Whether the file lies in the container of an App Group, which an app shares with its extensions.
    package static func isShared(_ path: String) -> Bool {
        let names = names(path)
        // The container's own name must be followed by the name of a file.
        return depth(names, shared).map { names.count > $0 } ?? false
    }

    /// The container of an App Group on iOS, or in its simulator, in which the file lies; nil if it lies in none.
    package static func groupOnIOS(holding path: String) -> String? {
        let names = names(path)
        guard let depth = depth(names, [shared[0]]), names.count > depth else { return nil }
        return "/" + names.prefix(depth).joined(separator: "/")
    }

    /// How many of the path's names lead to the container that it is in, at least one of them the container's own; nil if it is in none. The
    /// process may not open folders above it, and they are not moved.
    static func depth(_ names: [Substring]) -> Int? { depth(names, shared + own) }

    private static func depth(_ names: [Substring], _ folders: [[String]]) -> Int? {
        for start in names.indices {
            let rest = names[start...]
            for folder in folders where rest.count > folder.count && zip(rest, folder).allSatisfy({ $0 == $1 }) {
                return start + folder.count + 1
            }
        }
        return nil
    }

    private static func names(_ path: String) -> [Substring] { path.split(separator: "/") }
}
