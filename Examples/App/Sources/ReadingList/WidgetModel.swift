import Foundation
import RoundtableFiles
import Synchronization

/// The widget's side: what it shows, and what its button does. It opens no database.
public struct WidgetModel: Sendable {
    public enum Content: Equatable, Sendable {
        case articles([WidgetState.Article], unread: Int, published: Date)
        /// Nothing was published yet.
        case openTheApp
        /// The app is of another version, or the file is damaged: it passes when the app runs.
        case unavailable
    }

    /// Serializes the changes of `tappedArticles` in this process. No other process changes them.
    private static let changes = Mutex(())

    private let files: SharedFiles
    private let outbox: CommandOutbox

    public init(_ files: SharedFiles) throws {
        self.files = files
        outbox = try files.outbox(as: "widget")
    }

    /// Submits the command, and hides the article from now on. The command is on the disk when this returns, whether the app runs or not.
    public func markRead(_ command: MarkRead) throws {
        try Self.changes.withLock { _ in
            let submission = try outbox.submit(command)
            try save(tapped() + [TappedArticle(id: command.article, command: submission.id)])
        }
    }

    /// Reads what to show. It waits for no process.
    public func content() throws -> Content {
        try Self.changes.withLock { _ in
            let reading = try files.widgetState(as: "widget").read()
            let before = try tapped()
            let hidden = try before.compactMap { try $0.updated(published: reading.info?.date) { try outcome(of: $0) } }
            if hidden != before { try save(hidden) }

            switch reading {
            case .value(let state, let info):
                let tapped = Set(hidden.map(\.id))
                let next = state.next.filter { !tapped.contains($0.id) }
                return .articles(
                    Array(next.prefix(WidgetState.shown)),
                    unread: state.unread - (state.next.count - next.count),
                    published: info.date
                )
            case .absent: return .openTheApp
            case .tooNew, .tooOld, .damaged: return .unavailable
            }
        }
    }

    private func outcome(of command: UUID) throws -> OutboxOutcome { try outbox.outcome(of: command, within: .zero) }

    private func tapped() throws -> [TappedArticle] { try files.tappedArticles.read().value ?? [] }

    private func save(_ tapped: [TappedArticle]) throws { try files.tappedArticles.write(tapped) }
}

/// An article whose button was tapped. The snapshot may still list it: the app does not run, or has not published since.
struct TappedArticle: Codable, Equatable, Sendable {
    var id: Int64
    var command: UUID
    /// When the widget learned that the command is applied.
    var applied: Date?

    /// - Parameters:
    ///   - published: when the snapshot was written that is shown.
    ///   - outcome: asks for the outcome of a command.
    /// - returns: nil if the article is no longer hidden: the snapshot is newer than the outcome, or the command was refused.
    func updated(published: Date?, outcome: (UUID) throws -> OutboxOutcome) rethrows -> TappedArticle? {
        if let applied {
            guard let published else { return self }
            return published > applied ? nil : self
        }
        switch try outcome(command) {
        case .applied: return TappedArticle(id: id, command: command, applied: Date())
        case .waiting, .noDatabase: return self
        case .setAside, .dropped: return nil
        }
    }
}
