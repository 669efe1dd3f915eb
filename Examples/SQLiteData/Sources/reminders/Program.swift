import Foundation
import Observation
import RemindersShared
import SQLiteData

/// `reminders FILE follow` shows the reminders whenever they change, in whatever process. `reminders FILE add TITLE` adds one.
@main enum Program {
    static func main() async throws {
        let arguments = Array(CommandLine.arguments.dropFirst())
        guard arguments.count >= 2 else {
            print("usage: reminders FILE follow | reminders FILE add TITLE")
            exit(64)
        }
        let url = URL(fileURLWithPath: arguments[0])
        let database = try reminderDatabase(at: url, as: "reminders \(arguments[1])")
        prepareDependencies { $0.defaultDatabase = database }
        switch arguments[1] {
        case "add": try await add(arguments.dropFirst(2).joined(separator: " "))
        default: try await follow()
        }
        try database.close()
    }

    private static func add(_ title: String) async throws {
        @Dependency(\.defaultDatabase) var database
        try await database.write { db in try Reminder.add(title, to: db) }
    }

    private static func follow() async throws {
        @FetchAll(Reminder.order(by: \.title)) var reminders
        // In an app, a view is drawn again instead.
        for await all in Observations({ reminders }) {
            print(all.map { "\($0.isCompleted ? "x" : "-") \($0.title)" }.joined(separator: "\n"))
            print("(\(all.count))")
        }
    }
}
