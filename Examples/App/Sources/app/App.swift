import Foundation
import ReadingList
import ReadingListStore
import Roundtable
import RoundtableTestKit

// app FOLDER   plays the app: opens the database, and reads what its user does from its input: list, add URL, read ID

@main
struct App {
    static func main() async throws {
        guard CommandLine.arguments.count == 2 else {
            print("usage: app FOLDER")
            exit(64)
        }
        // On iOS, the library follows UIKit's notifications by itself. Here, two things suspend the app: Ctrl-Z, and the suspension
        // police, if one judges this process. Both must be connected before the database is opened.
        #if os(Linux)
            try SuspensionSubject.connectSharedDatabases()
        #endif
        try SharedDatabase.suspendAllOnTerminalStop()

        let folder = URL(fileURLWithPath: CommandLine.arguments[1])
        var options = SharedDatabase.Options()
        options.eventLog = .closure { event in
            FileHandle.standardError.write(Data("\(event.severity) \(event.category): \(event)\n".utf8))
        }
        let store = try await ArticleStore.open(
            at: folder.appendingPathComponent("app/readinglist.sqlite"),
            sharing: SharedFiles(in: folder.appendingPathComponent("group")),
            options: options
        )
        say("The app runs. Type: list, add URL, read ID. End it with Ctrl-D.")
        for await line in input() {
            do {
                try await run(line.split(separator: " ").map(String.init), store)
            } catch {
                say("error: \(error)")
            }
        }
        try store.close()
        say("The app has ended.")
    }

    private static func run(_ words: [String], _ store: ArticleStore) async throws {
        switch (words.first, words.dropFirst().first) {
        case ("list", nil):
            let articles = try await store.articles()
            for article in articles { say("\(article.id ?? 0)  \(article.isRead ? "✓" : " ")  \(article.name)") }
            say("\(articles.count) articles")
        case ("add", let text?):
            guard let url = URL(string: text) else { return say("not a URL") }
            try await store.perform(AddLink(url: url))
            say("added")
        case ("read", let text?):
            guard let id = Int64(text) else { return say("not a number") }
            try await store.perform(MarkRead(article: id))
            say("read")
        default: say("list, add URL, read ID")
        }
    }

    /// Prints a line. `print` would keep it back if the output is a pipe.
    private static func say(_ text: String) { FileHandle.standardOutput.write(Data("\(text)\n".utf8)) }

    /// The lines of the standard input. They are read in a thread of their own, because reading blocks.
    private static func input() -> AsyncStream<String> {
        let (lines, continuation) = AsyncStream.makeStream(of: String.self)
        Thread.detachNewThread {
            while let line = readLine() { continuation.yield(line) }
            continuation.finish()
        }
        return lines
    }
}
