import CFootprint
import Foundation

// The least that a program with Foundation takes: it decodes a value from a file, as a widget without any library of ours does.

struct Score: Codable {
    var points: Int
}

if CommandLine.arguments.count == 4, CommandLine.arguments[1] == "stay" {
    _ = try JSONDecoder().decode(Score.self, from: Data(#"{"points": 42}"#.utf8))
    footprint_stay()
    exit(0)
}
if CommandLine.arguments.count > 1 {
    let data = try Data(contentsOf: URL(fileURLWithPath: CommandLine.arguments[1]))
    guard try JSONDecoder().decode(Score.self, from: data).points == 42 else { exit(1) }
}
if ProcessInfo.processInfo.environment["FOOTPRINT_MEMORY"] != nil { print(footprint_peak_memory()) }
