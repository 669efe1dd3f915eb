import ArgumentParser
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The option of commands that put files into a folder which programs of other users may write.
struct OthersFolderOption: ParsableArguments {
    @Flag(help: "Write into a folder of another user, who can then replace, read and change what is written.")
    var intoOthersFolder = false

    /// - parameter file: what is to be replaced there, if it is.
    /// - throws: `ToolError` when another user decides what the names in the folder lead to, and the option is not given.
    func check(_ folder: OpenFolder, replacing file: FileStatus? = nil) throws {
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
