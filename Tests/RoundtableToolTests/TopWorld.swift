import Foundation
import Roundtable
import RoundtableDiagnostics
import RoundtableKernel

@testable import RoundtableReplication
@testable import RoundtableTool
@testable import RoundtableToolSupport

/// Samples of a fleet that does not exist, for tests of the live view.
enum TopWorld {
    static let begin = Date(timeIntervalSince1970: 1_764_108_000)

    /// A sample so many seconds after `begin`.
    ///
    /// - Parameters:
    ///   - commits: the commits of each writer until then.
    ///   - counts: whether the ring has the commits since the sample before.
    static func sample(
        at second: Double,
        commits: [Int] = [100, 200],
        since earlier: [Int]? = nil,
        stalled: Bool = true,
        warnings: [DatabaseDiagnosis.Finding] = []
    ) throws -> TopSample {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        var status = try decoder.decode(DatabaseStatus.self, from: Data(json(commits).utf8))
        for index in status.participants.indices {
            let participant = status.participants[index]
            status.participants[index].owner = OwnerWord(pid: participant.pid, incarnation: 1)
            status.participants[index].joinedAt = begin.addingTimeInterval(-60)
        }
        if !stalled { status.wal?.pins = [] }
        let date = begin.addingTimeInterval(second)
        let counts = earlier.map { earlier in
            Dictionary(
                uniqueKeysWithValues: zip(commits, earlier).enumerated().map { index, pair in
                    (OwnerWord(pid: Int32(101 + index), incarnation: 1), pair.0 - pair.1)
                }
            )
        }
        return TopSample(
            time: UInt64(1e12 + second * 1e9),
            commitsTime: UInt64(1e12 + second * 1e9),
            date: date,
            status: status,
            commits: RecentCommits(
                lastSequence: UInt64(commits.reduce(0, +)),
                commits: [
                    commit(3, "sync daemon", date, .some(["entry", "player"])),
                    commit(2, "app", date, .some(["entry"])),
                    commit(1, nil, date, .fullDatabase),
                ],
                counts: counts
            ),
            warnings: warnings
        )
    }

    static func model(_ samples: TopSample...) -> TopModel {
        var model = TopModel()
        for sample in samples { model.add(sample) }
        return model
    }

    static func lines(_ model: TopModel, _ width: Int, _ height: Int?) throws -> [StyledText] {
        let zone = TimeZone(identifier: "UTC") ?? .current
        return TopScreen(model, width: width, height: height, clock: ClockText(timeZone: zone)).lines
    }

    static var warning: DatabaseDiagnosis.Finding {
        get throws {
            let json = """
                {"id":"long_read","severity":"warning","where":"/data/app.sqlite","processes":[],"advice":"Continue it (kill -CONT 103) or end it.",
                "message":"'widget' (pid 103, stopped) has been reading one moment for 12.0 s, and holds 3,800 WAL frames back."}
                """
            return try JSONDecoder().decode(DatabaseDiagnosis.Finding.self, from: Data(json.utf8))
        }
    }

    private static func commit(
        _ sequence: UInt64,
        _ author: String?,
        _ date: Date,
        _ tables: DatabaseChange.Tables
    ) -> RecentCommits.Commit {
        RecentCommits.Commit(
            sequence: sequence,
            author: author,
            pid: 101,
            time: date.addingTimeInterval(-Double(4 - sequence) / 1000),
            tables: tables
        )
    }

    private static func json(_ commits: [Int]) -> String {
        func participant(_ pid: Int, _ name: String, _ more: String) -> String {
            """
            {"pid":\(pid),"in_other_pid_namespace":false,"author":"\(name)","state":"present","longest_wait_s":0.0123,
            "joined_at":"2025-11-25T22:00:00Z",\(more)}
            """
        }
        let participants = [
            participant(
                101,
                "app",
                """
                "role":"read_write","liveness":"alive","has_turn":true,"writing_s":0.0012,"turns_taken":\(commits[0]),
                "call_site":"App/Store.swift:42"
                """
            ),
            participant(
                102,
                "sync daemon",
                "\"role\":\"read_write\",\"liveness\":\"alive\",\"has_turn\":false,\"waiting_s\":0.0034,\"turns_taken\":\(commits[1])"
            ),
            participant(
                103,
                "widget",
                """
                "role":"read_only","liveness":"stopped","has_turn":false,"turns_taken":0,
                "oldest_read":{"age_s":12,"held_frames":3800,"is_past_limit":true,"call_site":"Widget/Provider.swift:7"}
                """
            ),
        ]
        return """
            {"path":"/data/app.sqlite","sqlite_version":"3.40.1","sqlite_has_wal_reset_bug":false,"journal_mode":"wal","page_size":4096,
            "is_encrypted":false,"files":{"database":12582912,"wal":20971520},
            "wal":{"committed_frames":4000,"backfilled_frames":200,"size":20971520,"growth_frames_per_s":812,"pins":[
            {"holder":{"pid":103,"in_other_pid_namespace":false,"name":"widget","is_participant":true,"liveness":"stopped"},
            "held_frames":3800,"age_s":12,"call_site":"Widget/Provider.swift:7"}]},
            "schema":{"user_version":0,"table_count":3},
            "control_block":{"path":"/data/app.sqlite-coord4","state":"usable","layout_version":4},"other_control_blocks":[],
            "participants":[\(participants.joined(separator: ","))],"unknowns":[]}
            """
    }
}
