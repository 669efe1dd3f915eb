import CFootprint
import Foundation
import GRDB

// A widget that shares the database: it is linked with GRDB, and opens a database only when it is given one. What it costs without is measured.

struct Score: Codable {
    var points: Int
}

let arguments = CommandLine.arguments
if arguments.count == 4, arguments[1] == "stay", let participant = Participant(rawValue: arguments[2]) {
    try participant.stay(arguments[3])
    exit(0)
}
if arguments.count > 1 {
    let data = try Data(contentsOf: URL(fileURLWithPath: arguments[1]))
    guard try JSONDecoder().decode(Score.self, from: data).points == 42 else { exit(1) }
}
if arguments.count > 2 {
    let pool = try DatabasePool(path: arguments[2])
    try pool.write { db in try db.execute(sql: "UPDATE score SET points = points + 1") }
}
if ProcessInfo.processInfo.environment["FOOTPRINT_MEMORY"] != nil { print(footprint_peak_memory()) }
