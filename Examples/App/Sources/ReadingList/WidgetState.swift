/// What the app publishes for the widget.
public struct WidgetState: Codable, Equatable, Sendable {
    public struct Article: Codable, Equatable, Identifiable, Sendable {
        public var id: Int64
        public var title: String

        public init(id: Int64, title: String) {
            self.id = id
            self.title = title
        }
    }

    /// The widget shows three. It hides those whose button was tapped, so the app publishes more.
    public static let published = 10
    public static let shown = 3

    public var unread: Int
    /// The unread articles to read next, at most ``published``.
    public var next: [Article]

    public init(unread: Int, next: [Article]) {
        self.unread = unread
        self.next = next
    }
}
