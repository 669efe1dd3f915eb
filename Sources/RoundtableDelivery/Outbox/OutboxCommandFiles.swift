import Foundation
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The files of the waiting commands, as their owner lists, reads and moves them. It is used by one thread at a time.
struct OutboxCommandFiles {
    private let folder: OutboxFolder
    /// The folder of the last listing; nil before one, and if there was none.
    private var commands: OpenFolder?

    init(_ folder: OutboxFolder) { self.folder = folder }

    /// Lists the commands. What is read and moved after that is in the folder that was listed.
    ///
    /// - parameter names: a function that lists the folder in place of the system.
    mutating func list(names: ((String) throws -> [String]?)?) throws -> OutboxListing {
        commands = try folder.openIfThere(.commands)
        return try commands.map { try OutboxListing($0, names: names) } ?? OutboxListing()
    }

    mutating func close() { commands = nil }

    func exists(_ name: CommandFileName) throws -> Bool { try status(of: name) != nil }

    private func status(of name: CommandFileName) throws -> FileStatus? { try commands?.status(ofFile: "\(name)") }

    /// - parameter now: the date by which the age of a file is measured.
    func read(_ name: CommandFileName, now: () -> Date) -> OutboxSchedule.Reading {
        do {
            guard let commands else { return .missing }
            switch try CommandFile.read(name, in: commands, notOf: folder.databasePath) {
            case nil: return .missing
            case .command(let command): return .command(command)
            case .newer: return .newer(path: folder.path(of: name))
            case .damaged(let reason, let isCutOff):
                return .damaged(reason: reason, age: isCutOff ? try age(of: name, now()) : nil)
            }
        } catch {
            return .failed(folder.translated(error))
        }
    }

    /// How long ago the file was changed, in seconds; nil when it does not exist.
    private func age(of name: CommandFileName, _ now: Date) throws -> TimeInterval? {
        try status(of: name).map { now.timeIntervalSince1970 - Double($0.modificationTime) / 1e9 }
    }

    // Rule X9: An entry of `commands` that is not whole, names another sender than its file name, or is no regular file is moved to
    // `damaged`. One that is cut off and changed within 5 s, one that cannot be read, and one of a newer format make their sender's later
    // ones wait. The places of magic, format and header checksum never change. A file whose name is not of the form is left alone.

    /// Moves a damaged file away (rule X9).
    func moveAway(_ name: CommandFileName) -> OutboxSchedule.Move {
        do {
            let damaged = try folder.open(.damaged)
            try commands?.renameFile("\(name)", to: "\(name)", in: damaged)
            return .moved(to: damaged.file("\(name)"))
        } catch let error as SystemError where error.errno == ENOENT {
            return .gone
        } catch {
            return .failed(path: folder.path(of: name), folder.translated(error))
        }
    }
}
