// For iOS.

import AppIntents
import BackgroundTasks
import Roundtable
import SwiftUI
import WidgetKit

struct JournalEntry: TimelineEntry {
    var date: Date
    var last: String?
    var count: Int
    var isPending: Bool
}

extension Provider {
    func placeholder(in context: Context) -> JournalEntry { JournalEntry(date: .now, count: 0, isPending: false) }
    func getSnapshot(in context: Context, completion: @escaping (JournalEntry) -> Void) {}
}

struct ContentView: View {
    var body: some View { Text("The journal") }
}

struct EntryRefused: Error {
    init(_ reason: String) {}
}

var outbox: CommandOutbox { fatalError() }
var command: AddEntry { AddEntry(text: "Tea") }
