import AppIntents
import ReadingList
import SwiftUI
import WidgetKit

@main struct ReadingListWidget: Widget {
    var body: some WidgetConfiguration {
        // The kind that the app reloads: `WidgetReloads` in ReadingListStore.
        StaticConfiguration(kind: "ReadingList", provider: Provider()) { ReadingListView(entry: $0) }
            .configurationDisplayName("Reading List")
            .description("What to read next.")
    }
}

struct ReadingListEntry: TimelineEntry {
    var date: Date
    var content: WidgetModel.Content

    /// Reads a file: there is no database in this process, and nothing to wait for.
    static func now() -> ReadingListEntry {
        let content = Result { try WidgetModel(.ofAppGroup()).content() }
        return ReadingListEntry(date: .now, content: (try? content.get()) ?? .unavailable)
    }
}

struct Provider: TimelineProvider {
    func placeholder(in context: Context) -> ReadingListEntry { ReadingListEntry(date: .now, content: .unavailable) }

    func getSnapshot(in context: Context, completion: @escaping (ReadingListEntry) -> Void) { completion(.now()) }

    func getTimeline(in context: Context, completion: @escaping (Timeline<ReadingListEntry>) -> Void) {
        // The app requests a reload when something has changed. An app that was killed has requested nothing: hence the hour.
        completion(Timeline(entries: [.now()], policy: .after(.now + 3600)))
    }
}

struct ReadingListView: View {
    let entry: ReadingListEntry

    var body: some View {
        VStack(alignment: .leading) {
            switch entry.content {
            case .articles(let articles, let unread, _):
                Text("\(unread) unread")
                ForEach(articles) { article in
                    HStack {
                        Text(article.title)
                        Spacer()
                        Button("Read", intent: MarkReadIntent(article: article.id))
                    }
                }
            case .openTheApp: Text("Open the app first.")
            case .unavailable: Text("Reading List")
            }
        }
        .containerBackground(for: .widget) { Color.clear }
    }
}
