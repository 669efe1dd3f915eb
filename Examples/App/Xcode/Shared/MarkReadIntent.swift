import AppIntents
import ReadingList

/// The button of the widget. The type is in the app and in the widget, and the system chooses the process: the app's, if the app runs and is
/// not suspended, otherwise the widget's.
struct MarkReadIntent: AppIntent {
    static let title: LocalizedStringResource = "Mark as Read"

    @Parameter(title: "Article") var article: Int

    init() {}
    init(article: Int64) { self.article = Int(article) }

    func perform() async throws -> some IntentResult {
        let command = MarkRead(article: Int64(article))
        if let perform = await AppProcess.perform {
            try await perform(command)
        } else {
            try WidgetModel(.ofAppGroup()).markRead(command)
        }
        return .result()
    }
}

/// What only the app can do.
enum AppProcess {
    /// Performs a command in the database. The app sets this before anything else; in the widget it stays nil.
    @MainActor static var perform: (@Sendable (MarkRead) async throws -> Void)?
}
