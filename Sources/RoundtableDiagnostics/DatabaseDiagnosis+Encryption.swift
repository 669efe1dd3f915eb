import Foundation
import RoundtableCore
import RoundtableKernel

extension DatabaseDiagnosis.SystemFacts {
    /// What is wrong with the salt beside an encrypted database.
    enum SaltProblem: Equatable {
        case missing
        case damaged(reason: String)
        case unreadable(reason: String)

        init?(besideDatabaseAt path: String) {
            do {
                if try FileSaltStore().load(forDatabaseAt: URL(fileURLWithPath: path)) != nil { return nil }
                self = .missing
            } catch let error as SaltFileError {
                self = .damaged(reason: error.description)
            } catch {
                self = .unreadable(reason: SystemErrorAdvice.line(error) ?? "\(error)")
            }
        }
    }
}

extension DatabaseDiagnosis {
    mutating func examineSalt(_ status: DatabaseStatus, _ facts: SystemFacts) {
        let location = status.path + FileSaltStore.suffix
        let restore = "If the salt is kept elsewhere, nothing; else restore the file from where the database came from"
        switch facts.saltProblem {
        case nil: break
        case .missing:
            find(
                .missingSalt,
                .notice,
                "The database is encrypted, and its salt is not beside it.",
                at: location,
                advice: "\(restore): without it, the database cannot be read."
            )
        case .damaged(let reason):
            find(
                .damagedSalt,
                .warning,
                "The file of the salt is damaged: \(reason).",
                at: location,
                advice: "\(restore), or from a backup: without it, the database cannot be read."
            )
        case .unreadable(let reason):
            unknowns.append("The salt: \(Self.sentence(reason))")
        }
    }

    /// The text with one full stop at its end.
    static func sentence(_ text: String) -> String { text.hasSuffix(".") ? text : text + "." }
}
