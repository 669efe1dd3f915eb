import Foundation
import GRDB
import Roundtable
import RoundtableTestKit
import RoundtableTestSupport
import Testing

#if Service
    /// What a server reports to its operators, by real processes: its health, its log, its metrics.
    @Suite(.serialized) struct ServerReportTests {
        private let folder: TemporaryFolder

        init() throws { folder = try TemporaryFolder() }

        private var database: URL { ServicePeerProcess.database(folder) }

        // MARK: Health

        /// A process that is stopped with the write lock makes the others unhealthy at once, and they name it. A restart would not help.
        @Test(.timeLimit(.minutes(1))) func aFrozenHolder() throws {
            let holder = try ServicePeerProcess(folder, as: "holder", grace: 30_000)
            let server = try ServicePeerProcess(folder, as: "server", grace: 30_000)
            try holder.send("hold A")
            _ = try holder.wait(for: "holding A")
            try holder.process.stop()
            try server.send("health")
            let health = try server.wait(for: "health")
            let expected = [
                #""status":"unhealthy""#, "writes_blocked", #""live":true"#, #""ready":false"#,
                "'holder' (pid \(holder.process.pid))", "it is stopped", "ServicePeer.swift",
            ]
            #expect(expected.filter { !health.contains($0) } == [], "\(health)")

            holder.process.resume()
            try holder.send("release")
            #expect(try holder.wait(for: "wrote") == "wrote A")
            try server.send("health")
            let later = try server.wait(for: "health")
            #expect(later.contains(#""status":"healthy""#), "\(later)")
        }

        /// A program without Roundtable that keeps the lock is found when a write waits for it longer than the limit.
        @Test(.timeLimit(.minutes(1))) func aStrangerHoldsTheLock() throws {
            let server = try ServicePeerProcess(folder, as: "server", grace: 30_000)
            let stranger = try DatabaseQueue(path: database.path)
            try stranger.inDatabase { db in
                try db.execute(sql: "BEGIN IMMEDIATE")
                try server.send("write A")
                var health = ""
                try eventually("the server is unhealthy") {
                    try server.send("health 100")
                    health = try server.wait(for: "health")
                    return health.contains("writes_blocked")
                }
                #expect(health.contains("(pid \(getpid())) holds the write lock"), "\(health)")
                // The write still waits, for much less than this limit.
                try server.send("health 600000")
                let patient = try server.wait(for: "health")
                #expect(patient.contains(#""status":"healthy""#) && !patient.contains("writes_blocked"), "\(patient)")
                try db.execute(sql: "COMMIT")
            }
            #expect(try server.wait(for: "wrote") == "wrote A")
        }

        // MARK: The log

        /// Events are in the log of the program, at the level of their severity, and say which database and participant they are of.
        @Test(.timeLimit(.minutes(1))) func events() throws {
            let server = try ServicePeerProcess(folder, as: "server", grace: 30_000)
            let expected = [
                ("notice", "coordination", "takes fair turns again"),
                ("warning", "coordination", "writes without fair turns"),
                ("error", "observation", "observers are not notified"),
            ]
            func lacks() -> [String] {
                let lines = server.process.errorText.split(separator: "\n")
                return expected.filter { level, category, text in
                    !lines.contains { line in
                        let words = [" \(level) ", text, "roundtable.event=\(category)", "roundtable.author=server"]
                        return words.allSatisfy(line.contains) && line.contains("roundtable.path=\(database.path)")
                    }
                }.map(\.2)
            }
            // The first ones may come before the service runs, and are in the system's log then.
            try eventually("the log has all events") {
                try server.send("report")
                _ = try server.wait(for: "reported")
                return lacks().isEmpty
            }
        }

        // MARK: Metrics

        /// What four servers of one database report.
        @Test(.timeLimit(.minutes(1))) func metrics() throws {
            let peers = try (1...4).map { try ServicePeerProcess(folder, as: "server-\($0)", grace: 5_000, ["jobs"]) }
            for (number, peer) in peers.enumerated() {
                for write in 1...3 {
                    try peer.send("write \(number)-\(write)")
                    _ = try peer.wait(for: "wrote")
                }
                try peer.send("fail x")
                _ = try peer.wait(for: "refused x")
                try peer.send("read")
                _ = try peer.wait(for: "read")
            }
            for peer in peers {
                var lines: [String] = []
                func value(_ name: String, _ labels: String...) -> Double? {
                    let line = lines.first { line in line.hasPrefix(name + "{") && labels.allSatisfy(line.contains) }
                    return line?.split(separator: " ").last.flatMap { Double($0) }
                }
                try eventually("the gauges show four participants and the writes") {
                    try peer.send("metrics")
                    lines = try peer.lines(until: "# EOF")
                    let turns = value("roundtable_turns") ?? 0
                    let waiting = value("roundtable_jobs", #"roundtable_job_state="waiting""#)
                    return turns >= 4 && waiting == 0 && value("roundtable_participants", "alive") == 4
                }
                let count = "db_client_operation_duration_seconds_count"
                let system = #"db_system_name="sqlite""#
                let namespace = #"db_namespace="db.sqlite""#
                let writes = value(count, system, namespace, #"="write"}"#) ?? 0
                let reads = value(count, system, namespace, #"="read"}"#) ?? 0
                #expect(writes >= 3 && reads >= 1)
                let seconds = value("db_client_operation_duration_seconds_sum", #"="write"}"#) ?? 0
                #expect(seconds > 0)
                let error = #"error_type="SQLITE_CONSTRAINT",db_response_status_code="19"}"#
                #expect(value(count, #"="write","#, error) == 1)
                let commits = value("roundtable_commits_total") ?? 0
                let waits = value("roundtable_turn_wait_duration_seconds_count") ?? 0
                #expect(commits >= 3 && waits >= 4)
                let frames = value("roundtable_wal_frames") ?? 0
                #expect(frames > 0)
                #expect(value("roundtable_coordinated") == 1)
                let pool = #"db_client_connection_pool_name="db.sqlite:readers""#
                #expect(value("db_client_connection_max", pool) == 5)
                let used = value("db_client_connection_count", pool, #"db_client_connection_state="used""#)
                #expect(used != nil)
            }
            for peer in peers { peer.process.signal(SIGTERM) }
            for peer in peers { #expect(try peer.waitForEnd() == .status(0)) }
        }
    }
#endif
