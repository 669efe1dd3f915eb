#if os(Linux)
    import Glibc
#endif

extension ProcessTable {
    /// Why the system would refuse this user another inotify(7) instance, or another watch; nil when it would not, and on other systems.
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
                // The folder cannot be watched for a reason of its own.
                return nil
            }
        #else
            return nil
        #endif
    }
}
