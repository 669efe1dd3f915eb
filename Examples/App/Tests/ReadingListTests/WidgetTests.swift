import Foundation
import RoundtableFiles
import Testing

@testable import ReadingList

/// Which articles the widget hides: those whose button was tapped, until a snapshot tells what became of them.
@Suite struct WidgetTests {
    private let tapped = TappedArticle(id: 1, command: UUID())
    private let now = Date()

    @Test func hiddenWhileTheCommandWaits() {
        #expect(tapped.updated(published: now) { _ in .waiting } == tapped)
        #expect(tapped.updated(published: nil) { _ in .noDatabase(path: "") } == tapped)
    }

    /// The snapshot may be older than the outcome: it still lists the article.
    @Test func hiddenUntilASnapshotIsNewerThanTheOutcome() throws {
        let applied = try #require(tapped.updated(published: now) { _ in .applied })
        let learned = try #require(applied.applied)
        #expect(applied.updated(published: learned - 1) { _ in .waiting } == applied)
        #expect(applied.updated(published: learned + 1) { _ in .waiting } == nil)
    }

    @Test func shownAgainWhenTheCommandIsRefused() {
        #expect(tapped.updated(published: now) { _ in .setAside(.refused, error: "") } == nil)
        #expect(tapped.updated(published: now) { _ in .dropped } == nil)
    }

    /// A fourth article takes the place of one that was tapped, although no app runs.
    @Test func theNextArticleMovesUp() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("widget-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let files = try SharedFiles(in: folder)
        let articles = (1...5).map { WidgetState.Article(id: $0, title: "\($0)") }
        let info = try files.widgetState(as: "app").write(WidgetState(unread: 9, next: articles))
        let widget = try WidgetModel(files)
        #expect(try widget.content() == .articles(Array(articles[..<3]), unread: 9, published: info.date))
        try widget.markRead(MarkRead(article: 2))
        let next = [articles[0], articles[2], articles[3]]
        #expect(try widget.content() == .articles(next, unread: 8, published: info.date))
    }
}
