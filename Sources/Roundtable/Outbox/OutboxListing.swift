import Foundation
import RoundtableKernel

/// What waits, by sender as names have it, in the order in which it is to be applied (rule X6).
///
///     the owner lists                 a sender
///     sees no 1.command
///                                     renames 1.command into place
///                                     renames 2.command into place
///     sees 2.command
///
/// So a list alone is not enough. Whatever was there before the second listing began is in the second list: all that came before a name of the
/// first one, too. Taken of a sender is therefore what the second list has, in order, up to the first name that the first list has not.
struct OutboxListing: Equatable {
    private(set) var commands: [String: [CommandFileName]] = [:]
    /// Whether there was nothing of the form of a command's name.
    let isEmpty: Bool
    /// Whether something of the first list is not taken: another listing finds it.
    private(set) var isCut = false

    /// Of a folder that is not there.
    init() { isEmpty = true }

    /// - Parameters:
    ///   - folder: that of the commands.
    ///   - names: lists it in place of the system.
    init(_ folder: OpenFolder, names: ((String) throws -> [String]?)? = nil) throws {
        func list() throws -> [String] { try names.map { try $0(folder.path) ?? [] } ?? folder.names() }
        let first = Set(try list())
        isEmpty = !first.contains { CommandFileName($0) != nil }
        if isEmpty { return }
        let second = try list().lazy.compactMap(CommandFileName.init)
        for (sender, names) in Dictionary(grouping: second, by: \.encodedSender) {
            let sorted = names.sorted()
            let taken = sorted.prefix { first.contains($0.description) }
            if !taken.isEmpty { commands[sender] = Array(taken) }
            if sorted[taken.count...].contains(where: { first.contains($0.description) }) { isCut = true }
        }
    }
}
