import Foundation
import Testing

@testable import RoundtableKernel

@Suite struct WholeFilesTests {
    private let bytes = [UInt8]("a value".utf8)

    @Test func aFileIsMadeAndRead() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("value")
        #expect(try System.contents(ofFileAt: path, limit: 100) == nil)
        try System.makeFile(at: path, bytes, isDurable: true)
        try OpenFolder(at: folder.path).sync()
        #expect(try System.contents(ofFileAt: path, limit: 100) == bytes)
        // One byte more than the limit shows that there are more.
        #expect(try System.contents(ofFileAt: path, limit: 3) == [UInt8]("a va".utf8))
        #expect(try System.names(inFolder: folder.path) == ["value"])
        #expect(try System.names(inFolder: folder.file("none")) == nil)
        #expect(throws: SystemError.self) { try System.makeFile(at: path, bytes, isDurable: false) }
        #expect(try System.removeFile(at: path))
        #expect(try !System.removeFile(at: path))
    }

    @Test func aFolderOrPipeIsNoFile() throws {
        let folder = try TemporaryFolder()
        #expect(throws: SystemError(call: .read, errno: EISDIR, path: folder.path)) {
            try System.contents(ofFileAt: folder.path, limit: 100)
        }
        // The read does not wait for a writer.
        let pipe = folder.file("pipe")
        #expect(mkfifo(pipe, 0o600) == 0)
        #expect(throws: SystemError(call: .read, errno: EINVAL, path: pipe)) {
            try System.contents(ofFileAt: pipe, limit: 100)
        }
    }

    @Test(arguments: [Fault(.write, errno: ENOSPC), Fault(.fsync, errno: EIO)])
    func whatFailsLeavesNothing(fault: Fault) throws {
        let folder = try TemporaryFolder()
        System.withFaults([fault]) {
            _ = #expect(throws: SystemError.self) {
                try System.makeFile(at: folder.file("value"), bytes, isDurable: true)
            }
        }
        #expect(folder.contents.isEmpty)
    }

    @Test func aShortWriteIsContinued() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("value")
        // The first call says that it has written nothing, and did not.
        try System.withFaults([Fault(.write, returning: 0, times: 1)]) {
            try System.makeFile(at: path, bytes, isDurable: false)
        }
        #expect(try System.contents(ofFileAt: path, limit: 100) == bytes)
    }

    @Test func aFolderIsForUsersThatMayUseTheDatabase() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("outbox")
        #expect(try System.makeFolder(at: path, access: FileAccess(mode: 0o640)))
        #expect(try System.status(ofFileAt: path).map { $0.st_mode & 0o777 } == 0o750)
        #expect(try !System.makeFolder(at: path))
    }

    @Test func whatTheDeadHaveLeftIsRemoved() throws {
        let folder = try TemporaryFolder()
        let own = UnfinishedFile.name("value")
        let dead = try endedProcess()
        let names = [
            own, "value.\(dead.pid)-\(dead.startTime)-\(dead.namespace)-1-1.new", "value.new", "value.1-2-3.new",
            "other.\(dead.pid)-\(dead.startTime)-\(dead.namespace)-1-1.new",
            // Of another namespace, whose processes are not seen.
            "value.\(dead.pid)-\(dead.startTime)-\(dead.namespace &+ 1)-1-1.new",
        ]
        for name in names { try System.makeFile(at: folder.file(name), [], isDurable: false) }
        #expect(try UnfinishedFile.removeAbandoned(in: OpenFolder(at: folder.path), "value") == 1)
        #expect(Set(folder.contents) == Set(names).subtracting([names[1]]))
        // … until they are old.
        let past = Date(timeIntervalSinceNow: -3700)
        try FileManager.default.setAttributes([.modificationDate: past], ofItemAtPath: folder.file(names[5]))
        #expect(try UnfinishedFile.removeAbandoned(in: OpenFolder(at: folder.path), "value") == 1)
        #expect(UnfinishedFile.name("value") != own)
    }

    /// A name's bytes and characters are not the same number.
    @Test func whatTheDeadHaveLeftIsFoundByAnyName() throws {
        let folder = try TemporaryFolder()
        let dead = try endedProcess()
        for prefix in [".état-🗂️", ".", ".a.b-c"] {
            let name = "\(prefix).\(dead.pid)-\(dead.startTime)-\(dead.namespace)-1-1.new"
            try System.makeFile(at: folder.file(name), [], isDurable: false)
            #expect(try UnfinishedFile.removeAbandoned(in: OpenFolder(at: folder.path), prefix) == 1)
        }
        #expect(folder.contents.isEmpty)
    }
}
