#if os(Linux)
    import CRoundtableTestSupport
    import Foundation
    import Glibc
    import RoundtableTrials
    import Synchronization
    import Testing

    @testable import RoundtableKernel

    /// Watches of one process share one inotify instance (rule N9).
    @Suite(.serialized) struct WatchHubTests {
        private static let long: Nanoseconds = 10_000_000_000

        /// The descriptors of this process that are inotify instances.
        private func instances() throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").filter { name in
                let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)")
                return target == "anon_inode:inotify"
            }
        }

        /// What the kernel was asked for at a file; nil when it is not watched.
        private func mask(of path: String) throws -> UInt32? {
            let identity = try #require(try System.identity(ofFileAt: path))
            let inode = "ino:\(String(identity.inode, radix: 16))"
            for name in try instances() {
                let text = try String(contentsOfFile: "/proc/self/fdinfo/\(name)", encoding: .utf8)
                for line in text.split(separator: "\n") {
                    let fields = line.split(separator: " ")
                    guard fields.contains(Substring(inode)) else { continue }
                    return fields.first { $0.hasPrefix("mask:") }.flatMap { UInt32($0.dropFirst(5), radix: 16) }
                }
            }
            return nil
        }

        private func makeFile(_ path: String) throws { try System.makeFile(at: path, [], isDurable: false) }

        private func append(_ path: String) throws {
            let file = try #require(FileHandle(forWritingAtPath: path))
            file.write(Data([1]))
            try file.close()
        }

        @Test func oneInstanceServesAllAndGoesWithTheLast() throws {
            let folder = try TemporaryFolder()
            try withExtendedLifetime(
                (0..<200).map { index in
                    let path = folder.file("\(index)")
                    try System.makeFolder(at: path)
                    let watch = FileWatch(path: path + "/a-wal", folder: path)
                    try watch.arm()
                    return (watch, try FolderWatch([path], includingRemovals: true))
                }
            ) { watches in
                #expect(try instances().count == 1)
                for (index, (file, other)) in watches.enumerated() {
                    try makeFile(folder.file("\(index)/a-wal"))
                    #expect(try file.wait(upTo: Self.long) == .changed)
                    #expect(try other.wait(upTo: Self.long) == .changed)
                }
            }
            try eventually("the instance is closed") { try instances().isEmpty }
        }

        /// inotify gives a file one watch, whatever paths lead to it, and forgets it with its first event.
        @Test func eachWatchOfAFileIsNotified() throws {
            let (folder, other) = (try TemporaryFolder(), try TemporaryFolder())
            let (path, link) = (folder.file("a-wal"), other.file("b-wal"))
            try makeFile(path)
            try FileManager.default.linkItem(atPath: path, toPath: link)
            let first = FileWatch(path: path, folder: folder.path)
            do {
                let second = FileWatch(path: link, folder: other.path)
                for _ in 0..<100 {
                    try first.arm()
                    try second.arm()
                    try append(path)
                    #expect(try first.wait(upTo: Self.long) == .changed)
                    #expect(try second.wait(upTo: Self.long) == .changed)
                }
                try first.arm()
                try second.arm()
            }
            // The other file is removed, and the watch is not.
            try append(path)
            #expect(try first.wait(upTo: Self.long) == .changed)
            #expect(try mask(of: path) == nil, "writing costs nothing until the next arming")
        }

        @Test func aFileThatIsDeletedAndRecreatedIsFollowed() throws {
            let folder = try TemporaryFolder()
            let path = folder.file("a-wal")
            let watch = FileWatch(path: path, folder: folder.path)
            for _ in 0..<20 {
                try watch.arm()
                try makeFile(path)
                #expect(try watch.wait(upTo: Self.long) == .changed)
                try watch.arm()
                #expect(try mask(of: folder.path) == nil, "the folder is not watched any more")
                try append(path)
                #expect(try watch.wait(upTo: Self.long) == .changed)
                try watch.arm()
                try System.removeFile(at: path)
                #expect(try watch.wait(upTo: Self.long) == .changed)
            }
        }

        /// One folder is watched itself, is above a watched folder, and is where a file is expected. Each watch gets its own events, and the
        /// kernel does not report what no watch needs any more.
        @Test func aFolderIsWatchedForSeveralReasons() throws {
            let folder = try TemporaryFolder()
            let (outer, inner) = (folder.file("outer"), folder.file("outer/inner"))
            for path in [outer, inner] { try System.makeFolder(at: path) }
            let below = try FolderWatch([inner], includingRemovals: false)
            let moves = try #require(try mask(of: outer))
            let file = FileWatch(path: outer + "/a-wal", folder: outer)
            do {
                let watch = try FolderWatch([outer], includingRemovals: true)
                try file.arm()
                try makeFile(outer + "/a")
                #expect(try watch.wait(upTo: Self.long) == .changed)
                #expect(try file.wait(upTo: Self.long) == .changed)
                #expect(try below.wait(upTo: 1_000_000) == .timedOut)
                try System.removeFile(at: outer + "/a")
                #expect(try watch.wait(upTo: Self.long) == .changed)
                #expect(try file.wait(upTo: 1_000_000) == .timedOut)
                try file.arm()
                #expect(try mask(of: outer) != moves)
            }
            try makeFile(outer + "/b")
            #expect(try file.wait(upTo: Self.long) == .changed)
            try eventually("the kernel is asked for less") { try mask(of: outer) == moves }
            try System.renameFile(at: FilePlace(outer), to: FilePlace(folder.file("moved")))
            #expect(try below.wait(upTo: Self.long) == .gone)
        }

        /// The system reports nothing about a file when a folder above it is moved, so these folders are watched, too.
        @Test(arguments: ["outer", "outer/inner"]) func aFolderAboveTheFilesIsMoved(moved: String) throws {
            let folder = try TemporaryFolder()
            let inner = folder.file("outer/inner")
            for path in [folder.file("outer"), inner] { try System.makeFolder(at: path) }
            for name in ["a", "a-wal"] { try makeFile("\(inner)/\(name)") }
            let watch = FileWatch(path: "\(inner)/a-wal", folder: inner, others: ["\(inner)/a"])
            try watch.arm()
            try System.renameFile(at: FilePlace(folder.file(moved)), to: FilePlace(folder.file("moved")))
            #expect(try watch.wait(upTo: Self.long) == .changed)
        }

        /// What the kernel lost may have been anything.
        @Test func anOverflowIsReportedToAll() throws {
            let folder = try TemporaryFolder()
            let path = folder.file("a-wal")
            try makeFile(path)
            let (file, other) = (
                FileWatch(path: path, folder: folder.path),
                try FolderWatch([folder.path], includingRemovals: false)
            )
            try file.arm()
            WatchHub.shared.receive(UInt32(IN_Q_OVERFLOW), from: -1)
            #expect(try file.wait(upTo: Self.long) == .changed)
            #expect(try other.wait(upTo: Self.long) == .gone)
            try file.arm()
            try append(path)
            #expect(try file.wait(upTo: Self.long) == .changed)
        }

        /// The system forgets a watch by itself when its file system is unmounted, say.
        @Test func aWatchThatEndsByItselfIsRecreated() throws {
            let folder = try TemporaryFolder()
            let path = folder.file("a-wal")
            try makeFile(path)
            let watches = [0, 1].map { _ in FileWatch(path: path, folder: folder.path) }
            for watch in watches { try watch.arm() }
            try System.removeFile(at: path)
            for watch in watches { #expect(try watch.wait(upTo: Self.long) == .changed) }
            for watch in watches { try watch.arm() }
            try makeFile(path)
            for watch in watches { #expect(try watch.wait(upTo: Self.long) == .changed) }
        }

        @Test func whatTheSystemRefusesIsTriedAgain() throws {
            let folder = try TemporaryFolder()
            let path = folder.file("a-wal")
            try makeFile(path)
            let watch = FileWatch(path: path, folder: folder.path)
            for errno in [EMFILE, ENOSPC] {
                System.withFaults([Fault(.inotify, errno: errno)]) {
                    let error = #expect(throws: SystemError.self) { try watch.arm() }
                    #expect(error?.errno == errno)
                }
                try watch.arm()
                try append(path)
                #expect(try watch.wait(upTo: Self.long) == .changed)
            }
        }

        /// A child after `fork` shares the instance of its parent: an event that it read would be lost, and a watch that it ended too (rule W4).
        @Test func aChildLeavesTheWatchesOfItsParent() throws {
            let folder = try TemporaryFolder()
            let path = folder.file("a-wal")
            try makeFile(path)
            let watch = FileWatch(path: path, folder: folder.path)
            var dropped: FileWatch? = FileWatch(path: path, folder: folder.path)
            try watch.arm()
            try dropped?.arm()
            let child = rt_fork()
            if child == 0 {
                // The instance of the parent was closed in the fork itself: its number may be a database's by the time of the first watch.
                guard (try? instances().count) == 0 else { _exit(3) }
                dropped = nil
                let own = FileWatch(path: path, folder: folder.path)
                guard (try? own.arm()) != nil else { _exit(1) }
                _exit((try? instances().count) == 1 ? 0 : 2)
            }
            try #require(child > 0)
            var status: Int32 = -1
            var hasEnded = false
            defer {
                // A child that hangs is a failed test, not a process left behind.
                if !hasEnded {
                    kill(child, SIGKILL)
                    waitpid(child, &status, 0)
                }
            }
            try eventually("the child ends") {
                hasEnded = waitpid(child, &status, WNOHANG) == child
                return hasEnded
            }
            #expect(status == 0)
            try append(path)
            #expect(try watch.wait(upTo: Self.long) == .changed)
            #expect(try dropped?.wait(upTo: Self.long) == .changed)
        }

        /// After `arm` nothing is missed, whatever other watches of the same file do meanwhile, and though the file is created and removed.
        @Test func noWakeIsLost() throws {
            let rounds = 2000
            var random = SeededGenerator()
            let folder = try TemporaryFolder()
            let path = folder.file("a-wal")
            let count = Shared(0)
            let stuck = Shared(0)
            let done = DispatchSemaphore(value: 0)
            let seeds = (0..<4).map { _ in random.next() }
            for (index, seed) in seeds.enumerated() {
                Thread.detachNewThread {
                    defer { done.signal() }
                    var random = SeededGenerator(seed: seed)
                    var watch = FileWatch(path: path, folder: folder.path)
                    while true {
                        guard (try? watch.arm()) != nil else { return stuck.add(1) }
                        let seen = count.value
                        if seen == rounds { return }
                        // One of them sleeps for as long as it takes.
                        if index > 0, Int.random(in: 0..<8, using: &random) == 0 {
                            watch = FileWatch(path: path, folder: folder.path)
                            continue
                        }
                        let outcome = try? watch.wait(upTo: Self.long)
                        if outcome != .changed, count.value != seen { return stuck.add(1) }
                    }
                }
            }
            for _ in 0..<rounds {
                count.add(1)
                if !FileManager.default.fileExists(atPath: path) {
                    try makeFile(path)
                } else if Int.random(in: 0..<4, using: &random) == 0 {
                    try System.removeFile(at: path)
                } else {
                    try append(path)
                }
                if Int.random(in: 0..<4, using: &random) == 0 { usleep(.random(in: 0..<300, using: &random)) }
            }
            for _ in seeds { done.wait() }
            #expect(stuck.value == 0)
        }

        private final class Shared: Sendable {
            private let number: Mutex<Int>
            init(_ number: Int) { self.number = Mutex(number) }
            var value: Int { number.withLock { $0 } }
            func add(_ count: Int) { number.withLock { $0 += count } }
        }

        @Test func eventsThatArriveWhileNoThreadWaitsAreKept() throws {
            let mailbox = WatchMailbox()
            mailbox.tell(1)
            mailbox.tell(4)
            #expect(mailbox.pause(1_000_000) == false)
            #expect(mailbox.wait(upTo: nil).events == 5)
            #expect(mailbox.wait(upTo: 1_000_000).events == 0)
            mailbox.interrupt()
            #expect(mailbox.wait(upTo: nil).isInterrupted && mailbox.pause(Self.long))
        }

        /// A word that cannot be waited on makes the wait slow, and not a busy one.
        @Test func aWaitThatTheSystemRefusesSleeps() {
            let mailbox = WatchMailbox()
            let begun = MonotonicClock.now
            System.withFaults([Fault(.futexWait, errno: ENOSYS)]) {
                #expect(mailbox.wait(upTo: 25_000_000).events == 0)
            }
            #expect(MonotonicClock.now - begun >= 25_000_000)
        }
    }
#endif
