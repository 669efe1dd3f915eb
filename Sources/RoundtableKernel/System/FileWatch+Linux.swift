#if os(Linux)
    import Glibc
    import Synchronization

    /// Waits until any process writes to a file or, while the file does not exist, until a file is created in its folder; and until it, one of
    /// the files beside it, or a folder above these is moved or removed.
    ///
    /// It uses inotify(7), one event at a time, so that a file that is written all the time costs its writers one event for each `arm`. One
    /// thread uses the object; `interrupt` is safe from any thread. All watches of a process share one instance (`WatchHub`).
    package final class FileWatch: Sendable {
        package enum Outcome: Equatable, Sendable { case changed, interrupted, timedOut }

        private let path: String
        private let folder: String
        private let others: [String]
        private let watchesOthers = Atomic(false)
        private let hub = WatchHub.shared
        private let mailbox = WatchMailbox()

        /// The number of names is an attribute of a file: a file that is open is removed, and not deleted.
        private static let loss = UInt32(IN_ATTRIB) | UInt32(IN_MOVE_SELF) | UInt32(IN_DELETE_SELF)
        private static let write = UInt32(IN_MODIFY) | loss
        private static let folderLoss = UInt32(IN_MOVE_SELF) | UInt32(IN_DELETE_SELF)
        private static let arrival = UInt32(IN_CREATE) | UInt32(IN_MOVED_TO)

        /// - parameter others: the paths of the files beside it.
        package init(path: String, folder: String, others: [String] = []) {
            self.path = path
            self.folder = folder
            self.others = others
        }

        deinit { hub.leave(mailbox) }

        /// Watches for the next write.
        ///
        /// - returns: whether there was a write since the last wait, which `wait` does not report any more.
        /// - throws: `SystemError`, for example when no watches are available. The caller tries again later.
        @discardableResult
        package func arm() throws -> Bool {
            let hadEvent = try hub.armOnce(mailbox, file: (path, Self.write), folder: (folder, Self.arrival))
            if !watchesOthers.exchange(true, ordering: .relaxed) {
                // If one cannot be watched, its loss is found by the next access. The watches are added from the top down, so that no move is
                // missed.
                for folder in System.foldersAbove(others) {
                    try? hub.watch(mailbox, at: folder, mask: Self.folderLoss)
                }
                for other in others { try? hub.watch(mailbox, at: other, mask: Self.loss) }
            }
            return hadEvent
        }

        /// Sleeps until the event that `arm` watches for happens, or the time is over.
        package func wait(upTo time: Nanoseconds? = nil) throws -> Outcome {
            let contents = mailbox.wait(upTo: time)
            return contents.isInterrupted ? .interrupted : contents.events != 0 ? .changed : .timedOut
        }

        /// Sleeps for the given time even if the file changes. An interrupt ends the sleep.
        package func pause(_ time: Nanoseconds) -> Outcome { mailbox.pause(time) ? .interrupted : .timedOut }

        /// Ends the running wait and all later ones. Safe from any thread.
        package func interrupt() { mailbox.interrupt() }
    }
#endif
