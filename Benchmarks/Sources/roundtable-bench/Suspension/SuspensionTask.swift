#if os(Linux)
    import ArgumentParser
    import Foundation
    import Roundtable

    /// Who is put before the police.
    enum SuspensionContestant: String, Codable, CaseIterable, ExpressibleByArgument {
        case ours
        /// A pool by GRDB's guide, that knows nothing of suspensions.
        case grdb
        /// The same with `observesSuspensionNotifications`, told at the notice and when it is resumed.
        case grdbNotified = "grdb-notified"
        case sqliteC = "sqlite-c"

        /// What tables call it.
        var label: String {
            switch self {
            case .ours: "Roundtable"
            case .grdb: "GRDB"
            case .grdbNotified: "GRDB with notifications"
            case .sqliteC: "SQLite, C interface"
            }
        }
    }

    /// Whether a program gets assertions, which put its freeze off.
    enum AssertionSupply: String, Codable, CaseIterable, ExpressibleByArgument {
        /// The program does not ask.
        case off
        /// It asks, and gets them.
        case on
        /// It asks, and the police refuses.
        case refused
    }

    /// What goes on beside the writes.
    enum SuspensionActivity: String, Codable, CaseIterable, ExpressibleByArgument {
        /// Creating a database and migrating it, again and again.
        case migrations
        /// Checkpoints of every kind.
        case checkpoints
        /// Opening the database anew, reading and closing, again and again.
        case opening
        /// A history of the table, and a consumer. Ours only.
        case history
        /// A `ValueObservation`, and ours also `changes(in:)`.
        case observation
    }

    /// What one process before the police does: it writes without pause.
    struct SuspensionTask: Codable {
        var contestant = SuspensionContestant.ours
        /// Where its databases are, its journal and its count.
        var folder: String
        /// Of computing between two statements of each transaction.
        var computingMilliseconds = 0.0
        /// Of each transaction, 2 to `Ledger.stride`.
        var rows = 3
        var assertions = AssertionSupply.off
        var activity: SuspensionActivity?
        /// Of ours.
        var policy = SuspensionPolicy.writeLocks
        /// Of ours: what a write that meets the closed gate does; the default fails.
        var waits = false

        var databasePath: String { folder + "/ledger.sqlite" }
        var journalPath: String { folder + "/journal" }
        var progressPath: String { folder + "/acknowledged" }
    }
#endif
