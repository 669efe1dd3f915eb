import Foundation
import ReadingList

// widget FOLDER            plays the widget: shows what the app has published
// widget FOLDER read ID    plays its button

@main
struct Widget {
    static func main() throws {
        let arguments = Array(CommandLine.arguments.dropFirst())
        let model: () throws -> WidgetModel = {
            try WidgetModel(SharedFiles(in: URL(fileURLWithPath: arguments[0]).appendingPathComponent("group")))
        }
        if arguments.count == 3, arguments[1] == "read", let id = Int64(arguments[2]) {
            try model().markRead(MarkRead(article: id))
        } else if arguments.count != 1 {
            print("usage: widget FOLDER [read ID]")
            exit(64)
        }
        switch try model().content() {
        case .articles(let articles, let unread, _):
            print("\(unread) unread")
            for article in articles { print("\(article.id)  \(article.title)") }
        case .openTheApp: print("Open the app first.")
        case .unavailable: print("Nothing to show.")
        }
    }
}
