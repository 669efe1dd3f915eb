import Foundation
import RoundtableTestSupport
import Testing

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// The file of the statements that were typed, which may contain what is secret.
@Suite struct SQLHistoryFileTests {
    private let folder: Folder
    private let file: SQLHistoryFile

    init() throws {
        folder = try Folder()
        file = SQLHistoryFile(path: folder.path("history"))
    }

    private func mode() throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: file.path)[.posixPermissions] as? Int
    }

    /// A file that other users could read, such as one of an earlier version or of another umask, is private after the first write.
    @Test(arguments: [nil, 0o644, 0o666, 0o600]) func onlyItsUserReadsIt(before: Int?) throws {
        if let before {
            let line = Data("SELECT 'a much longer line'\n".utf8)
            #expect(FileManager.default.createFile(atPath: file.path, contents: line))
            try FileManager.default.setAttributes([.posixPermissions: before], ofItemAtPath: file.path)
        }
        file.write(["SELECT 1"])
        #expect(try mode() == 0o600)
        #expect(file.lines == ["SELECT 1"])
    }

    /// Another name of it may be that of a file which another user wants to have overwritten.
    @Test func aFileWithAnotherName() throws {
        let other = folder.path("other")
        #expect(FileManager.default.createFile(atPath: other, contents: Data("x\n".utf8)))
        #expect(link(other, file.path) == 0)
        let before = try mode()
        file.write(["SELECT 1"])
        #expect(try String(contentsOfFile: other, encoding: .utf8) == "x\n" && file.lines.isEmpty)
        #expect(try mode() == before)
    }

    /// A pipe in its place neither blocks the prompt nor gets the statements.
    @Test(.timeLimit(.minutes(1))) func aPipeInItsPlace() {
        #expect(mkfifo(file.path, 0o666) == 0)
        #expect(file.lines.isEmpty)
        file.write(["SELECT 1"])
    }

    #if os(Linux)
        /// Another user's file is not written, because that user reads it.
        @Test(.enabled(if: OtherUser.isPossible, "only the superuser gives files away")) func anotherUsersFile() throws
        {
            #expect(FileManager.default.createFile(atPath: file.path, contents: Data("x\n".utf8)))
            #expect(chown(file.path, 65534, 65534) == 0)
            file.write(["SELECT 'secret'"])
            #expect(try String(contentsOfFile: file.path, encoding: .utf8) == "x\n" && file.lines.isEmpty)
        }
    #endif
}
