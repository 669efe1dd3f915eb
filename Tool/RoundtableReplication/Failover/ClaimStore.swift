import Foundation
import GRDB
import RoundtableKernel
import RoundtableToolSupport

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The claims at a URL, which Litestream uploads and restores as databases of one row (rules D1 and D2). Nothing of it is confined to a
/// thread.
struct ClaimStore: Sendable {
    let litestream: LitestreamProgram
    let url: ReplicaURL
    /// Waits until a run of Litestream has ended.
    let wait: @Sendable (ProgramRun) throws -> ProgramOutput

    /// The claim of the current term; nil in term 0.
    ///
    /// - parameter known: a term that is known to have begun.
    /// - throws: `ToolError` if Litestream fails, if the claim of the known term is gone, or if a claim is not understood.
    func current(since known: ReplicaTerm = .first) throws -> TermClaim? {
        guard url.hasTerms else { return nil }
        var current: TermClaim?
        if known.number > 0 {
            // The claim of the known term may have been removed, but not that of the next one, too.
            current = try claim(ofTerm: known.number) ?? claim(ofTerm: known.number + 1)
            if current == nil {
                throw ToolError(
                    "\(url.shown): there is no claim of term \(known.number), which has begun: the URL leads elsewhere now, or what was there is gone. Check the URL."
                )
            }
        }
        while let next = try claim(ofTerm: (current?.term.number ?? 0) + 1) { current = next }
        return current
    }

    /// - returns: nil when there is none.
    func claim(ofTerm number: UInt64) throws -> TermClaim? {
        try inTemporaryFolder { staging in
            let folder = staging.path
            let request = RestoreRequest(url: url.place(ofClaim: number), at: nil, output: "\(folder)/claim")
            // The first upload counts (rule D3): later ones are later transactions.
            let first = ["-txid", UInt64(1).digits]
            let arguments = request.arguments(isPlan: false)
            let run = try litestream.start(
                arguments.dropLast() + first + arguments.suffix(1),
                configuration: request.configuration
            )
            let failure = try wait(run).litestreamFailure?.replacingOccurrences(of: folder, with: "…")
            if let failure, RestoreFailure.isNothingFound(failure) { return nil }
            if let failure, !RestoreFailure.isDamage(failure) { throw ClaimFailure(failure, of: url) }
            guard failure == nil, let claim = try? read(request.output), claim.term.number == number else {
                throw ToolError(
                    """
                    \(url.place(ofClaim: number).shown): the claim of term \(number) is damaged, or of a newer version of Roundtable\
                    \(failure.map { " (\(url.redacting($0)))" } ?? ""). If it is damaged, remove it: the machine that has made it uploads it again \
                    while it replicates, and otherwise, 'roundtable promote' takes that term.
                    """
                )
            }
            return claim
        }
    }

    /// Uploads a claim, unless there is one of the same term.
    func upload(_ claim: TermClaim) throws {
        try exclusively {
            if try self.claim(ofTerm: claim.term.number) == nil { try put(claim) }
        }
    }

    /// Runs `body` while no other process on this machine uploads a claim into the same folder, so that the second process finds the claim of
    /// the first. Other kinds of places have no such lock.
    func exclusively(_ body: () throws -> Void) throws {
        guard let root = url.folder else { return try body() }
        try FileManager.default.createDirectory(atPath: root, withIntermediateDirectories: true)
        let place = try ReplicaFolder(at: root)
        let folder = try place.folder(at: [ReplicaURL.ownFolder])
        let path = folder.file(Self.lockName)
        try place.makeLock(Self.lockName, in: folder)
        let file = try folder.openLock(Self.lockName)
        defer { close(file) }
        let deadline = MonotonicClock.now + Self.patienceForOthers
        while lockf(file, F_TLOCK, 0) == -1 {
            guard MonotonicClock.now < deadline else {
                throw ToolError(
                    "\(path): another promotion has locked it. Wait until that one has ended, or end it, and promote again."
                )
            }
            MonotonicClock.sleep(20_000_000)
        }
        try body()
    }

    private static let lockName = "claims.lock"
    private static let patienceForOthers: Nanoseconds = 60_000_000_000

