#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension System {
    /// The bytes of a block of the file system that holds `path`: it allocates no less for a part of a file.
    package static func blockSize(ofFileSystemHolding path: String) throws -> Int {
        var info = statvfs()
        try perform(.statfs, path) { statvfs(path, &info) }
        return Int(clamping: info.f_frsize)
    }
}
