#if os(Linux)
    import Glibc

    /// Waits until files come into folders, are written there, or go.
    ///
    /// inotify(7). For one thread, but for `interrupt`.
    package final class FolderWatch: Sendable {
        package enum Outcome: Equatable, Sendable {
            case changed, interrupted, timedOut
            /// A folder, or one above it, was removed or moved, or what happened to it was lost: this watch is to be replaced by another. The
            /// folder's identity does not tell, since file systems use the numbers of removed folders again.
            case gone
        }

        private let descriptor: Int32
        private let interrupter: Interrupter

        /// - Parameters:
        ///   - folders: which have to be there.
        ///   - includingRemovals: else only what comes.
        package init(_ folders: [String], includingRemovals: Bool) throws {
            interrupter = try Interrupter()
            descriptor = try System.perform(.inotify) { inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK)) }
            // What comes by itself: IN_IGNORED, IN_UNMOUNT, IN_Q_OVERFLOW.
            var mask = UInt32(IN_CREATE) | UInt32(IN_MOVED_TO) | UInt32(IN_CLOSE_WRITE)
            mask |= UInt32(IN_DELETE_SELF) | UInt32(IN_MOVE_SELF)
            if includingRemovals { mask |= UInt32(IN_DELETE) | UInt32(IN_MOVED_FROM) }
            // A folder above may be one of the folders.
            mask |= UInt32(IN_MASK_ADD)
            // From the top down: each is there when what is above it is watched already, so no move between the two is missed.
            for folder in System.foldersAbove(folders) { try Self.watchForMoves(descriptor, folder) }
            for folder in folders {
                try System.perform(.inotify, folder) { inotify_add_watch(descriptor, folder, mask) }
            }
        }

        /// Not of what comes into it or goes.
        private static func watchForMoves(_ descriptor: Int32, _ folder: String) throws {
            let mask = UInt32(IN_DELETE_SELF) | UInt32(IN_MOVE_SELF) | UInt32(IN_MASK_ADD)
            do {
                try System.perform(.inotify, folder) { inotify_add_watch(descriptor, folder, mask) }
            } catch let error as SystemError where !error.isFolderGone {
                // One that this process may not look into: somebody else's, which stays where it is.
            }
        }

        deinit { close(descriptor) }

        /// Sleeps until something has changed since the last call. Returns early at times.
        ///
        /// - parameter time: not for longer than this.
        package func wait(upTo time: Nanoseconds? = nil) throws -> Outcome {
            let (changed, interrupted) = try waitForInput(descriptor, interrupter, timeout: time)
            let isGone = changed && takeEvents() & Self.ends != 0
            return interrupted ? .interrupted : isGone ? .gone : changed ? .changed : .timedOut
        }

        /// A queue that overflows loses events, and these may be among them.
        private static let ends: UInt32 = [IN_DELETE_SELF, IN_MOVE_SELF, IN_UNMOUNT, IN_IGNORED, IN_Q_OVERFLOW]
            .reduce(0) { $0 | UInt32($1) }

        /// - returns: what has happened, whatever to.
        private func takeEvents() -> UInt32 {
            var events: UInt32 = 0
            withUnsafeTemporaryAllocation(byteCount: 4096, alignment: MemoryLayout<inotify_event>.alignment) { buffer in
                while true {
                    let count = read(descriptor, buffer.baseAddress, buffer.count)
                    var offset = 0
                    while offset + MemoryLayout<inotify_event>.size <= count {
                        let event = buffer.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
                        events |= event.mask
                        offset += MemoryLayout<inotify_event>.size + Int(event.len)
                    }
                    if count <= 0 { return }
                }
            }
            return events
        }

        /// Ends all waits, for good. From any thread.
        package func interrupt() { interrupter.interrupt() }
    }
#endif
