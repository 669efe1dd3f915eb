import ArgumentParser
import Foundation
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The option of commands that put files into a folder which programs of other users may write.
package struct OthersFolderOption: ParsableArguments {
    @Flag(help: "Write into a folder of another user, who can then replace, read and change what is written.")
    package var intoOthersFolder = false

    package init() {}

    /// The path with its symbolic links followed.
    ///
    /// - throws: `ToolError` when another user decides where one of them leads, and the option is not given.
    package func resolved(_ path: String) throws -> String {
        try System.resolvedPath(URL(fileURLWithPath: path).path, checking: checkLink)
    }

    /// - throws: `ToolError` when another user decides where the link leads, and the option is not given.
    package func checkLink(_ link: FoundLink) throws {
        guard !intoOthersFolder else { return }
        if case .file(let owner) = try link.folder.others(replacing: link.status) {
            throw ToolError(
                "\(link.path): is a symbolic link of another user, \(owner), in a folder in which all may create files: that user decides what would be written. Give the path without this link; or, if that user is trusted, give --into-others-folder."
            )
        }
        try check(link.folder)
    }

    /// Checks the folder of a database that is opened and changed in place, which only the superuser does with files of other users: what it
    /// creates there belongs to them.
    ///
    /// - returns: the database, with the links of its path followed.
    package func checkedDatabase(_ path: String) throws -> URL {
        guard geteuid() == 0 else { return URL(fileURLWithPath: path) }
        let url = URL(fileURLWithPath: try resolved(path))
        if let folder = try OpenFolder.ifThere(at: url.deletingLastPathComponent().path) { try check(folder) }
        return url
    }

    /// - parameter file: what is to be replaced there, if it is.
    /// - throws: `ToolError` when another user decides what the names in the folder lead to, and the option is not given.
    package func check(_ folder: OpenFolder, replacing file: FileStatus? = nil) throws {
        guard !intoOthersFolder else { return }
        switch try folder.others(replacing: file) {
        case nil: return
        case .owner(let owner):
            throw ToolError(
                "\(folder.path): is the folder of another user, \(FileOwner(user: owner)), who can replace what user \(geteuid()) writes there. Run this as that user; or, if that user is trusted, give --into-others-folder."
            )
        case .writers(let access):
            throw ToolError(
                "\(folder.path): is a folder that other users may write (\(access)), who can replace what root writes there. Run this as one of them, or take that permission away; or, if they are trusted, give --into-others-folder."
            )
        case .file(let owner):
            throw ToolError(
                "\(folder.path): is a folder in which all may create files, and what would be replaced belongs to another user, \(FileOwner(user: owner)), who chose who may read it. Use another folder; or, if that user is trusted, give --into-others-folder."
            )
        }
    }
}
