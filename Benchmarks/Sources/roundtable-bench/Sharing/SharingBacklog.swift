import Foundation
import Roundtable

/// Senders while no owner runs, and the owner that comes then.
struct SharingBacklog: Encodable {
    let senders: Int
    let isDurable: Bool
    /// In all.
    let count: Int
    /// While the senders submitted, from the first one's beginning to the last one's end.
    let submitSeconds: Double
    let submits: SharingFigures
    /// From the beginning of its opening until that has returned; nil when nobody came.
    let catchUpSeconds: Double?

    var submitsPerSecond: Double { Double(count) / submitSeconds }
    var appliedPerSecond: Double? { catchUpSeconds.map { Double(count) / $0 } }

    static func run(senders: Int, count: Int, isDurable: Bool, catchesUp: Bool, in folder: URL) throws -> SharingBacklog
    {
        let place = try SharingPlace(in: folder, name: "backlog-\(senders)-\(isDurable)", isDurable: isDurable)
        let each = max(1, count / senders)
        var processes: [ParticipantProcess] = []
        defer { for process in processes { process.end() } }
        for number in 1...senders {
            let peer = SharingPeer.sender(place, number: number, count: each)
            processes.append(try ParticipantProcess(peer, name: "sender \(number)", in: folder))
        }
        // They begin.
        for process in processes { process.closeInput() }
        let results = try processes.map { try $0.result(SharingPeer.Result.self, within: 600) }
        let began = results.map(\.began).min() ?? 0
        let ended = results.map(\.ended).max() ?? 0
        var catchUp: Nanoseconds?
        if catchesUp {
            let owner = try ParticipantProcess(.latecomer(place), name: "latecomer", in: folder)
            processes.append(owner)
            let result = try owner.result(SharingPeer.Result.self, within: 600)
            guard result.rows == each * senders else {
                throw WrongResult(side: .ours, what: "\(result.rows) of \(each * senders) commands were applied")
            }
            catchUp = result.ended - result.began
        }
        return SharingBacklog(
            senders: senders,
            isDurable: isDurable,
            count: each * senders,
            submitSeconds: (ended - began).seconds,
            submits: SharingFigures(results.map(\.submits).merged),
            catchUpSeconds: catchUp?.seconds
        )
    }

    enum CodingKeys: String, CodingKey {
        case senders, count, submits
        case isDurable = "is_durable"
        case submitSeconds = "submit_seconds"
        case submitsPerSecond = "submits_per_s"
        case catchUpSeconds = "catch_up_seconds"
        case appliedPerSecond = "applied_per_s"
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(senders, forKey: .senders)
        try container.encode(isDurable, forKey: .isDurable)
        try container.encode(count, forKey: .count)
        try container.encode(submits, forKey: .submits)
        try container.encode(submitSeconds, forKey: .submitSeconds)
        try container.encode(submitsPerSecond, forKey: .submitsPerSecond)
        try container.encodeIfPresent(catchUpSeconds, forKey: .catchUpSeconds)
        try container.encodeIfPresent(appliedPerSecond, forKey: .appliedPerSecond)
    }
}
