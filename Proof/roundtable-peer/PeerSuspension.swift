import Foundation
import GRDB
import Roundtable
import RoundtableTestSupport

/// Makes the peer suspend its `SharedDatabase`s when the police is about to freeze the process.
func followPolice(takingAssertions: Bool) throws {
    #if os(Linux)
        // The police knows of no other assertions.
        SharedDatabase.suspensionAssertions = nil
        guard try SuspensionSubject.connectSharedDatabases(takingAssertions: takingAssertions) != nil else {
            throw TestKitError("there is no police to hear of suspensions from")
        }
    #else
        throw TestKitError("the police works on Linux only")
    #endif
}

/// Notifies GRDB's connections when the police is about to freeze the process. GRDB's guide on sharing a database tells apps to do
/// the same when iOS is about to suspend them.
final class PoolSuspension {
    #if os(Linux)
        private let subject: SuspensionSubject

        init() throws {
            let subject = try SuspensionSubject.connect { event in
                switch event {
                case .suspending: NotificationCenter.default.post(name: Database.suspendNotification, object: nil)
                case .resumed: NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
                case .expiring: break
                }
            }
            guard let subject else { throw TestKitError("there is no police to hear of suspensions from") }
            self.subject = subject
        }
    #else
        init() throws { throw TestKitError("the police works on Linux only") }
    #endif
}
