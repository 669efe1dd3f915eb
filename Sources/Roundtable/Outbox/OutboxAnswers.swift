import Foundation
import RoundtableKernel

/// Tells those who ask what has become of commands (rule X10). The owner's side of ``OutboxQuestion``, for one thread at a time.
struct OutboxAnswers {
    private let folder: OutboxFolder
    /// Where somebody has put something else than a file in the place of a question or of its answer.
    private var notAsked: Set<UUID> = []

    init(folder: OutboxFolder) { self.folder = folder }

    /// Answers what can be answered now.
    ///
    /// - parameter ids: the commands that something was decided about; nil for whatever was asked.
    /// - throws: `SystemError`, once all others are answered; `DatabaseError`.
    mutating func give(_ database: SharedDatabase, about ids: Set<UUID>? = nil) throws {
        let all = (try folder.names(in: .questions) ?? []).compactMap { name in
            // In the spelling that its answer is looked for.
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
                // Others have asked, too.
                if error.isNoFile { notAsked.insert(id) }
                failure = failure ?? error
            }
        }
        try takeBack(outcomes, database)
        if let failure { throw failure }
    }

    /// One that was set aside may have been tried again before it was answered.
    private func takeBack(_ outcomes: [UUID: OutboxOutcome], _ database: SharedDatabase) throws {
        let provisional = outcomes.filter { if case .setAside = $0.value { true } else { false } }
        if provisional.isEmpty { return }
        let present = try Self.outcomes(of: Array(provisional.keys), database)
        for (id, outcome) in provisional where present[id] != outcome {
            OutboxQuestion(id: id, folder: folder).withdrawAnswer()
        }
    }

    private static func outcomes(of questions: [UUID], _ database: SharedDatabase) throws -> [UUID: OutboxOutcome] {
        try database.read { db in
            _ = try db.identityOfUnmovedFile()
            var outcomes: [UUID: OutboxOutcome] = [:]
            guard try OutboxTables.exist(db) else { return [:] }
            for id in questions { outcomes[id] = try OutboxTables.finalOutcome(of: id, db) }
            return outcomes
        }
    }
}
