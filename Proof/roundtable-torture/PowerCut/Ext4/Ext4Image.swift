#if os(Linux)
    import Foundation
    import Glibc
    import RoundtableTestSupport

    /// An ext4 file system in a file, on a loop device, whose power can be cut.
    final class Ext4Image {
        /// What the file system still writes when its power is cut: the flags of `EXT4_IOC_SHUTDOWN` (`FS_IOC_SHUTDOWN`).
        enum Cut: UInt32, CaseIterable, Codable {
            /// Everything, as if the machine had been idle before.
            case everything = 0
            /// The journal. Content of files that was not synced is lost, except what the journal or the writing of old pages has stored.
            case journal = 1
            /// Nothing.
            case nothing = 2

            var name: String { "\(self)" }
        }

        /// How the file system is made and mounted.
        struct Options: CustomStringConvertible {
            var blockSize: Int
            /// In which order the journal and the content of files are written. Not `journal`: with it, Linux 6.18 crashed in a page fault of a
            /// process whose file system was shut down, and neither that process nor the mount ever ended.
            var data: String
            /// Whether a rename over a file first writes the content of the new one, which hides syncs that programs forget.
            var allocatesAtRename: Bool

            init(_ random: inout SeededGenerator) {
                blockSize = Bool.random(using: &random) ? 1024 : 4096
                data = Bool.random(using: &random) ? "ordered" : "writeback"
                allocatesAtRename = Bool.random(using: &random)
            }

            var mount: String { "loop,noatime,data=\(data),\(allocatesAtRename ? "" : "no")auto_da_alloc" }

            var description: String { "\(blockSize)-byte blocks, \(mount)" }
        }

        let options: Options
        let mountPoint: URL
        private let file: URL
        private let notes: URL
        private var isMounted = false

        /// Makes an empty file system, with one folder in it that is certain to be there.
        ///
        /// - parameter folder: where the file and the mount point are made.
        init(in folder: URL, options: Options) throws {
            self.options = options
            file = folder.appendingPathComponent("image")
            mountPoint = folder.appendingPathComponent("mounted", isDirectory: true)
            notes = folder.appendingPathComponent("programs.log")
            try FileManager.default.createDirectory(at: mountPoint, withIntermediateDirectories: true)
            try run("mkfs.ext4", ["-q", "-F", "-b", "\(options.blockSize)", file.path, "64M"])
            try mount()
            try FileManager.default.createDirectory(at: data, withIntermediateDirectories: false)
            try unmount()
        }

        deinit { remove() }

        /// The folder in the file system.
        var data: URL { mountPoint.appendingPathComponent("data", isDirectory: true) }

        /// Mounts the file system, which replays its journal.
        func mount() throws {
            try run("mount", ["-t", "ext4", "-o", options.mount, file.path, mountPoint.path])
            isMounted = true
        }

        /// Unmounts the file system, which detaches the loop device. No process may have a file of it open.
        func unmount() throws {
            try run("umount", [mountPoint.path])
            isMounted = false
        }

        /// Cuts the power: from now on nothing reaches the image, and syncs fail.
        func cut(_ cut: Cut) throws {
            let descriptor = open(mountPoint.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            try check(descriptor, "open \(mountPoint.path)")
            defer { close(descriptor) }
            // _IOR('X', 125, __u32), which the headers of glibc do not have.
            let request: UInt = 0x8004_587D
            var flags = cut.rawValue
            try check(ioctl(descriptor, request, &flags), "EXT4_IOC_SHUTDOWN of \(mountPoint.path)")
        }

        /// Writes a file beside the folder, without a sync. A cut that drops nothing leaves it.
        func writeCanary() throws {
            // Not by Foundation, which syncs what it writes, and with it the journal.
            let descriptor = open(canary.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
            try check(descriptor, "open \(canary.path)")
            defer { close(descriptor) }
            let count = canaryContent.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            try check(count == canaryContent.count ? 0 : -1, "write \(canary.path)")
        }

        /// Whether the file is there as it was written. It is removed.
        func takeCanary() -> Bool {
            defer { try? FileManager.default.removeItem(at: canary) }
            return (try? Data(contentsOf: canary)) == canaryContent
        }

        private let canaryContent = Data(repeating: 0x5A, count: 8192)
        private var canary: URL { mountPoint.appendingPathComponent("canary") }

        /// Starts to write pages of some files, as the system does at moments of its own.
        func writeBack(_ random: inout SeededGenerator) {
            let names = (try? FileManager.default.subpathsOfDirectory(atPath: data.path)) ?? []
            for name in names.sorted() where Bool.random(using: &random) {
                let descriptor = open(data.appendingPathComponent(name).path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)
                guard descriptor >= 0 else { continue }
                defer { close(descriptor) }
                let start = off_t(Int.random(in: 0..<16, using: &random) * 4096)
                let size = off_t(Int.random(in: 1...64, using: &random) * 4096)
                // Linux begins to write dirty pages before it drops clean ones.
                _ = posix_fadvise(descriptor, start, size, POSIX_FADV_DONTNEED)
            }
        }

        /// Unmounts what is mounted, also when a process still has a file open, and removes the image.
        func remove() {
            if isMounted {
                do {
                    try unmount()
                } catch {
                    try? run("umount", ["--lazy", mountPoint.path])
                    isMounted = false
                }
            }
            try? FileManager.default.removeItem(at: file)
        }

        private func run(_ program: String, _ arguments: [String]) throws {
            try Ext4Machine.run(program, arguments, notes: notes)
        }
    }
#endif
