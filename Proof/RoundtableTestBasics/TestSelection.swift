import Foundation
import Testing

/// The tests that a run chooses, by the environment variable `ROUNDTABLE_TESTS`:
///
/// - `short`: all but the long ones. `make test` runs these.
/// - `part:SEED`: of the long ones as well, an eighth, or less of the longest, that the seed chooses. `.ci/run` has another seed each time.
/// - `all`, or nothing: all of them.
enum TestSelection {
    case all, short
    case part(seed: UInt64)

    static let current = TestSelection(ProcessInfo.processInfo.environment["ROUNDTABLE_TESTS"] ?? "all")

    init(_ text: String) {
        switch text {
        case "all": self = .all
        case "short": self = .short
        default:
            let seed = text.hasPrefix("part:") ? UInt64(text.dropFirst("part:".count)) : nil
            guard let seed else { fatalError("ROUNDTABLE_TESTS is 'all', 'short' or 'part:SEED', and not '\(text)'") }
            self = .part(seed: seed)
        }
    }

    /// Whether a long test is chosen: once in as many seeds in a row.
    func choosesLongTest(at place: String, oneIn parts: UInt64) -> Bool {
        switch self {
        case .all: true
        case .short: false
        case .part(let seed): Self.hash(place) % parts == seed % parts
        }
    }

    /// FNV-1a, which is the same in every process. Swift's own hash is not.
    private static func hash(_ text: String) -> UInt64 {
        let hash = text.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01b3 }
        // The last characters, digits of a line, change the lower half most.
        return hash ^ hash >> 32
    }
}

extension Trait where Self == ConditionTrait {
    /// Marks a test, or the tests of a suite, that take long because they repeat at random, or walk through all cases, what shorter tests
    /// show once.
    ///
    /// - parameter parts: a run of a part chooses one in so many of such tests. For tests of half a minute and more, it is 32.
    package static func long(oneIn parts: UInt64 = 8, _ sourceLocation: SourceLocation = #_sourceLocation) -> Self {
        .enabled(
            if: TestSelection.current.choosesLongTest(
                at: "\(sourceLocation.fileName):\(sourceLocation.line)",
                oneIn: parts
            ),
            "takes long: `make test-all` runs it, and `.ci/run` now and then",
            sourceLocation: sourceLocation
        )
    }
}

/// Whether tests do more rounds, and walk through larger worlds: `ROUNDTABLE_LONG=1`.
package let isLongRun = ProcessInfo.processInfo.environment["ROUNDTABLE_LONG"] == "1"
