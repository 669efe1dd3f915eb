import Foundation
import RoundtableKernel

/// The operations in which every system call is made to fail, and the process is killed at every one.
package enum SweepOperation: String, Codable, Sendable, CaseIterable {
    /// Opens a database that does not exist: creates and migrates it.
    case create
    case open
    /// Opens a database that needs two more migrations.
    case migrate
    case write
    /// Three asynchronous writes at once.
    case writeShared
    /// Begins two observations, writes, and waits for both to notify.
    case observe
    /// A passive checkpoint.
    case checkpoint
    /// A checkpoint that truncates the WAL.
    case truncate
    /// Suspends a database whose policy is `everything`.
    case park
    /// Resumes it, and writes.
    case resume
    /// Publishes the database to a snapshot file.
    case publish
    /// Writes a snapshot file without a database.
    case writeFile
    case submit
    /// Opens the database as the owner of the outbox, which applies three commands.
    case drain
    /// Writes in a database whose history is longer than it may be.
    case prune
    /// Opens a database with derived tables that must be built.
    case buildDerivedTable
    case close
}

/// What happens at one call.
package enum SweepAction: Codable, Sendable, Hashable {
    case killBefore, killAfter
    /// Half of the bytes are written before the process dies.
    case killHalf
    case errnoOnce(Int32)
    /// The call fails, and all later calls of this name do.
    case errnoForever(Int32)
    /// Half of the bytes are written, and the call returns their number.
    case short

    package var isKill: Bool {
        switch self {
        case .killBefore, .killAfter, .killHalf: true
        default: false
        }
    }
}

/// The layer at which a call is intercepted.
package enum SweepDoor: String, Codable, Sendable, CaseIterable {
    /// The preloaded library: all calls of the process that concern the folder.
    case calls
    /// `System.perform`: the calls that the kernel layer makes in the thread of the operation.
    case kernel
}

package struct SweepFault: Codable, Sendable, Hashable {
    package var door: SweepDoor
    /// The number of the call, from 0.
    package var call: Int
    /// The name of the call that was recorded at this number.
    package var name: String
    package var action: SweepAction

    package init(_ door: SweepDoor, call: Int, _ name: String, _ action: SweepAction) {
        self.name = name
        self.door = door
        self.call = call
        self.action = action
    }
}

/// One call that an operation makes.
package struct SweepCall: Codable, Sendable, Hashable {
    package var name: String
    /// The file that it concerns.
    package var role: String

    package init(name: String, role: String) {
        self.name = name
        self.role = role
    }
}

/// A step of a peer in one round of the sweep, all of them in one folder.
package struct SweepStep: Codable, Sendable {
    package enum Kind: Codable, Sendable {
        /// Makes the files that the operation starts from, and closes them.
        case prepare
        /// Gets ready for the operation.
        case ready
        /// Performs the operation without a fault. The reply has `sweep.calls`.
        case record(SweepDoor)
        /// Performs the operation with a fault. The reply's number says how often the fault was met.
        case run(SweepFault)
        /// Writes once more, without a fault. If the database is not open, opens it first.
        case recover
        /// Opens the database as another participant does, which then has it open.
        case join
        /// Writes in the database of `join`.
        case proceed
        /// Opens the database, checks all of its content, performs the operation, closes. `sweep.problems` has what is wrong.
        /// The numbers are a set of bits: the acknowledged transactions.
        case verify(acknowledged: Int)
    }

    package var kind: Kind
    package var operation: SweepOperation
    package var folder: String
    /// Where the acknowledged transactions are recorded, as a set of bits.
    package var progress: String
    /// A defect that the peer has on purpose, so that the checks can be checked.
    package var defect: SweepDefect?

    package init(
        _ kind: Kind,
        _ operation: SweepOperation,
        folder: String,
        progress: String,
        defect: SweepDefect? = nil
    ) {
        self.kind = kind
        self.operation = operation
        self.folder = folder
        self.progress = progress
        self.defect = defect
    }
}

/// Defects of a peer, each of which the sweep must find.
package enum SweepDefect: String, Codable, Sendable, CaseIterable {
    /// Acknowledges a transaction before it commits.
    case acknowledgesEarly
    /// Reports success whatever the operation throws.
    case hidesErrors
    /// Writes a transaction as two.
    case splitsTransactions
    /// Waits for ever after an error.
    case hangs
    /// Ends the process at an error.
    case traps
    /// Leaves an unfinished file behind.
    case littersFolder
    /// Ignores the notifications of an observation.
    case missesNotifications
    /// Ignores the event that an observation is interrupted, and by which a program learns why it is not notified.
    case missesEvents
    /// Changes a row behind the back of the derived tables that it has built.
    case skipsRows
    /// Deletes a change from the middle of the history.
    case prunesTooMuch
}

package struct SweepReport: Codable, Sendable {
    package var calls: [SweepCall] = []
    package var problems: [String] = []
    /// How long the first write took in `verify`, `proceed` and `recover`, in ms, with what precedes it.
    package var milliseconds: Double = 0

    package init() {}
}
