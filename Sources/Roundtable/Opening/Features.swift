import RoundtableCore
import RoundtableDelivery
import RoundtableDerived
import RoundtableHistory
import RoundtableRoles

extension SharedDatabase {
    /// The features of each database, in the order in which their companions are called. This is the one place where the core meets them, so
    /// that no writer can be without them.
    static let features: [any DatabaseFeature.Type] = [
        EventsFeature.self, HistoryFeature.self, DerivedTablesFeature.self, PublishingFeature.self, OutboxFeature.self,
        RolesFeature.self,
    ]
}
