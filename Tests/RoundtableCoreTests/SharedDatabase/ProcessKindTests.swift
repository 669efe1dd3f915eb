import Foundation
import RoundtableUnitSupport
import Testing

@testable import RoundtableCore
@testable import RoundtableGate

/// The kinds of process in the table of the guide *AppLifecycle*: which notifications they get, and what that means for a write to which the system
/// refuses an assertion (rule F5b).
@Suite struct ProcessKindTests {
    private struct Kind {
        let name: String
        var isExtension = false
        var suspendsInBackground = true
        /// The notifications that may come, in any order.
        var events: [LifecycleFollower.Event] = []
        /// Notifications that have come before.
        var past: [LifecycleFollower.Event] = []
    }

    private static let hosts: [LifecycleFollower.Event] = [
        .didEnterBackground, .willEnterForeground, .didBecomeActive,
    ]

    private static let kinds = [
        Kind(name: "app in the foreground", events: [.didBecomeActive], past: [.willEnterForeground]),
        Kind(name: "app in the background", events: [.isInBackground], past: [.didBecomeActive, .didEnterBackground]),
        Kind(
            name: "app that was launched in the background: push, background task, background URL session",
            events: [.isInBackground]
        ),
        Kind(name: "share, action or keyboard extension", isExtension: true, events: hosts),
        Kind(name: "widget, intent", isExtension: true),
        Kind(name: "notification service", isExtension: true),
        Kind(
            name: "app with `suspendsInBackground` set to false",
            suspendsInBackground: false,
            events: LifecycleFollower.Event.allCases
        ),
    ]

    /// The table: for each kind, whether a write begins that was refused an assertion.
    private static func table() throws -> [String: Bool] {
        let root = URL(fileURLWithPath: #filePath).appendingPathComponent("../../..").standardizedFileURL
        let guide = root.deletingLastPathComponent()
            .appendingPathComponent("docs/guides/AppLifecycle.md")
        let text = try String(contentsOf: guide, encoding: .utf8)
        let rows = text.split(separator: "\n").map { row in
            row.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        }
        return rows.filter { $0.count == 4 && $0[2].hasPrefix("a write ") }.reduce(into: [:]) { table, row in
            #expect(["a write begins", "a write waits or fails"].contains(row[2]))
            table[row[0]] = row[2] == "a write begins"
        }
    }

    /// Each kind does what the table says, whatever of its notifications have come.
    @Test func everyKind() throws {
        let table = try Self.table()
        #expect(Set(table.keys) == Set(Self.kinds.map(\.name)))
        for kind in Self.kinds {
            var presences: [ForegroundPresence] = []
            func walk(_ presence: ForegroundPresence, depth: Int) {
                presences.append(presence)
                guard depth > 0 else { return }
                for event in kind.events {
                    var next = presence
                    next.note(event)
                    walk(next, depth: depth - 1)
                }
            }
            var first = ForegroundPresence(isInForeground: false)
            kind.past.forEach { first.note($0) }
            walk(first, depth: 4)
            for presence in presences {
                let begins = PlatformLifecycle.givesNotices(
                    presence,
                    isExtension: kind.isExtension,
                    suspendsInBackground: kind.suspendsInBackground
                )
                #expect(begins == table[kind.name], "\(kind.name), \(presence)")
            }
        }
    }
}
