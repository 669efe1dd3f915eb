import Foundation
import RoundtableFiles

/// A link to read later. The share extension submits it, and the app applies it.
public struct AddLink: OutboxCommand {
    public static let name = "add-link"
    public static let version = 1

    public var url: URL
    public var title: String?
    public var added: Date

    public init(url: URL, title: String? = nil, added: Date = Date()) {
        self.url = url
        self.title = title
        self.added = added
    }
}

/// An article that was read. The widget's button submits it; the app's button, and the intent in the app, perform it.
public struct MarkRead: OutboxCommand {
    public static let name = "mark-read"
    public static let version = 1

    public var article: Int64
    public init(article: Int64) { self.article = article }
}
