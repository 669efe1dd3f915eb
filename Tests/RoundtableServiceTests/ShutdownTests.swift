import Foundation
import GRDB
import Roundtable
import RoundtableTestKit
import RoundtableTestSupport
import Testing

#if Service
    /// What SIGTERM does to a server, in real processes with a real `ServiceGroup` (rules F9, A13).
    @Suite(.serialized) struct ShutdownTests {
        private let folder: TemporaryFolder

        init() throws { folder = try TemporaryFolder() }

        private var database: URL { ServicePeerProcess.database(folder) }

        private func entries() throws -> [String] {
            let queue = try DatabaseQueue(path: database.path)
            defer { try? queue.close() }
            return try queue.read { try String.fetchAll($0, sql: "SELECT name FROM entry ORDER BY rowid") }
        }

        /// No participant, no lock, and nothing left in the WAL.
        private func expectNothingLeft() throws {
            let status = try DatabaseStatus(ofDatabaseAt: database)
            #expect(status.participants.isEmpty)
            #expect(status.writeLock == nil)
            #expect(status.files.wal ?? 0 == 0)
        }

        /// A write in flight at the signal is committed and acknowledged, and a later one is refused. So it is with a second signal, and
        /// when the group is cancelled.
        @Test(.timeLimit(.minutes(1)), arguments: [[SIGTERM], [SIGTERM, SIGTERM], [SIGINT]])
        func aWriteInFlight(_ signals: [Int32]) throws {
            let peer = try ServicePeerProcess(folder, as: "server", grace: 30_000)
            try peer.send("hold A")
            _ = try peer.wait(for: "holding A")
            peer.process.signal(signals[0])
            try peer.waitForLog("closing the database")
            for signal in signals.dropFirst() { peer.process.signal(signal) }
            try peer.send("write B")
            let refusal = try peer.wait(for: "refused B")
            #expect(refusal.contains("this process is shutting down") && refusal.contains(database.path))
            // Reads continue, and the health says what happens.
            try peer.send("read")
            #expect(try peer.wait(for: "read") == "read 0")
            try peer.send("health")
            let health = try peer.wait(for: "health")
            #expect(
                health.contains(#""ready":false"#) && health.contains(#""live":true"#)
                    && health.contains("shutting_down")
            )
            try peer.send("release")
            #expect(try peer.wait(for: "wrote") == "wrote A")
            #expect(try peer.waitForEnd() == .status(0))
            #expect(try entries() == ["A"])
            try expectNothingLeft()
            #expect(peer.process.errorText.contains("the database is closed"))
        }

        /// A write that waits for the lock of another process when the grace ends is refused, and the log names the holder.
        @Test(.timeLimit(.minutes(1))) func anotherProcessHoldsTheLock() throws {
            let other = try ServicePeerProcess(folder, as: "other", grace: 30_000)
            let peer = try ServicePeerProcess(folder, as: "server", grace: 300)
            try other.send("hold A")
            _ = try other.wait(for: "holding A")
            try peer.send("write B")
            try eventually("the server waits for its turn") {
                try DatabaseStatus(ofDatabaseAt: self.database).participants.contains {
                    $0.author == "server" && $0.waiting != nil
                }
            }
            peer.process.signal(SIGTERM)
            #expect(try peer.wait(for: "refused B").contains("shutting down"))
            #expect(try peer.waitForEnd() == .status(0))
            let log = peer.process.errorText
            #expect(log.contains("not all writes ended within"))
            #expect(log.contains("'other' (pid \(other.process.pid))") && log.contains("ServicePeer.swift"), "\(log)")
            try other.send("release")
            #expect(try other.wait(for: "wrote") == "wrote A")
            other.process.signal(SIGTERM)
            #expect(try other.waitForEnd() == .status(0))
            #expect(try entries() == ["A"])
            try expectNothingLeft()
        }

        /// A write that holds the lock for longer than the grace is rolled back: the process ends, and says why.
        @Test(.timeLimit(.minutes(1))) func aWriteThatDoesNotEnd() throws {
            let peer = try ServicePeerProcess(folder, as: "server", grace: 200)
            try peer.send("hold A")
            _ = try peer.wait(for: "holding A")
            peer.process.signal(SIGTERM)
            // Its closure never returns.
            try peer.waitForLog("not closed at shutdown")
            let exit = try peer.process.waitForExit(within: .seconds(30))
            #expect(exit == .status(1))
            let log = peer.process.errorText
            #expect(log.contains("ServicePeer.swift"), "\(log)")
            // The event of the suspension is in the program's log, and not in the system's.
            #expect(
                log.contains("roundtable.event=suspension") && !log.contains("roundtable error suspension"),
                "\(log)"
            )
            #expect(try entries() == [])
        }

        /// A write that waits behind a closed gate is refused, and the process ends without waiting for `resume()`. So it is when the
        /// suspension has closed all connections.
        @Test(.timeLimit(.minutes(1)), arguments: [[], ["parks"]]) func suspended(_ words: [String]) throws {
            let peer = try ServicePeerProcess(folder, as: "server", grace: 30_000, words)
            try peer.send("suspend")
            #expect(try peer.wait(for: "suspended") == "suspended true")
            try peer.send("write A")
            try peer.send("health")
            #expect(try peer.wait(for: "health").contains(#""code":"suspended""#))
            peer.process.signal(SIGTERM)
            #expect(try peer.wait(for: "refused A").contains("shutting down"))
            #expect(try peer.waitForEnd() == .status(0))
            #expect(try entries() == [])
            let status = try DatabaseStatus(ofDatabaseAt: database)
            #expect(status.writeLock == nil && status.participants.isEmpty)
        }

        /// A checkpoint that waits for a reader of another process when the grace ends is cut short, and the process ends. The reader is
        /// not disturbed.
        @Test(.timeLimit(.minutes(1))) func inTheMiddleOfACheckpoint() throws {
            let other = try ServicePeerProcess(folder, as: "other", grace: 30_000)
            let peer = try ServicePeerProcess(folder, as: "server", grace: 300)
            try peer.send("write A")
            _ = try peer.wait(for: "wrote A")
            try other.send("hold-read R")
            _ = try other.wait(for: "reading R")
            try peer.send("write B")
            _ = try peer.wait(for: "wrote B")
            try peer.send("checkpoint")
            _ = try peer.wait(for: "checkpointing")
            // It holds the write lock while it waits for the reader.
            try eventually("the server checkpoints") {
                try DatabaseStatus(ofDatabaseAt: self.database).writeLock?.pid == peer.process.pid
            }
            peer.process.signal(SIGTERM)
            // Its result says how far it has come.
            #expect(try peer.wait(for: "checkpointed").contains("frames are in the WAL only"))
            #expect(try peer.waitForEnd() == .status(0))
            #expect(try entries() == ["A", "B"])
            try other.send("release")
            #expect(try other.wait(for: "has read") == "has read R")
            other.process.signal(SIGTERM)
            #expect(try other.waitForEnd() == .status(0))
            try expectNothingLeft()
        }

        /// A checkpoint that copies pages when the database is suspended ends with the page that it writes, and none counts as copied
        /// (rules F2, K10).
        @Test(.timeLimit(.minutes(1)), arguments: ["passive", "truncate"])
        func suspendedWhileACheckpointCopies(_ mode: String) throws {
            let peer = try ServicePeerProcess(folder, as: "server", grace: 30_000, ["copies"])
            try peer.send("write A")
            _ = try peer.wait(for: "wrote A")
            try peer.send("checkpoint \(mode)")
            _ = try peer.wait(for: "copying")
            func wal() throws -> WALHealth { try #require(DatabaseStatus(ofDatabaseAt: database).wal) }
            #expect(try wal().checkpointLock?.pid == peer.process.pid)
            try peer.send("suspend 50")
            // The disk does not answer within this time.
            #expect(try peer.wait(for: "suspended") == "suspended false")
            try peer.send("release")
            try eventually("the checkpoint has ended") { try wal().checkpointLock == nil }
            let left = try wal()
            #expect(left.committedFrames > 1 && left.backfilledFrames == 0, "\(left)")
            peer.process.signal(SIGTERM)
            #expect(try peer.waitForEnd() == .status(0))
            #expect(try entries() == ["A"])
        }

        /// The job of a handler that does not end is released: another process takes it at once, and not after the lease of 10 minutes.
        @Test(.timeLimit(.minutes(1))) func jobs() throws {
            let first = try ServicePeerProcess(folder, as: "first", grace: 100, ["jobs"])
            try first.send("add J")
            _ = try first.wait(for: "began J")
            let second = try ServicePeerProcess(folder, as: "second", grace: 30_000, ["jobs"])
            first.process.signal(SIGTERM)
            #expect(try first.wait(for: "cancelled") == "cancelled J")
            #expect(try first.waitForEnd() == .status(0))
            #expect(first.process.errorText.contains("did not end after its cancellation: the job was released"))
            #expect(try second.wait(for: "began") == "began J")
            // The second handler runs when the signal comes, and completes its job within the grace: nothing cancels it.
            second.process.signal(SIGTERM)
            try second.waitForLog("no more jobs are claimed")
            // A job that is added meanwhile waits for another worker.
            try second.send("add K")
            var lines = try second.lines(until: "added K")
            try second.send("release")
            lines += try second.lines(until: "ended")
            #expect(lines.filter { $0.hasPrefix("cancelled") } == [])
            #expect(try second.process.waitForExit(within: .seconds(30)) == .status(0))
            #expect(try entries() == ["J"])
            let queue = try DatabaseQueue(path: database.path)
            let jobs = try queue.read {
                try String.fetchAll(
                    $0,
                    sql: "SELECT state || ' ' || failures || ' ' || attempt FROM roundtable_job ORDER BY id"
                )
            }
            #expect(jobs == ["done 0 2", "waiting 0 0"])
        }

        /// A handler that does not end its write keeps the lock that releasing its job needs. The process ends all the same, with an error,
        /// and the next one takes the job.
        @Test(.timeLimit(.minutes(1))) func aHandlerHoldsTheLock() throws {
            let first = try ServicePeerProcess(folder, as: "first", grace: 100, ["jobs"])
            try first.send("add holds")
            _ = try first.wait(for: "began holds")
            first.process.signal(SIGTERM)
            #expect(try first.process.waitForExit(within: .seconds(30)) == .status(1))
            let log = first.process.errorText
            #expect(log.contains("its job could not be released in time"), "\(log)")
            #expect(log.contains("ServicePeer.swift"), "\(log)")
            let second = try ServicePeerProcess(folder, as: "second", grace: 30_000, ["jobs"])
            #expect(try second.wait(for: "began") == "began holds")
            try second.send("release")
            second.process.signal(SIGTERM)
            #expect(try second.waitForEnd() == .status(0))
        }

        /// A worker whose claim waits behind a suspension ends: no process resumes a server that is to end.
        @Test(.timeLimit(.minutes(1)), arguments: [[], ["parks"]]) func suspendedWorkers(_ words: [String]) throws {
            try whileAClaimWaits(words) { peer in
                try peer.send("suspend")
                #expect(try peer.wait(for: "suspended") == "suspended true")
                try eventually("the claim waits outside") {
                    try DatabaseStatus(ofDatabaseAt: self.database).participants.allSatisfy {
                        $0.author != "server" || $0.waiting == nil
                    }
                }
            }
        }

        /// A worker that cannot claim a job, because another process holds the lock, ends before that process does.
        @Test(.timeLimit(.minutes(1))) func aWorkerThatWaitsForTheLock() throws { try whileAClaimWaits { _ in } }

        /// Ends a server by SIGTERM while its worker waits for the lock of another process.
        private func whileAClaimWaits(_ words: [String] = [], _ body: (ServicePeerProcess) throws -> Void) throws {
            let other = try ServicePeerProcess(folder, as: "other", grace: 30_000)
            try addJob()
            try other.send("hold A")
            _ = try other.wait(for: "holding A")
            let peer = try ServicePeerProcess(folder, as: "server", grace: 30_000, ["jobs"] + words)
            try eventually("the worker waits for its turn") {
                try DatabaseStatus(ofDatabaseAt: self.database).participants.contains {
                    $0.author == "server" && $0.waiting != nil
                }
            }
            try body(peer)
            peer.process.signal(SIGTERM)
            #expect(try peer.waitForEnd() == .status(0))
            #expect(!peer.process.errorText.contains("not all writes ended"))
            try other.send("release")
            #expect(try other.wait(for: "wrote") == "wrote A")
            other.process.signal(SIGTERM)
            #expect(try other.waitForEnd() == .status(0))
        }

        /// A program without Roundtable, which waits for its turn as SQLite does.
        private func stranger() throws -> DatabaseQueue {
            var configuration = Configuration()
            configuration.busyMode = .timeout(10)
            return try DatabaseQueue(path: database.path, configuration: configuration)
        }

        private func addJob() throws {
            let shell = try stranger()
            try shell.write {
                try $0.execute(sql: "INSERT INTO roundtable_job (queue, payload) VALUES ('peer', '\"J\"')")
            }
        }

        /// A payload that cannot be decoded is an attempt that fails, and the log says so.
        @Test(.timeLimit(.minutes(1))) func anUndecodablePayload() throws {
            let peer = try ServicePeerProcess(folder, as: "server", grace: 100, ["jobs"])
            let shell = try stranger()
            try shell.write { try $0.execute(sql: "INSERT INTO roundtable_job (queue, payload) VALUES ('peer', '{}')") }
            try peer.waitForLog("attempt 1 of job 1 failed (")
            peer.process.signal(SIGTERM)
            #expect(try peer.waitForEnd() == .status(0))
        }

        /// The worker that takes a job back from a dead one says so.
        @Test(.timeLimit(.minutes(1))) func aDeadWorker() throws {
            let first = try ServicePeerProcess(folder, as: "first", grace: 100, ["jobs"])
            try addJob()
            _ = try first.wait(for: "began")
            let second = try ServicePeerProcess(folder, as: "second", grace: 100, ["jobs"])
            try second.waitForLog("are done with up to 2 handlers at a time")
            first.process.signal(SIGKILL)
            let worker = "worker 'first' (pid \(first.process.pid))"
            try second.waitForLog("attempt 1 of job 1 is over: \(worker) is dead. The job waits again")
            _ = try second.wait(for: "began")
            second.process.signal(SIGTERM)
            #expect(try second.waitForEnd() == .status(0))
        }

        /// A group that closes the database before its workers ends with an error that says how to order them.
        @Test(.timeLimit(.minutes(1))) func theWrongOrder() throws {
            let peer = try ServicePeerProcess(folder, as: "server", grace: 100, ["jobs", "reversed"])
            try addJob()
            _ = try peer.wait(for: "began")
            peer.process.signal(SIGTERM)
            try peer.waitForLog("the database is closed")
            try peer.send("release")
            try peer.waitForLog("closed before the workers of queue 'peer' had ended")
            #expect(try peer.process.waitForExit(within: .seconds(30)) == .status(1))
        }

        /// A worker whose database another program has migrated claims nothing more. It does not end the services beside it.
        @Test(.timeLimit(.minutes(1))) func aNewerSchema() throws {
            let peer = try ServicePeerProcess(folder, as: "server", grace: 100, ["jobs"])
            let newer = try stranger()
            try newer.write {
                try $0.execute(
                    sql: """
                        INSERT INTO grdb_migrations VALUES ('v2');
                        INSERT INTO roundtable_job (queue, payload) VALUES ('peer', '"J"')
                        """
                )
            }
            try peer.waitForLog("no more jobs are done by this process")
            try peer.send("read")
            #expect(try peer.wait(for: "read") == "read 0")
            peer.process.signal(SIGTERM)
            #expect(try peer.waitForEnd() == .status(0))
        }
    }
#else
    @Suite struct ShutdownTests {
        @Test(.disabled("RoundtableService needs its trait: swift build --build-tests --traits Service"))
        func needsTheTrait() {}
    }
#endif
