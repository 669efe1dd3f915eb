#if canImport(Darwin)
    import Darwin

    extension System {
        /// The name of the network file system that holds `path`, or nil when it is local.
        package static func networkFileSystem(holding path: String) throws -> String? {
            var info = statfs()
            try perform(.statfs, path) { statfs(path, &info) }
            guard info.f_flags & UInt32(MNT_LOCAL) == 0 else { return nil }
            return withUnsafeBytes(of: info.f_fstypename) { bytes in
                String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
        }

        /// A FUSE file system says by `MNT_LOCAL` whether it is local.
        package static func fuseFileSystem(holding path: String) throws -> String? { nil }

        /// Darwin cannot mount a file.
        static func isMountedByItself(_ path: String, in folder: String) -> Bool { false }
    }
#endif
