#if os(Linux)
    import Foundation
    import Glibc
    import RoundtableKernel
    import RoundtableTestSupport

    /// A library that delays `fsync` and `fdatasync` in the programs that preload it (`ld.so(8)`), as a slow disk does, or one that is in use.
    ///
    /// SQLite's unix VFS calls both directly: no system call of ours, and none that SQLite lets a program replace. It is compiled here, because
    /// it belongs to this test alone, and must not be in a product.
    enum SlowSync {
        /// In milliseconds.
        static let variable = "ROUNDTABLE_SYNC_DELAY"

        private static let source = """
            #define _GNU_SOURCE
            #include <dlfcn.h>
            #include <errno.h>
            #include <stdlib.h>
            #include <time.h>

            static int delayed(const char *name, int descriptor) {
                const char *delay = getenv("\(variable)");
                long milliseconds = delay ? atol(delay) : 0;
                struct timespec left = { milliseconds / 1000, milliseconds % 1000 * 1000000 };
                while (nanosleep(&left, &left) == -1 && errno == EINTR) {}
                return ((int (*)(int)) dlsym(RTLD_NEXT, name))(descriptor);
            }

            int fsync(int descriptor) { return delayed("fsync", descriptor); }
            int fdatasync(int descriptor) { return delayed("fdatasync", descriptor); }
            """

        static let compiler: URL? = {
            let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
            let candidates = ["cc", "clang", "gcc"].flatMap { name in folders.map { "\($0)/\(name)" } }
            return candidates.first(where: FileManager.default.isExecutableFile).map { URL(fileURLWithPath: $0) }
        }()

        /// The environment of a program whose syncs take so long.
        static func environment(_ fleet: PeerFleet, milliseconds: Int) throws -> [String: String] {
            let library = fleet.folder.appendingPathComponent("slow-sync.so")
            if !FileManager.default.fileExists(atPath: library.path) {
                let file = fleet.folder.appendingPathComponent("slow-sync.c")
                try source.write(to: file, atomically: true, encoding: .utf8)
                guard let compiler else { throw TestKitError("there is no C compiler") }
                let arguments = ["-shared", "-fPIC", "-o", library.path, file.path, "-ldl"]
                let process = try fleet.spawn(program: compiler, arguments: arguments)
                guard try process.waitForExit(within: .seconds(60)) == .status(0) else {
                    throw TestKitError("\(compiler.path) does not compile: \(process.errorText)")
                }
            }
            let others = ProcessInfo.processInfo.environment["LD_PRELOAD"].map { [$0] } ?? []
            return [
                "LD_PRELOAD": ([library.path] + others).joined(separator: " "),
                variable: String(milliseconds),
            ]
        }
    }

    extension PeerFleet {
        /// The exclusive locks that a process has on the database and its wal-index, by `/proc/locks`: as `-shm 120...120`.
        func exclusiveLocks(of process: ChildProcess) throws -> [String] {
            let names = try Dictionary(
                uniqueKeysWithValues: ["", "-shm"].map { suffix in
                    var status = stat()
                    guard stat(database.path + suffix, &status) == 0 else {
                        throw TestKitError("there is no \(database.path)\(suffix)")
                    }
                    return (UInt64(status.st_ino), suffix.isEmpty ? "database" : suffix)
                }
            )
            let table = try String(decoding: ProcessTable.contents(of: "/proc/locks"), as: UTF8.self)
            return table.split(separator: "\n").compactMap { line in
                let fields = line.split(whereSeparator: \.isWhitespace)
                guard let lock = FileLock(systemLine: line), lock.isExclusive, Int32(fields[4]) == process.pid,
                    let inode = fields[5].split(separator: ":").last.flatMap({ UInt64($0) }), let name = names[inode]
                else { return nil }
                return "\(name) \(lock.bytes)"
            }
        }
    }
#endif
