#if os(Linux)
    import Glibc

    /// Waits until files are added to folders, written there, or removed.
    ///
    /// It uses inotify(7). One thread uses the object; `interrupt` is safe from any thread. All watches of a process share one instance
    /// (`WatchHub`).
    package final class FolderWatch: Sendable {
        package enum Outcome: Equatable, Sendable {
            case changed, interrupted, timedOut
            /// A folder, or one above it, was removed or moved, or events were lost. The caller replaces this watch by a new one. Comparing
            /// the folder's identity does not suffice, because file systems reuse the numbers of removed folders.
            case gone
        }

        private let hub = WatchHub.shared
        private let mailbox = WatchMailbox()

        /// - Parameters:
        ///   - folders: the folders, which must exist.
        ///   - includingRemovals: whether removed files are reported, not only added and written ones.
        /// - throws: `SystemError`.
        package init(_ folders: [String], includingRemovals: Bool) throws {
            var mask = UInt32(IN_CREATE) | UInt32(IN_MOVED_TO) | UInt32(IN_CLOSE_WRITE) | Self.goes
            if includingRemovals { mask |= UInt32(IN_DELETE) | UInt32(IN_MOVED_FROM) }
            // The watches are added from the top down. Each folder exists while the one above it is already watched, so no move is missed.
            for folder in System.foldersAbove(folders) {
                do {
                    try hub.watch(mailbox, at: folder, mask: Self.goes)
                } catch let error as SystemError where !error.isFolderGone {
                    // The process may not open this folder, which is assumed to stay where it is.
                }
            }
            for folder in folders { try hub.watch(mailbox, at: folder, mask: mask) }
        }

        deinit { hub.leave(mailbox) }

        /// Sleeps until something has changed since the last call. It may return early.
        ///
        /// - parameter time: the longest sleep, in ns; nil: without limit.
        package func wait(upTo time: Nanoseconds? = nil) throws -> Outcome {
            let contents = mailbox.wait(upTo: time)
            if contents.isInterrupted { return .interrupted }
            return contents.events & Self.ends != 0 ? .gone : contents.events != 0 ? .changed : .timedOut
        }

        private static let goes = UInt32(IN_DELETE_SELF) | UInt32(IN_MOVE_SELF)
        /// The events that end the watch. A queue overflow is among them, because the lost events may have been such events.
        private static let ends = goes | UInt32(IN_UNMOUNT) | UInt32(IN_IGNORED) | UInt32(IN_Q_OVERFLOW)

        /// Ends the running wait and all later ones. Safe from any thread.
        package func interrupt() { mailbox.interrupt() }
    }
#endif
