import Foundation
import RoundtableFiles
import RoundtableKernel

// Rule X6: Commands of one sender are applied by epoch, stream and number: the bytewise order of their names. An owner lists `commands`
// twice, and takes of each sender the names of the second list up to the first that the first list does not have, because files may come
// while it lists.

/// The waiting commands, by sender as names have it, in the order in which they are to be applied (rule X6).
///
///     the owner lists                 a sender
///     sees no 1.command
///                                     renames 1.command into place
///                                     renames 2.command into place
///     sees 2.command
///
/// So one listing is not enough. The second list has all that was there when the second listing began, and so all that came before any
/// name of the first list.
package struct OutboxListing: Equatable {
    package private(set) var commands: [String: [CommandFileName]] = [:]
    /// Whether no name has the form of a command's name.
    let isEmpty: Bool
    /// Whether a name of the first list is not taken. Another listing finds it.
    private(set) var isCut = false

    /// Creates the listing of a folder that does not exist.
    init() { isEmpty = true }

    /// - Parameters:
    ///   - folder: the folder of the commands.
    ///   - names: a function that lists the folder in place of the system.
    package init(_ folder: OpenFolder, names: ((String) throws -> [String]?)? = nil) throws {
        func list() throws -> [String] { try names.map { try $0(folder.path) ?? [] } ?? folder.names() }
        try self.init(first: list(), second: list)
    }

    /// - parameter second: lists the folder again. It is not called if the first list has no command.
    init(first: [String], second: () throws -> [String]) rethrows {
        let first = Set(first)
        isEmpty = !first.contains { CommandFileName($0) != nil }
        if isEmpty { return }
        let second = try second().lazy.compactMap(CommandFileName.init)
        for (sender, names) in Dictionary(grouping: second, by: \.encodedSender) {
            let sorted = names.sorted()
            let taken = sorted.prefix { first.contains($0.description) }
            if !taken.isEmpty { commands[sender] = Array(taken) }
            if sorted[taken.count...].contains(where: { first.contains($0.description) }) { isCut = true }
        }
    }
}
