import CFootprint
import Foundation
import Roundtable

// The same program as footprint-files, linked with all of Roundtable.

struct Score: Codable {
    var points: Int
}

struct AddPoints: OutboxCommand {
    static let name = "add-points"
    static let version = 1
    var points: Int
}

let arguments = CommandLine.arguments
if arguments.count == 4, arguments[1] == "stay", let participant = Participant(rawValue: arguments[2]) {
    try participant.stay(arguments[3])
    exit(0)
}
if arguments.count > 1 {
    let file = SnapshotFile<Score>(at: URL(fileURLWithPath: arguments[1]), as: "widget")
    guard case .value(let score, _) = try file.read(), score.points == 42 else { exit(1) }
}
if arguments.count > 2 {
    let outbox = try CommandOutbox(at: URL(fileURLWithPath: arguments[2]), as: "widget")
    try outbox.submit(AddPoints(points: 1))
}
if ProcessInfo.processInfo.environment["FOOTPRINT_MEMORY"] != nil { print(footprint_peak_memory()) }
