extension ProcessTable {
    /// Whether a process watches a folder with inotify(7), as the owner of an outbox does with the commands that come.
    ///
    /// - returns: nil when the system does not tell: it does on Linux alone (proc_pid_fdinfo(5)), of processes of the same user.
    package static func watches(_ pid: Int32, folder: FileIdentity) -> Bool? {
        #if os(Linux)
            let descriptors = "/proc/\(pid)/fdinfo"
            guard let names = try? System.names(inFolder: descriptors) else { return nil }
            return names.contains { name in
                // One that was closed meanwhile watches nothing.
                guard let bytes = try? contents(of: "\(descriptors)/\(name)") else { return false }
                return watchedInodes(String(decoding: bytes, as: UTF8.self)).contains(folder.inode)
            }
        #else
            return nil
        #endif
    }

    /// Of lines such as `inotify wd:1 ino:f90044 sdev:fe00000 mask:100 …`. The device is left out: overlay file systems list another than
    /// `stat` tells.
    static func watchedInodes(_ text: String) -> Set<UInt64> {
        var inodes: Set<UInt64> = []
        for line in text.split(separator: "\n") where line.hasPrefix("inotify ") {
            guard let field = line.split(separator: " ").first(where: { $0.hasPrefix("ino:") }) else { continue }
            if let inode = UInt64(field.dropFirst(4), radix: 16) { inodes.insert(inode) }
        }
        return inodes
    }
}
