#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension System {
    /// Renames a file or folder, in one step and replacing nothing. Where the system cannot do that, a file has both names for a moment, and a
    /// folder replaces an empty one.
    ///
    /// - throws: `EEXIST` when the name is in use.
    static func move(_ place: FilePlace, toUnused new: FilePlace) throws {
        if let renameExclusively {
            do {
                try perform(.rename, new.path) {
                    renameExclusively(place.folder, place.name, new.folder, new.name, renameFlag)
                }
                return
            } catch let error as SystemError where [EINVAL, ENOSYS, ENOTSUP].contains(error.errno) {}
        }
        if try status(of: place, followingLinks: false)?.isFolder == true {
            try renameFile(at: place, to: new)
        } else {
            try renameFile(at: place, toUnused: new)
        }
    }

    // renameat2(2) of Linux, renameatx_np(2) of Darwin. They are looked up by name, because the headers of Linux show theirs to C
    // programs only that ask for GNU's functions.
    private typealias RenameFunction =
        @convention(c) (Int32, UnsafePointer<CChar>, Int32, UnsafePointer<CChar>, UInt32) -> Int32
    #if canImport(Darwin)
        private static let renameName = "renameatx_np"
        /// RENAME_EXCL
        private static let renameFlag: UInt32 = 4
    #else
        private static let renameName = "renameat2"
        /// RENAME_NOREPLACE
        private static let renameFlag: UInt32 = 1
    #endif
    private static let renameExclusively: RenameFunction? =
        dlsym(dlopen(nil, RTLD_NOW), renameName).map { unsafeBitCast($0, to: RenameFunction.self) }
}
