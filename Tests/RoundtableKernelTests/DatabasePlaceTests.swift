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

    #if os(Linux)
        /// A line of the kernel's is taken apart: the mount point with its escapes, the type by the device.
        @Test func mounts() {
            let table = MountTable(
                """
                22 28 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw
                36 35 259:300 /a.db /data/my\\040app\\134.db rw,noatime - ext4 /dev/sda1 rw
                90 28 0:77 / /host rw master:1 propagate_from:2 - fuse.sshfs me@host: rw
                no mount
                """
            )
            #expect(table.points == ["/sys", "/data/my app\\.db", "/host"])
            // As makedev(3) puts the numbers together.
            #expect(table.type(ofDevice: 77) == "fuse.sshfs")
            #expect(table.type(ofDevice: 259 << 8 | 300 & 0xFF | (300 & ~0xFF) << 12) == "ext4")
            #expect(table.type(ofDevice: 5) == nil)
            #expect(MountTable.own?.points.contains("/") == true)
        }

        /// **Rule W5**: mounts are distinguished by the system call, and where it reports none, by the list of mount points. `/proc` is a mount
        /// in each Linux.
        @Test(arguments: [[], [Fault(.statx, errno: ENOSYS)], [Fault(.statx, returning: 0)]])
        func mountsOfTheirOwn(faults: [Fault]) {
            System.withFaults(faults) {
                #expect(System.isMountedByItself("/proc", in: "/"))
                #expect(!System.isMountedByItself("/proc/self", in: "/proc"))
                #expect(!System.isMountedByItself("/nowhere/file", in: "/nowhere"))
            }
        }

        /// **Rule W5**: of FUSE file systems, those of other machines are refused, by the type that the list of mounts has.
        @Test func fileSystemsInUserSpace() throws {
            try System.withFaults([Fault(.statfs, returning: 0x6573_5546)]) { () throws -> Void in
                // The folder's real type is in the list, and no type of another machine.
                #expect(try System.networkFileSystem(holding: "/proc") == nil)
                #expect(try System.fuseFileSystem(holding: "/proc") == "proc")
            }
            #expect(try System.fuseFileSystem(holding: "/proc") == nil)
        }
    #endif

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
