import Observation
import ReadingList
import ReadingListStore

/// What the list shows: the articles, as they change by the app, the widget's button and the share extension.
@MainActor @Observable final class ReadingListModel {
    private(set) var articles: [Article] = []
    private(set) var message: String?

    /// Runs until its task is cancelled. While the app is suspended, nothing arrives; afterwards, all that has changed arrives as one value.
    func follow() async {
        do {
            for try await articles in try await AppStore.shared.store().values() { self.articles = articles }
        } catch is CancellationError {
        } catch {
            message = "\(error)"
        }
    }

    func markRead(_ article: Article) {
        guard let id = article.id else { return }
        Task {
            do {
                try await AppStore.shared.store().perform(MarkRead(article: id))
            } catch {
                message = "\(error)"
            }
        }
    }
}
