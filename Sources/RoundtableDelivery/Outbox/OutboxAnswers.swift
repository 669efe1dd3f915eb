import Foundation
import RoundtableCore
import RoundtableFiles
import RoundtableKernel

/// Answers the questions about the outcomes of commands (rule X10). It is the owner's side of ``OutboxQuestion``, for one thread at a time.
struct OutboxAnswers {
    private let folder: OutboxFolder
    /// The questions that are not answered, because something other than a file is in place of the question or of its answer.
    private var notAsked: Set<UUID> = []

    init(folder: OutboxFolder) { self.folder = folder }

    /// Answers the questions that can be answered now.
    ///
    /// - parameter ids: the commands that were decided; nil to answer all questions.
    /// - throws: `SystemError`, after all other questions are answered; `DatabaseError`.
    mutating func give(_ database: SharedDatabase, about ids: Set<UUID>? = nil) throws {
        let all = (try folder.names(in: .questions) ?? []).compactMap { name in
            // The name must have the spelling in which the asker looks for the answer.
            UUID(uuidString: name).flatMap { $0.uuidString == name ? $0 : nil }
        }
        notAsked.formIntersection(all)
        let questions = all.filter { !notAsked.contains($0) && ids?.contains($0) ?? true }
        if questions.isEmpty { return }
        let outcomes = try Self.outcomes(of: questions, database)
        if outcomes.isEmpty { return }
        let access = try folder.access()
        var failure: SystemError?
        for (id, outcome) in outcomes {
            do {
                try OutboxQuestion(id: id, folder: folder).answer(outcome, access)
            } catch let error as SystemError {
                // The other questions are answered nevertheless.
                if error.isMissingFile { notAsked.insert(id) }
                failure = failure ?? error
            }
        }
        try withdrawOutdated(outcomes, database)
        if let failure { throw failure }
    }

    /// Withdraws answers that no longer hold. A dead letter may have been retried before its answer was written.
    private func withdrawOutdated(_ outcomes: [UUID: OutboxOutcome], _ database: SharedDatabase) throws {
        let provisional = outcomes.filter { if case .setAside = $0.value { true } else { false } }
        if provisional.isEmpty { return }
        let present = try Self.outcomes(of: Array(provisional.keys), database)
        for (id, outcome) in provisional where present[id] != outcome {
            OutboxQuestion(id: id, folder: folder).withdrawAnswer()
        }
    }

    private static func outcomes(of questions: [UUID], _ database: SharedDatabase) throws -> [UUID: OutboxOutcome] {
        try database.read { db in
            _ = try database.identityOfFile()
            var outcomes: [UUID: OutboxOutcome] = [:]
            guard try OutboxTables.exist(db) else { return [:] }
            for id in questions { outcomes[id] = try OutboxTables.finalOutcome(of: id, db) }
            return outcomes
        }
    }
}
