#if os(Linux)
    import CRoundtableShims

    /// File systems that other machines can change as well, by the magic numbers of `statfs(2)` and `linux/magic.h`.
    /// Shared memory does not work across them, and SQLite's locks often do not either (sqlite.org/faq.html#q5).
    private let networkFileSystems: [UInt32: String] = [
        0x6969: "NFS", 0x517B: "SMB", 0xFF53_4D42: "CIFS", 0xFE53_4D42: "SMB2", 0x5346_414F: "AFS", 0x6B41_4653: "AFS",
        0x7375_7245: "Coda", 0x564C: "NCP", 0x0102_1997: "9P", 0x00C3_6400: "Ceph", 0x0BD0_0BD0: "Lustre",
        0x7461_636F: "OCFS2", 0x0116_1970: "GFS2", 0x4750_4653: "GPFS", 0x1983_0326: "BeeGFS",
    ]

    extension System {
        /// The name of the network file system that holds `path`, or nil when it is local.
        package static func networkFileSystem(holding path: String) throws -> String? {
            networkFileSystems[try fileSystemType(holding: path)]
        }

        /// The magic number of the file system that holds `path` (linux/magic.h).
        package static func fileSystemType(holding path: String) throws -> UInt32 {
            UInt32(truncatingIfNeeded: try perform(.statfs, path) { rt_file_system_type(path) })
        }
    }
#endif
