import Foundation
import Testing

@testable import RoundtableKernel

/// The place of a database, and what the paths that lead to it are divided into.
@Suite struct DatabasePlaceTests {
    /// As dirname(3) and basename(3) divide, but for paths of one component. Foundation's `NSString` traps at a path of one character.
    @Test(arguments: [
        ("", "", ""), ("/", "/", "/"), ("//", "/", "/"), ("a", "", "a"), ("a/", "", "a"), ("/a", "/", "a"),
        ("/a/", "/", "a"),
        ("a/b", "a", "b"), ("/a/b", "/a", "b"), ("//a", "/", "a"), ("/a//b", "/a", "b"), ("/a/b//", "/a", "b"),
        ("../a", "..", "a"),
        ("/a/ä b.sqlite", "/a", "ä b.sqlite"),
    ])
    func divided(path: String, folder: String, name: String) {
        #expect(System.divided(path) == (folder, name))
    }

    /// A link to a file that does not exist yet leads to the file's place, by way of other links, relative and absolute ones.
    @Test func linksToNoFile() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = System.resolvedPath(folder.path)
        for (link, target) in [
            ("first", "second"), ("second", "\(path)/third"), ("third", "./../\(folder.lastPathComponent)/file"),
        ] {
            try FileManager.default.createSymbolicLink(atPath: "\(path)/\(link)", withDestinationPath: target)
        }
        #expect(System.resolvedPath("\(path)/first") == "\(path)/file")
        #expect(System.resolvedPath("\(path)//none") == "\(path)/none")
    }

    /// A thread runs its closure once, under its name (proc(5)).
    @Test(.timeLimit(.minutes(1))) func threads() async throws {
        #expect(await offThread { 7 } == 7)
        let name = await withCheckedContinuation { continuation in
            let hasStarted = DetachedThread.start(named: "roundtable.test") {
                continuation.resume(returning: try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8))
            }
            #expect(hasStarted)
        }
        #if os(Linux)
            #expect(name == "roundtable.test\n")
        #endif
    }
}
