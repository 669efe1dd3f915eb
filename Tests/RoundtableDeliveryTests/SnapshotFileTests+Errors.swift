import Foundation
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableFiles

/// What keeps a snapshot file from being read or written, and what the errors say.
extension SnapshotFileTests {
    @Test func whatIsNoFile() throws {
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
        #expect(throws: SnapshotFileError.notAFile(path: url.path, reason: "it is a folder")) { try file().read() }
        #expect(throws: SnapshotFileError.notAFile(path: url.path, reason: "it is a folder")) {
            try file().write(state)
        }
        try FileManager.default.removeItem(at: url)
        #expect(mkfifo(url.path, 0o600) == 0)
        let expected = SnapshotFileError.notAFile(path: url.path, reason: "it is not an ordinary file")
        #expect(throws: expected) { try file().read() }
        #expect(throws: expected) { try file().write(state) }
        #expect(contents == [url.lastPathComponent])
    }

    /// They are replaced, as any link is.
    @Test(arguments: ["nothing", "itself"]) func linksThatLeadNowhere(target: String) throws {
        try FileManager.default.createSymbolicLink(
            atPath: url.path,
            withDestinationPath: target == "itself" ? url.lastPathComponent : target
        )
        #expect(try file().read() == .absent)
        try file().write(state)
        #expect(try file().read().value == state)
        #expect(contents == [url.lastPathComponent])
    }

    /// As long as file systems allow.
    @Test(arguments: [100, 101, 180, 255]) func longNames(length: Int) throws {
        let file = SnapshotFile<State>(at: folder.file(String(repeating: "n", count: length)), as: "app")
        for _ in 1...2 { try file.write(state) }
        #expect(try file.read().value == state)
        #expect(contents.count == 1)
    }

    @Test func noFolder() throws {
        let nowhere = folder.file("none/state")
        let file = SnapshotFile<State>(at: nowhere, as: "app")
        #expect(try file.read() == .absent)
        #expect(throws: SnapshotFileError.file(path: nowhere.path, .folderMissing)) { try file.write(state) }
        let web = SnapshotFile<State>(at: try #require(URL(string: "https://example.com/state")), as: "app")
        #expect(throws: SnapshotFileError.self) { try web.read() }
        #expect(throws: SnapshotFileError.self) { try web.write(state) }
    }

    @Test func errorsOfTheSystem() {
        func kind(_ call: SystemCall, _ errno: Int32, protection: Bool = false) -> SnapshotFileError {
            SnapshotFileError(SystemError(call: call, errno: errno), path: "p", hasProtection: protection)
        }
        #expect(kind(.open, EPERM, protection: true) == .file(path: "p", .protected))
        #expect(kind(.rename, ENOSPC) == .file(path: "p", .diskFull))
        for (call, code, expected) in [
            (SystemCall.open, EPERM, FileProblem.Access.read), (.open, EACCES, .read), (.rename, EACCES, .write),
        ] {
            guard case .file("p", .noPermission(expected, _)) = kind(call, code) else {
                Issue.record("\(kind(call, code))")
                continue
            }
        }
        #expect(kind(.open, EROFS) == .file(path: "p", .readOnlyFileSystem))
        #expect(kind(.fsync, EIO) == .file(path: "p", .system(call: "fsync", errno: EIO)))
    }

    /// Each says which file once, what is wrong, and what to do next: something that helps.
    @Test func whatErrorsSay() throws {
        // The file exists: if it did not, `open` would need the permission to create it.
        try put([])
        let path = url.path
        let unfinished = folder.file(".state.1-2-3-4-5.new").path
        func text(_ call: SystemCall, _ errno: Int32, at other: String? = nil) -> String {
            "\(SnapshotFileError(SystemError(call: call, errno: errno, path: other ?? path), path: path))"
        }
        let readOnly = text(.open, EROFS, at: unfinished)
        #expect(readOnly.contains("Choose a path on another file system"))
        #expect(!readOnly.contains("permission") && !readOnly.contains("space"))
        #expect(text(.open, EACCES).contains("no permission to read it"))
        #expect(text(.open, EACCES, at: unfinished).contains("permission to write into its folder"))
        for errno in [ENOTTY, ENOTSUP, 4711] {
            #expect(text(.fsync, errno).contains("Try again; if the error persists"), "\(text(.fsync, errno))")
        }
        let errors: [SnapshotFileError] = [
            .tooLarge(path: path, byteCount: 2, limit: 1), .file(path: path, .diskFull),
            .file(path: path, .noPermission(to: .read, reason: "r")),
            .file(path: path, .noPermission(to: .write, reason: "r")),
            .file(path: path, .readOnlyFileSystem), .file(path: path, .folderMissing),
            .notAFile(path: path, reason: "r"),
            .foreignFile(path: path), .databaseFile(path: path, database: path), .file(path: path, .protected),
            .encodingFailed(path: path, reason: "r"), .notDurable(path: path, errno: EIO), .contended(path: path),
            .publishingEnded(path: path), .other(path: path, reason: "r"),
        ]
        let all = errors.map { "\($0)" } + SystemCall.allCases.map { text($0, EIO) } + [text(.open, EACCES), readOnly]
        for text in all {
            #expect(text.components(separatedBy: path).count == 2 && text.hasSuffix("."), "\(text)")
            // The last sentence says what to do.
            #expect(text.components(separatedBy: ". ").count > 1, "\(text)")
        }
        let damage = SnapshotDamage.unreadable(.file(path: path, .folderMissing))
        #expect(
            "\(damage)"
                == "it cannot be read: the folder does not exist. Snapshot files do not create folders. Create the folder first."
        )
    }

    @Test(.enabled(if: geteuid() != 0, "the superuser may read and write everything"))
    func readingAndWritingAreDistinguished() throws {
        try file().write(state)
        func mode(_ mode: Int, of path: String) throws {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        }
        func access(_ body: () throws -> Void) -> FileProblem.Access? {
            do { try body() } catch SnapshotFileError.file(_, .noPermission(let access, _)) { return access } catch {}
            return nil
        }
        let parent = url.deletingLastPathComponent().path
        try mode(0o500, of: parent)
        defer { try? mode(0o700, of: parent) }
        #expect(access { try file().write(state) } == .write)
        #expect(try file().read().value == state)
        try mode(0, of: url.path)
        #expect(access { _ = try file().read() } == .read)
    }

    /// Every call that writing makes fails once: the old value is intact, and no file is left behind.
    @Test(arguments: [ENOSPC, EIO, EACCES])
    func everyCallFails(code: Int32) throws {
        let old = State(name: "old", scores: [])
        for call in SystemCall.allCases {
            for skipping in 0..<8 {
                try file().write(old)
                let before = try bytes()
                // One that has not written before also looks for what others have left.
                let file = file()
                var error: SnapshotFileError?
                System.withFaults([Fault(call, errno: code, skipping: skipping, times: 1)]) {
                    do throws(SnapshotFileError) { try file.write(state) } catch let thrown { error = thrown }
                }
                #expect(contents == [url.lastPathComponent], "\(call) \(skipping)")
                switch error {
                case nil: #expect(try file.read().value == state)
                case .notDurable: #expect(try file.read().value == state)
                default: #expect(try bytes() == before, "\(call) \(skipping): \(String(describing: error))")
                }
                if [.write, .fsync].contains(call), skipping == 0 { #expect(error != nil, "\(call)") }
                if code == ENOSPC, call == .write, skipping == 0 { #expect(error == .file(path: url.path, .diskFull)) }
            }
        }
    }

    /// A failure in reading is an error, and not an answer.
    @Test(arguments: [SystemCall.open, .fstat, .read])
    func readingFails(call: SystemCall) throws {
        try file().write(state)
        System.withFaults([Fault(call, errno: EIO, times: 1)]) {
            _ = #expect(throws: SnapshotFileError.file(path: url.path, .system(call: call.rawValue, errno: EIO))) {
                try file().read()
            }
        }
    }
}
