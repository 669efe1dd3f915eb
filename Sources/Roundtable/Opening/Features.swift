import RoundtableCore
import RoundtableDelivery
import RoundtableExtensions
import RoundtableHistory

extension SharedDatabase {
    /// The features of each database, in the order in which their companions are called. This is the one place where the core meets them, so
    /// that no writer can be without them.
    static let features: [any DatabaseFeature.Type] = [
        EventsFeature.self, HistoryFeature.self, ExtensionsFeature.self, PublishingFeature.self, OutboxFeature.self,
    ]
}
