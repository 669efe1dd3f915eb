#if os(Linux)
    import Glibc

    /// Waits until files come into folders, are written there, or go.
    ///
    /// inotify(7). For one thread, but for `interrupt`. All of a process share one instance (`WatchHub`).
    package final class FolderWatch: Sendable {
        package enum Outcome: Equatable, Sendable {
            case changed, interrupted, timedOut
            /// A folder, or one above it, was removed or moved, or what happened to it was lost: this watch is to be replaced by another. The
            /// folder's identity does not tell, since file systems use the numbers of removed folders again.
            case gone
        }

        private let hub = WatchHub.shared
        private let mailbox = WatchMailbox()

        /// - Parameters:
        ///   - folders: which have to be there.
        ///   - includingRemovals: else only what comes.
        package init(_ folders: [String], includingRemovals: Bool) throws {
            var mask = UInt32(IN_CREATE) | UInt32(IN_MOVED_TO) | UInt32(IN_CLOSE_WRITE) | Self.goes
            if includingRemovals { mask |= UInt32(IN_DELETE) | UInt32(IN_MOVED_FROM) }
            // From the top down: each is there when what is above it is watched already, so no move between the two is missed.
            for folder in System.foldersAbove(folders) {
                do {
                    try hub.watch(mailbox, folder: folder, mask: Self.goes)
                } catch let error as SystemError where !error.isFolderGone {
                    // One that this process may not look into: somebody else's, which stays where it is.
                }
            }
            for folder in folders { try hub.watch(mailbox, folder: folder, mask: mask) }
        }

        deinit { hub.leave(mailbox) }

        /// Sleeps until something has changed since the last call. Returns early at times.
        ///
        /// - parameter time: not for longer than this.
        package func wait(upTo time: Nanoseconds? = nil) throws -> Outcome {
            let contents = mailbox.wait(upTo: time)
            if contents.isInterrupted { return .interrupted }
            return contents.events & Self.ends != 0 ? .gone : contents.events != 0 ? .changed : .timedOut
        }

        private static let goes = UInt32(IN_DELETE_SELF) | UInt32(IN_MOVE_SELF)
        /// A queue that overflows loses events, and these may be among them.
        private static let ends = goes | UInt32(IN_UNMOUNT) | UInt32(IN_IGNORED) | UInt32(IN_Q_OVERFLOW)

        /// Ends all waits, for good. From any thread.
        package func interrupt() { mailbox.interrupt() }
    }
#endif
