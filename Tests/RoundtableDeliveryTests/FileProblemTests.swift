import Foundation
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import RoundtableFiles

/// The problems that every file can have: one translation and one text, for snapshot files and outboxes.
@Suite struct FileProblemTests {
    private func problem(_ call: SystemCall, _ errno: Int32, _ path: String? = nil) -> FileProblem {
        FileProblem(SystemError(call: call, errno: errno, path: path), hasProtection: false)
    }

    @Test(
        arguments: [
            (.write, ENOSPC, .diskFull), (.mkdir, EDQUOT, .diskFull), (.open, EROFS, .readOnlyFileSystem),
            (.open, ENOENT, .folderMissing), (.rename, ENOTDIR, .folderMissing),
            // For inotify, ENOSPC is a limit of the user, and not a full disk.
            (.inotify, ENOSPC, .system(call: "inotify", errno: ENOSPC)),
            (.fsync, EIO, .system(call: "fsync", errno: EIO)),
        ] as [(SystemCall, Int32, FileProblem)]
    )
    func errorsAreTranslated(call: SystemCall, errno: Int32, expected: FileProblem) {
        #expect(problem(call, errno) == expected)
    }

    /// Only calls that read or write contents can fail because of a protection class, and only where such classes exist.
    @Test func aProtectedFile() {
        for call in SystemCall.allCases {
            let error = SystemError(call: call, errno: EPERM)
            let isProtected = FileProblem(error, hasProtection: true) == .protected
            #expect(isProtected == [.open, .read, .write, .fsync].contains(call), "\(call)")
            #expect(FileProblem(error, hasProtection: false) != .protected, "\(call)")
        }
    }

    /// `open` reads a file that exists, and creates one that does not.
    @Test func readingAndWritingAreDistinguished() throws {
        let folder = try TemporaryFolder()
        let (existing, missing) = (folder.file("existing").path, folder.file("missing").path)
        try Data().write(to: URL(fileURLWithPath: existing))
        for (call, path, access) in [
            (.open, existing, .read), (.open, missing, .write), (.open, folder.file(".a.1-2-3-4-5.new").path, .write),
            (.read, existing, .read), (.opendir, folder.url.path, .read), (.inotify, folder.url.path, .read),
            (.mkdir, missing, .write), (.rename, existing, .write), (.open, nil, .read),
        ] as [(SystemCall, String?, FileProblem.Access)] {
            let reason = SystemError(call: call, errno: EACCES).reason
            #expect(problem(call, EACCES, path) == .noPermission(to: access, reason: reason), "\(call)")
        }
    }

    /// The consequence stands between what is wrong and what to do next.
    @Test func aConsequence() {
        let text = FileProblem.diskFull.description(consequence: "The old value is kept.")
        #expect(text.hasPrefix("the disk is full") && text.hasSuffix("Free space on that disk, and try again."))
        #expect(text.contains(". The old value is kept. "))
        #expect(!"\(FileProblem.diskFull)".contains("kept") && !"\(FileProblem.diskFull)".contains("  "))
    }

    /// The text also helps with an error that this library does not know.
    @Test(arguments: [EIO, EMFILE, ENFILE, ENAMETOOLONG, ELOOP, ENOSPC, 4711])
    func adviceOnSystemCalls(errno: Int32) {
        for call in SystemCall.allCases.map(\.rawValue) + ["an unknown call"] {
            let text = "\(FileProblem.system(call: call, errno: errno))"
            #expect(
                text.hasPrefix("\(call): ") && text.contains("(errno \(errno)). ") && text.hasSuffix("."),
                "\(text)"
            )
        }
    }
}
