import Foundation
import RoundtableFiles
import RoundtableKernel

/// Why a process that reports in a file does not do its work. The file has the code; the sentences are those of the program that reads it.
package protocol ReportCause: RawRepresentable<String>, Sendable {
    /// What is wrong, as a part of a sentence.
    var what: String { get }
    /// What to do about it, as a sentence without its full stop.
    var advice: String { get }
}

extension ReportCause {
    /// What is wrong, as a part of a sentence.
    ///
    /// - parameter detail: what is known beside the cause.
    package func text(_ detail: String?) -> String { detail.map { "\(what) (\($0))" } ?? what }
}

/// What a process that works for a database or an outbox writes into a file again and again. Whoever may write the file's folder can put
/// another file in its place, so what it says in words is a claim.
package protocol ProcessReport: Codable, Sendable {
    associatedtype Cause: ReportCause

    /// What is wrong; nil when nothing is.
    var problem: String? { get set }
    /// What to do about the problem.
    var advice: String? { get set }
    /// ``Cause`` as the file has it. A later version may add one.
    var causeName: String? { get set }
    /// What the file says in words beside the cause.
    var detail: String? { get set }
    /// The user whose file the report is; nil if that is not known, or if it was not read from a file.
    var reporter: FileOwner? { get set }

    func advice(for cause: Cause) -> String
}

extension ProcessReport {
    package func advice(for cause: Cause) -> String { cause.advice }

    package var cause: Cause? { causeName.flatMap(Cause.init) }

    /// Says what is wrong, or that nothing is.
    package mutating func set(_ cause: Cause?, detail: String?) {
        (causeName, self.detail) = (cause?.rawValue, detail)
        (problem, advice) = (cause?.text(detail), cause.map { advice(for: $0) })
    }

    /// What the file is to hold: codes and facts. Sentences and advice are those of the program that reads it.
    package var forFile: Self {
        var report = self
        (report.problem, report.advice) = (nil, nil)
        return report
    }

    /// The report as this process believes it: it composes the sentences itself, and quotes what the file says in words.
    package func quoted(of owner: FileOwner?) -> Self {
        var report = self
        report.reporter = owner
        report.causeName = cause?.rawValue
        report.detail = detail?.claim
        // Earlier versions wrote the sentences into the file.
        let said = (detail ?? problem).map { "the report says: \"\($0.claim)\"" }
        report.problem = cause?.text(said) ?? said
        report.advice = cause.map { advice(for: $0) }
        return report
    }
}

extension SnapshotFile {
    /// The value and the owner of the file; nil when the file cannot be read.
    package func readWithOwner() -> (value: Value, owner: FileOwner?)? {
        let (reading, owner) = FileOwner.reading({ try? System.statusOfLink(at: url.path) }) { try? read() }
        guard case .value(let value, _)? = reading else { return nil }
        return (value, owner)
    }
}

extension FileOwner? {
    /// Whose file it is, as a part of a sentence.
    package var asFile: String { map { "a file of \($0)" } ?? "a file that was replaced meanwhile" }

    /// That a report says it, as a sentence after others; empty for a report that was not read from a file.
    func source(_ file: String) -> String { self == nil ? "" : " \(file) says so, \(asFile)." }
}
