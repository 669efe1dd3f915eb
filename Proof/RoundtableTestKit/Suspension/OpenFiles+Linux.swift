#if os(Linux)
    import CRoundtableTestShims
    import Foundation
    import Glibc
    import RoundtableKernel
    import Synchronization

    // Rule J2: A process's locks are those that `/proc/PID/fdinfo` shows for its open files. Headers and the extended attribute are read
    // through `/proc/PID/fd`, in a thread with a file table of its own: the police takes no lock, and drops none of its process's (G5). A
    // file with `user.com.apple.runningboard.can-suspend-locked` (one byte, not zero), and the `-shm` of such a database, are not
    // inspected, except by the strict law. The locks of all other files count, whatever library took them.

    extension OpenFile {
        /// The regular files that a process has open, and its locks on them. The process should be stopped.
        ///
        /// They are read from `/proc/PID/fd` and `/proc/PID/fdinfo`. The locks are not read from `/proc/locks`, for two reasons. First, it
        /// lists `flock` and OFD locks under the process that took them, or under none, although every process with the open file
        /// description holds them. Second, its locks must be matched with files by device, and overlay file systems report wrong devices.
        ///
        /// The headers are read in a thread with its own file table, because closing a descriptor of a database in the shared table would
        /// drop the locks that a connection of the calling process holds there.
        ///
        /// - returns: nil when the process has ended.
        /// - throws: `SuspensionPoliceError` when the system denies the caller access to these files.
        static func all(of pid: Int32) throws -> [OpenFile]? {
            try withOwnFileTable { try files(of: pid) }
        }

        private static func withOwnFileTable<T: Sendable>(_ body: @escaping @Sendable () throws -> T) throws -> T {
            let outcome = Outcome<T>()
            let isDone = DispatchSemaphore(value: 0)
            // This uses a new thread, which ends, because a reused thread would keep its separate file table.
            Thread.detachNewThread {
                let code = rt_leave_file_table()
                if code == 0 {
                    outcome.set(Result(catching: body))
                } else {
                    outcome.set(.failure(SuspensionPoliceError("a file table of its own", errno: code)))
                }
                isDone.signal()
            }
            isDone.wait()
            return try outcome.get()
        }

        private final class Outcome<T: Sendable>: Sendable {
            private let value = Mutex<Result<T, any Error>?>(nil)
            func set(_ result: Result<T, any Error>) { value.withLock { $0 = result } }
            func get() throws -> T { try value.withLock { $0! }.get() }
        }

        private static func files(of pid: Int32) throws -> [OpenFile]? {
            guard let task = livingThread(of: pid) else { return nil }
            let folder = "/proc/\(pid)/task/\(task)"
            guard let descriptors = try names(in: folder + "/fd") else { return nil }
            var (files, links): ([Place: OpenFile], [Place: String]) = ([:], [:])
            for descriptor in descriptors {
                var status = stat()
                // This follows the link to the file itself, even if that file has no name any more.
                guard stat("\(folder)/fd/\(descriptor)", &status) == 0, status.st_mode & S_IFMT == S_IFREG,
                    var path = target(of: "\(folder)/fd/\(descriptor)")
                else { continue }
                let identity = FileIdentity(status)
                // The name is gone, but perhaps not the last one of the file.
                if path.hasSuffix(deleted), (try? System.identity(ofFileAt: path)) != identity {
                    path.removeLast(deleted.count)
                }
                let place = Place(device: status.st_dev, inode: status.st_ino, path: path)
                let locks = try locks("\(folder)/fdinfo/\(descriptor)")
                if files[place] == nil {
                    let link = "\(folder)/fd/\(descriptor)"
                    files[place] = OpenFile(path: path, canSuspendLocked: rt_byte_attribute(link, attribute) > 0)
                    links[place] = link
                }
                // Each descriptor of a file lists all POSIX locks of the process on that file.
                for lock in locks where files[place]?.locks.contains(lock) == false { files[place]?.locks.append(lock) }
            }
            // Only files whose locks are judged are opened. Some cannot be read, and opening one would end another program's lease on it.
            let locked = Set(files.values.filter { !$0.locks.isEmpty }.map(\.path))
            for (place, link) in links where !SuspensionLaw.isExemptByName(place.path) {
                guard !locked.isDisjoint(with: [place.path, place.path + SQLiteBytes.walIndexSuffix]) else { continue }
                files[place]?.header = try header(link, place.path)
            }
            return files.values.sorted { $0.path < $1.path }
        }

        private struct Place: Hashable {
            let device: UInt
            let inode: UInt
            let path: String
        }

        private static let deleted = " (deleted)"
        /// The attribute of ``canSuspendLocked``. Linux lets a program set only names that begin with `user.` (xattr(7)).
        private static let attribute = "user.com.apple.runningboard.can-suspend-locked"

        /// The first thread that has not ended: the main thread, if it is alive. A thread that has ended lists no files.
        private static func livingThread(of pid: Int32) -> Int32? {
            ThreadStates(of: pid).threads.first { !$0.isDead }?.id
        }

        private static func locks(_ path: String) throws -> [FileLock] {
            guard let bytes = try? ProcessTable.contents(of: path) else { return [] }
            return String(decoding: bytes, as: UTF8.self).split(separator: "\n").compactMap { line in
                line.hasPrefix("lock:") ? FileLock(systemLine: line.dropFirst(5)) : nil
            }
        }

        private static func header(_ link: String, _ path: String) throws -> [UInt8] {
            let what = "cannot read the header of \(path)"
            let descriptor = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
            guard descriptor >= 0 else { throw SuspensionPoliceError(what, errno: errno) }
            defer { close(descriptor) }
            var bytes = [UInt8](repeating: 0, count: headerSize)
            let count = pread(descriptor, &bytes, bytes.count, 0)
            guard count >= 0 else { throw SuspensionPoliceError(what, errno: errno) }
            return Array(bytes.prefix(count))
        }

        private static func target(of link: String) -> String? {
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = buffer.withUnsafeMutableBytes { readlink(link, $0.baseAddress!, $0.count) }
            return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : nil
        }

        /// - returns: nil when there is no such folder.
        private static func names(in folder: String) throws -> [String]? {
            guard let stream = opendir(folder) else {
                if errno == ENOENT || errno == ESRCH { return nil }
                let advice = "run the police as the user of that process, or as superuser"
                throw SuspensionPoliceError("cannot list \(folder): \(advice)", errno: errno)
            }
            defer { closedir(stream) }
            var names: [String] = []
            while let entry = readdir(stream) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                    pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                }
                if name != ".", name != ".." { names.append(name) }
            }
            return names
        }
    }
#endif
