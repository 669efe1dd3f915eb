#if canImport(Darwin)
    import Darwin

    /// Waits until files come into folders, or go.
    ///
    /// kqueue(2), which does not tell coming from going, nor what is written to files that stay: that takes a descriptor of each file, and closing one
    /// of a file that turns out to be a database's would drop SQLite's locks (rule G5). For one thread, but for `interrupt`.
    package final class FolderWatch: Sendable {
        package enum Outcome: Equatable, Sendable {
            case changed, interrupted, timedOut
            /// A folder, or one above it, was removed or moved: this watch is to be replaced by another. The folder's identity does not tell,
            /// since file systems may use the numbers of removed folders again.
            case gone
        }

        private let queue: Int32
        private let folders: [Int32]
        private let interrupter: Interrupter

        /// - Parameters:
        ///   - folders: which have to be there.
        ///   - includingRemovals: makes no difference here.
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
                // From the top down: each is there when what is above it is watched already, so no move between the two is missed.
                for folder in System.foldersAbove(folders) {
                    do {
                        try watch(folder, for: Self.ends)
                    } catch let error as SystemError where !error.isFolderGone {
                        // One that this process may not look into: somebody else's, which stays where it is.
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

        /// Sleeps until something has changed since the last call. Returns early at times.
        ///
        /// - parameter time: not for longer than this.
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

        /// Ends all waits, for good. From any thread.
        package func interrupt() { interrupter.interrupt() }
    }
#endif
