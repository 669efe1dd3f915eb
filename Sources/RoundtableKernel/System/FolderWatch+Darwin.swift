#if canImport(Darwin)
    import Darwin

    /// Waits until files are added to folders or removed from them.
    ///
    /// It uses kqueue(2), which neither distinguishes additions from removals nor reports writes to files that stay. Reporting writes
    /// would need a descriptor of each file, and closing that of a database's file would drop SQLite's locks (rule G5). One thread uses
    /// the object; `interrupt` is safe from any thread.
    package final class FolderWatch: Sendable {
        package enum Outcome: Equatable, Sendable {
            case changed, interrupted, timedOut
            /// A folder, or one above it, was removed or moved. The caller replaces this watch by a new one. Comparing the folder's
            /// identity does not suffice, because file systems may reuse the numbers of removed folders.
            case gone
        }

        private let queue: Int32
        private let folders: [Int32]
        private let interrupter: Interrupter

        /// - Parameters:
        ///   - folders: the folders, which must exist.
        ///   - includingRemovals: has no effect on this system, which always reports removals.
        /// - throws: `SystemError`.
        package init(_ folders: [String], includingRemovals: Bool) throws {
            let interrupter = try Interrupter()
            let queue = try System.perform(.kqueue) { kqueue() }
            var opened: [Int32] = []
            func watch(_ folder: String, for changes: UInt32) throws {
                let descriptor = try System.perform(.open, folder) { open(folder, O_EVTONLY | O_CLOEXEC) }
                opened.append(descriptor)
                var event = Darwin.kevent(
                    ident: UInt(descriptor),
                    filter: Int16(EVFILT_VNODE),
                    flags: UInt16(EV_ADD | EV_CLEAR),
                    fflags: changes,
                    data: 0,
                    udata: nil
                )
                try System.perform(.kqueue, folder) { kevent(queue, &event, 1, nil, 0, nil) }
            }
            do {
                // The watches are added from the top down. Each folder exists while the one above it is already watched, so no move is
                // missed. The sandbox refuses to open what is above a container, and logs each attempt.
                for folder in System.foldersAbove(folders, inContainers: true) {
                    do {
                        try watch(folder, for: Self.ends)
                    } catch let error as SystemError where !error.isFolderGone {
                        // The process may not open this folder, which is assumed to stay where it is.
                    }
                }
                for folder in folders { try watch(folder, for: UInt32(NOTE_WRITE | NOTE_EXTEND) | Self.ends) }
            } catch {
                for descriptor in opened { close(descriptor) }
                close(queue)
                throw error
            }
            (self.queue, self.folders, self.interrupter) = (queue, opened, interrupter)
        }

        deinit {
            for descriptor in folders { close(descriptor) }
            close(queue)
        }

        /// Sleeps until something has changed since the last call. It may return early.
        ///
        /// - parameter time: the longest sleep, in ns; nil: without limit.
        package func wait(upTo time: Nanoseconds? = nil) throws -> Outcome {
            let (changed, interrupted) = try waitForInput(queue, interrupter, timeout: time)
            var isGone = false
            if changed {
                var event = Darwin.kevent()
                var none = timespec()
                while try System.perform(.kqueue, nil, { kevent(queue, nil, 0, &event, 1, &none) }) > 0 {
                    if event.fflags & Self.ends != 0 { isGone = true }
                }
            }
            return interrupted ? .interrupted : isGone ? .gone : changed ? .changed : .timedOut
        }

        private static let ends = UInt32(NOTE_DELETE | NOTE_RENAME | NOTE_REVOKE)

        /// Ends the running wait and all later ones. Safe from any thread.
        package func interrupt() { interrupter.interrupt() }
    }
#endif