    /// Uploads a claim, which counts if none of the same term was there before.
    ///
    /// For a folder, Litestream uploads into a private one, from which the files are copied: Litestream would write by paths, and what it writes as
    /// the superuser would be the superuser's.
    func put(_ claim: TermClaim) throws {
        try inTemporaryFolder { staging in
            let path = staging.folder.file("claim")
            try write(claim, to: path)
            let copy = "replica"
            let copyPath = staging.folder.file(copy)
            let encoded = copyPath.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed) ?? copyPath
            let number = claim.term.number
            let configuration = LitestreamConfiguration(
                databasePath: path,
                replica: try url.folder == nil ? url.place(ofClaim: number) : ReplicaURL("file://\(encoded)"),
                interval: 1,
                socketPath: nil
            )
            let run = try litestream.start(
                ["replicate", "-once", "-no-expand-env", "-config", LitestreamProgram.configurationPath],
                configuration: configuration.text
            )
            if let failure = try wait(run).litestreamFailure { throw ClaimFailure(failure, of: url) }
            if let root = url.folder, let files = try staging.folder(at: copy) {
                try ReplicaFolder(at: root).copy(files, to: ReplicaURL.folders(ofClaim: number))
            }
        }
    }

    private func write(_ claim: TermClaim, to path: String) throws {
        let queue = try DatabaseQueue(path: path)
        let encoder = JSONEncoder()
        encoder.dateEncodingStrategy = .iso8601
        let text = String(decoding: try encoder.encode(claim), as: UTF8.self)
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE claim(value TEXT NOT NULL)")
            try db.execute(sql: "INSERT INTO claim VALUES (?)", arguments: [text])
        }
        try queue.close()
    }

    private func read(_ path: String) throws -> TermClaim? {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        guard let text = try queue.read({ db in try String.fetchOne(db, sql: "SELECT value FROM claim") }) else {
            return nil
        }
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        return try decoder.decode(TermClaim.self, from: Data(text.utf8))
    }

    private func inTemporaryFolder<T>(_ body: (StagingFolder) throws -> T) throws -> T {
        let folder = try StagingFolder.temporary("roundtable-\(UUID().uuidString.prefix(8))")
        defer { folder.remove() }
        return try body(folder)
    }
}

extension StagingFolder {
    /// A folder in that of temporary files.
    static func temporary(_ name: String) throws -> StagingFolder {
        try StagingFolder(name, in: OpenFolder(at: FileManager.default.temporaryDirectory.path, followingLinks: true))
    }
}

extension ClaimStore {
    /// - Parameters:
    ///   - patience: how long Litestream may take for one call.
    ///   - mustEnd: whether the wait is to end.
    init(
        _ litestream: LitestreamProgram,
        _ url: ReplicaURL,
        patience: Duration = .seconds(30),
        unless mustEnd: @escaping @Sendable () -> Bool = { false }
    ) {
        self.init(litestream: litestream, url: url) { run in
            let deadline = ContinuousClock.now + patience
            while !mustEnd(), .now < deadline {
                if let output = try run.wait(upTo: 100) { return output }
            }
            throw ToolError(
                "\(url.shown): the claims cannot be read within \(patience). Check the network and the URL's host."
            )
        }
    }
}

/// Litestream cannot read or upload claims.
struct ClaimFailure: Error, CustomStringConvertible {
    let problem: LitestreamProblem
    let description: String

    init(_ failure: String, of url: ReplicaURL) {
        problem = LitestreamProblem(message: failure, of: url)
        description = RestoreFailure.error(failure, from: url, into: "the temporary folder").description
    }
}

/// The places of a database's states, from the current term down (rule D7).
struct TermPlaces {
    private let store: ClaimStore
    private(set) var term: ReplicaTerm

    init(_ store: ClaimStore, from current: TermClaim?) {
        self.store = store
        term = current?.term ?? .first
    }

    var place: ReplicaURL { store.url.place(of: term) }

    /// Continues with the next lower term.
    ///
    /// - returns: false when there is none.
    mutating func descend() throws -> Bool {
        guard term.number > 0 else { return false }
        if term.number == 1 {
            term = .first
            return true
        }
        guard let claim = try store.claim(ofTerm: term.number - 1) else {
            throw ToolError(
                """
                \(store.url.shown): there is no claim of term \(term.number - 1), only later ones. Restore the objects, and exclude the folder \
                'roundtable' from rules that delete old objects.
                """
            )
        }
        term = claim.term
        return true
    }
}
