import Foundation
import RoundtableCore
import RoundtableToolSupport

/// The lines of a recording. Each is one JSON object, whose `kind` says what it is; docs/TOOL.md lists the fields.
enum RecordLine {
    static let format = 1

    /// The first line.
    struct Header: Encodable {
        var kind = "recording"
        var format = RecordLine.format
        /// Seconds since 1970, as in all lines.
        let time: Double
        let path: String
        let every: Double
        let turnsEvery: Double

        enum CodingKeys: String, CodingKey {
            case kind, format, time, path
            case every = "every_s"
            case turnsEvery = "turns_every_s"
        }
    }

    /// What the participants did in the `interval` seconds until `time`.
    struct Turns: Encodable {
        struct Participant: Encodable {
            let pid: Int32
            let author: String
            /// How many turns it has taken in this time; left out when none.
            let turns: Int?
            let hasTurn: Bool?
            let waiting: Double?
            let writing: Double?
            /// Left out when it is alive.
            let liveness: SharingProcess.Liveness?

            enum CodingKeys: String, CodingKey {
                case pid, author, turns, liveness
                case hasTurn = "has_turn"
                case waiting = "waiting_s"
                case writing = "writing_s"
            }
        }

        var kind = "turns"
        let time: Double
        let interval: Double
        /// Those that did nothing are left out.
        let participants: [Participant]

        enum CodingKeys: String, CodingKey {
            case kind, time, participants
            case interval = "interval_s"
        }
    }

    /// The whole state, as `top --json` prints it, with what takes longer to read.
    struct Sample: Encodable {
        var kind = "sample"
        let time: Double
        let top: TopJSON
        let sizes: TableSizes?
    }

    /// The database could not be looked at.
    struct Problem: Encodable {
        var kind = "problem"
        let time: Double
        let message: String
    }

    /// The time of a line; nil when it is incomplete, or no line of a recording.
    static func time(of line: [UInt8]) -> Double? {
        struct Timed: Decodable { let time: Double }
        guard line.first == UInt8(ascii: "{"), line.last == UInt8(ascii: "}") else { return nil }
        return try? JSONDecoder().decode(Timed.self, from: Data(line)).time
    }

    /// The database that a header names; nil when the line is incomplete, or no header.
    static func path(of line: Data) -> String? {
        struct Named: Decodable { let path: String }
        return try? JSONDecoder().decode(Named.self, from: line).path
    }

    static func text(_ line: some Encodable) -> String { PrintedJSON.text(line) }
}
