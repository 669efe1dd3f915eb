import Foundation
import ReadingList
import ReadingListStore

/// The store of this process, which opens when it is needed first.
@MainActor final class AppStore {
    static let shared = AppStore()
    private var opening: Task<ArticleStore, any Error>?

    /// - throws: the error of opening; the next call tries again.
    func store() async throws -> ArticleStore {
        let opening =
            opening ?? Task { try await ArticleStore.open(at: Self.databaseURL(), sharing: .ofAppGroup()) }
        self.opening = opening
        do {
            return try await opening.value
        } catch {
            if self.opening == opening { self.opening = nil }
            throw error
        }
    }

    /// In the app's own container, because no other process opens the database: iOS kills an app for its locks in shared containers only.
    private static func databaseURL() throws -> URL {
        try FileManager.default.url(
            for: .applicationSupportDirectory,
            in: .userDomainMask,
            appropriateFor: nil,
            create: true
        ).appendingPathComponent("ReadingList/readinglist.sqlite")
    }
}
