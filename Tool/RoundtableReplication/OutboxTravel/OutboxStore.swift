import Foundation
import RoundtableDiagnostics
import RoundtableKernel

/// The store between the machines. Each operation may fail at any point, and may have done a part of its work then.
protocol OutboxStore {
    /// The objects whose paths match one of the patterns, in which `*` stands for a part of a path, and `**` for any rest.
    func list(_ patterns: [String]) throws -> [StoreObject]
    /// Uploads files of a folder under their names.
    func upload(_ names: [String], from folder: OpenFolder, to prefix: String) throws
    func upload(_ bytes: [UInt8], as object: String) throws
    /// Downloads objects to their paths below a private folder. Those that are not there are left out.
    func download(_ objects: [String], into folder: StagingFolder) throws
    /// Objects that are not there are no error.
    func delete(_ objects: [String]) throws
}

/// What a round has found and done.
struct TravelRound: Equatable, Sendable {
    /// The commands that wait at this side.
    var waiting = 0
    /// The commands that were uploaded or handed over.
    var moved = 0
    /// The commands of which the outcome has become known.
    var decided = 0
    /// Whether there is more to do at once.
    var isBusy = false
    /// What is wrong although the round has done its work.
    var problem: TravelProblem?
}

/// What is wrong.
struct TravelProblem: Error, Equatable, Sendable {
    let cause: OutboxTravelCause
    /// What is known beside the cause, as one line.
    var detail: String?
    /// Whether trying again is of no use.
    var isFinal = false

    var what: String { cause.text(detail) }
    /// What to do about it, as one line.
    var advice: String { cause.advice }
}

/// Whether the process is to end.
protocol TravelEnding: Sendable {
    var request: TravelRequest { get }
}

enum TravelRequest: Int { case none, end, kill }
