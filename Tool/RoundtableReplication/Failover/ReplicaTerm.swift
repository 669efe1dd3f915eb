import Foundation

/// The time in which one machine is the writer of a replicated database (rules D).
struct ReplicaTerm: Codable, Equatable, Sendable {
    /// 0: before the first promotion.
    let number: UInt64
    /// Tells two promotions apart that have taken the same number; 0 in term 0.
    let token: UInt64

    static let first = ReplicaTerm(number: 0, token: 0)

    /// The next term, with a token of its own.
    var next: ReplicaTerm { ReplicaTerm(number: number + 1, token: .random(in: 1 ... .max)) }

    private var mark: StoreMark { StoreMark(sequence: number, token: token) }

    init(number: UInt64, token: UInt64) { (self.number, self.token) = (number, token) }

    init(from decoder: any Decoder) throws {
        let mark = try StoreMark(from: decoder)
        self.init(number: mark.sequence, token: mark.token)
    }

    func encode(to encoder: any Encoder) throws { try mark.encode(to: encoder) }
}

extension ReplicaTerm: CustomStringConvertible {
    /// The name of the term's folder.
    var description: String { "\(mark)" }
}

extension ReplicaURL {
    /// Whether there can be other terms than the first. The URL of NATS names a bucket, which has no folders.
    var hasTerms: Bool { scheme != "nats" }

    /// Where the database is replicated in a term (rule D1).
    func place(of term: ReplicaTerm) -> ReplicaURL {
        term.number == 0 ? self : appending("roundtable/terms/\(term)")
    }

    /// Where the claim of a term is (rule D1).
    func place(ofClaim number: UInt64) -> ReplicaURL {
        appending(Self.folders(ofClaim: number).joined(separator: "/"))
    }

    /// The folder of all that Roundtable puts below a URL.
    static let ownFolder = "roundtable"

    /// The names of the folders, from the URL down, in which the claim of a term is.
    static func folders(ofClaim number: UInt64) -> [String] { [ownFolder, "claims", number.digits] }
}

/// The promotion of a machine to be the writer (rule D1).
struct TermClaim: Codable, Equatable, Sendable {
    let term: ReplicaTerm
    /// The host name of the machine.
    let host: String
    /// The path of the database there.
    let path: String
    /// When it was promoted, by its clock, in whole seconds.
    let time: Date

    init(_ term: ReplicaTerm, ofDatabaseAt path: String) {
        self.term = term
        self.path = path
        host = ProcessInfo.processInfo.hostName
        time = Date(timeIntervalSince1970: Date().timeIntervalSince1970.rounded(.down))
    }

    /// The writer, as a part of a sentence.
    var writer: String { "\(host) (\(path)), since \(time.formatted(.iso8601))" }
}

/// What the terms at a URL say of a database (rule D5).
enum TermStanding: Equatable, Sendable {
    /// This database is the writer's.
    case writer(ReplicaTerm)
    /// It was the writer's, and another is now.
    case fenced(by: TermClaim)
    /// It never was the writer's, or is a copy, and another is.
    case stranger(to: TermClaim)

    /// - Parameters:
    ///   - own: what the record of the database says; nil when it never was the writer's.
    ///   - current: the claim of the current term; nil in term 0.
    init(of own: OwnTerm?, in current: TermClaim?) {
        guard let current else {
            self = .writer(.first)
            return
        }
        guard let own else {
            self = .stranger(to: current)
            return
        }
        guard own.term == current.term else {
            self = .fenced(by: current)
            return
        }
        self = own.isOfThisFile ? .writer(own.term) : .stranger(to: current)
    }
}
