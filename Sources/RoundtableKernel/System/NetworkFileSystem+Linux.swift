#if os(Linux)
    import CRoundtableShims
    import Glibc

    /// File systems that other machines can change as well, by the magic numbers of `statfs(2)` and `linux/magic.h`.
    /// Shared memory does not work across them, and SQLite's locks often do not either (sqlite.org/faq.html#q5).
    private let networkFileSystems: [UInt32: String] = [
        0x6969: "NFS", 0x517B: "SMB", 0xFF53_4D42: "CIFS", 0xFE53_4D42: "SMB2", 0x5346_414F: "AFS", 0x6B41_4653: "AFS",
        0x7375_7245: "Coda", 0x564C: "NCP", 0x0102_1997: "9P", 0x00C3_6400: "Ceph", 0x0BD0_0BD0: "Lustre",
        0x7461_636F: "OCFS2", 0x0116_1970: "GFS2", 0x4750_4653: "GPFS", 0x1983_0326: "BeeGFS",
    ]

    /// The magic number of all FUSE file systems, virtiofs included.
    private let fuse: UInt32 = 0x6573_5546

    /// FUSE file systems whose files other machines change as well, or the host of a virtual machine, by their types in
    /// proc_pid_mountinfo(5). Docker Desktop has osxfs, grpcfuse and fakeowner.
    private let networkFUSE: Set<String> = [
        "virtiofs", "fakeowner", "fuse.osxfs", "fuse.grpcfuse", "fuse.vmhgfs-fuse", "fuse.sshfs", "fuse.rclone",
        "fuse.s3fs",
        "fuse.gcsfuse", "fuse.goofys", "fuse.blobfuse", "fuse.blobfuse2", "fuse.glusterfs", "fuse.ceph-fuse",
        "fuse.juicefs",
        "fuse.mfs", "fuse.curlftpfs",
    ]

    extension System {
        /// The name of the network file system that holds `path`, or nil when it is local.
        package static func networkFileSystem(holding path: String) throws -> String? {
            let type = try fileSystemType(holding: path)
            if type != fuse { return networkFileSystems[type] }
            return fuseType(holding: path).flatMap { networkFUSE.contains($0) ? $0 : nil }
        }

        /// The type of the FUSE file system that holds `path`, as in `/proc/self/mountinfo`; nil when there is none. One that no other
        /// machine is known to change is not refused.
        package static func fuseFileSystem(holding path: String) throws -> String? {
            try fileSystemType(holding: path) == fuse ? fuseType(holding: path) ?? "fuse" : nil
        }

        private static func fuseType(holding path: String) -> String? {
            guard let status = try? status(ofFileAt: path) else { return nil }
            return MountTable.own?.type(ofDevice: UInt64(status.st_dev))
        }

        /// Whether a file is mounted without its folder: then its companion files are others on each side of the mount.
        ///
        /// - parameter path: without symbolic links.
        static func isMountedByItself(_ path: String, in folder: String) -> Bool {
            if let file = mountNumber(holding: path), let folder = mountNumber(holding: folder) {
                return file != folder
            }
            return MountTable.own?.points.contains(path) == true
        }

        /// The number of the mount that holds `path`; nil when the system does not report it.
        private static func mountNumber(holding path: String) -> Int64? {
            let number = try? perform(.statx, path) { rt_mount_number(path) }
            return number == 0 ? nil : number
        }

        /// The magic number of the file system that holds `path` (linux/magic.h).
        package static func fileSystemType(holding path: String) throws -> UInt32 {
            UInt32(truncatingIfNeeded: try perform(.statfs, path) { rt_file_system_type(path) })
        }
    }
#endif
