import CFootprint
import Foundation
import RoundtableFiles

// A widget that never opens the database: it reads a snapshot file, and submits a command when it is given an outbox.

struct Score: Codable {
    var points: Int
}

struct AddPoints: OutboxCommand {
    static let name = "add-points"
    static let version = 1
    var points: Int
}

let arguments = CommandLine.arguments
// In a folder beside the database: it follows a snapshot file, and has an outbox open.
if arguments.count == 4, arguments[1] == "stay" {
    let file = SnapshotFile<Score>(at: URL(fileURLWithPath: arguments[3] + "-snapshot"), as: "widget")
    let outbox = try CommandOutbox(at: URL(fileURLWithPath: arguments[3] + "-outbox"), as: "widget")
    let firstValue = DispatchSemaphore(value: 0)
    let task = Task.detached {
        for await _ in file.values() { firstValue.signal() }
    }
    firstValue.wait()
    footprint_stay()
    task.cancel()
    withExtendedLifetime(outbox) {}
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
