#if os(Linux)
    import Glibc
#endif

extension ProcessTable {
    /// The error with which the system would refuse this user another inotify(7) instance or watch; nil when it would grant both, and on
    /// other systems.
    package static func watchShortage(at folder: String) -> SystemError? {
        #if os(Linux)
            do {
                let descriptor = try System.perform(.inotify) { inotify_init1(Int32(IN_CLOEXEC)) }
                defer { close(descriptor) }
                try System.perform(.inotify, folder) {
                    inotify_add_watch(descriptor, folder, UInt32(IN_DELETE_SELF))
                }
                return nil
            } catch let error as SystemError where [EMFILE, ENOSPC].contains(error.errno) {
                return error
            } catch {
                // The failure has another cause than a shortage.
                return nil
            }
        #else
            return nil
        #endif
    }
}
