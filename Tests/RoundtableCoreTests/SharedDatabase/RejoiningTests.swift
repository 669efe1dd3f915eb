import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableGate

/// Rule L4: a participant that reads or observes, and never writes, is at the control block that is in place.
@Suite(.timeLimit(.minutes(1))) struct RejoiningTests {
    private let folder: TemporaryFolder
    private let url: URL
    private let process = ProcessSuspension()

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("shared.sqlite")
    }

    private func open(
        _ author: String,
        readOnly: Bool = false,
        _ change: (inout SharedDatabase.Options) -> Void = { _ in }
    ) throws -> SharedDatabase {
        var options = SharedDatabase.Options()
        options.process = process
        change(&options)
        guard readOnly else {
            return try SharedDatabase.open(at: url, schema: SharedSchema(migrator()), as: author, options: options)
        }
        let answer: SharedDatabase.Availability = try SharedDatabase.openReadOnly(
            at: url,
            schema: SharedSchema(migrator()),
            as: author,
            options: options
        )
        guard case .available(let db) = answer else { throw CancellationError() }
        return db
    }

    private func read(_ db: SharedDatabase) throws { _ = try db.read(Player.fetchCount) }
    private func add(to db: SharedDatabase) throws {
        try db.write { db in _ = try Player(name: "A").inserted(db) }
    }

    private var blockURL: URL {
        URL(fileURLWithPath: ControlBlock.path(forDatabaseAt: url.resolvingSymlinksInPath().path))
    }

    private func removeBlock() throws { try FileManager.default.removeItem(at: blockURL) }

    private var records: [ParticipantRecord] {
        let path = url.resolvingSymlinksInPath().path
        return (try? ControlBlock.open(forDatabaseAt: path, writable: false).participants()) ?? []
    }

    private func record(_ author: String) -> ParticipantRecord? { records.first { $0.author == author } }

    /// The block is replaced by a writer that opens the database, and the participant only reads.
    @Test(arguments: [true, false]) func byReading(readOnly: Bool) async throws {
        let founder = try open("founder")
        let reader = try open("reader", readOnly: readOnly)
        try read(reader)
        try removeBlock()
        let newcomer = try open("newcomer")
        try await eventually("the reader is at the new block") {
            try read(reader)
            return record("reader") != nil
        }
        #expect(records.filter { $0.author == "reader" }.count == 1)
        #expect(record("reader")?.role == (readOnly ? .readOnly : .readWrite))
        try reader.close()
        #expect(record("reader") == nil)
        withExtendedLifetime((founder, newcomer)) {}
    }

    /// The participant neither reads nor writes: it learns of the new block with the commits that it observes.
    @Test(arguments: [true, false]) func byObserving(readOnly: Bool) async throws {
        let founder = try open("founder")
        let reader = try open("reader", readOnly: readOnly)
        let notifications = Shared(0)
        let observation = try reader.observeChanges { _ in notifications.change { $0 += 1 } }
        try removeBlock()
        try await eventually("the observer is at the new block") {
            try add(to: founder)
            return record("reader") != nil && record("founder") != nil
        }
        let count = notifications.value
        try add(to: founder)
        try await eventually("it sees all commits") { notifications.value > count }
        observation.cancel()
    }

    /// Rule O2: the read that runs meanwhile has a name again, with the moment and the line of code that it had.
    @Test(arguments: [true, false]) func aReadThatRunsIsShown(readOnly: Bool) async throws {
        let founder = try open("founder")
        let reader = try open("reader", readOnly: readOnly)
        let (begun, end) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let reading = Task.detached {
            try await reader.read { db in
                _ = try Player.fetchCount(db)
                begun.signal()
                end.wait()
            }
        }
        await onThread { begun.wait() }
        let shown = try #require(record("reader")?.oldestRead)
        let site = try #require(record("reader")?.readCallSite)
        try removeBlock()
        let newcomer = try open("newcomer")
        try await eventually("the read is shown in the new block") {
            try read(reader)
            return record("reader")?.oldestRead != nil
        }
        #expect(record("reader")?.oldestRead == shown && record("reader")?.readCallSite == site)
        end.signal()
        try await reading.value
        try await eventually("it is over") { record("reader")?.oldestRead == nil }
        withExtendedLifetime((founder, newcomer)) {}
    }

    /// The participant uses nothing but a snapshot.
    @Test func bySnapshot() async throws {
        let founder = try open("founder")
        let reader = try open("reader", readOnly: true)
        let snapshot = try reader.makeSnapshotNow()
        let shown = try #require(record("reader")?.oldestRead)
        try removeBlock()
        let newcomer = try open("newcomer")
        try await eventually("the snapshot is shown in the new block") {
            _ = try snapshot.read(Player.fetchCount)
            return record("reader")?.oldestRead == shown
        }
        try snapshot.close()
        withExtendedLifetime((founder, newcomer)) {}
    }

    /// Nothing happens behind a closed gate, where reads continue, until it opens.
    @Test(arguments: [true, false]) func whileSuspended(readOnly: Bool) async throws {
        let founder = try open("founder") { $0.process = ProcessSuspension() }
        let reader = try open("reader", readOnly: readOnly)
        #expect(await reader.suspend(deadline: .now + .seconds(30)).outcome == .released)
        let first = reader.seat.participant
        try removeBlock()
        let newcomer = try open("newcomer") { $0.process = ProcessSuspension() }
        try read(reader)
        reader.rejoining.followNow()
        // A participant that was asked to follow before the gate closed does so on this queue.
        reader.writer.queue.inDatabase { _ in }
        #expect(reader.seat.participant === first && record("reader") == nil)
        reader.resume()
        try await eventually("it is back") { record("reader") != nil }
        #expect(record("reader")?.state == .present)
        withExtendedLifetime((founder, newcomer)) {}
    }

    /// Closed databases do not return, and no database is kept open by what it has begun.
    @Test func afterTheEnd() async throws {
        let founder = try open("founder")
        var reader: SharedDatabase? = try open("reader", readOnly: true)
        weak let weakReader = reader
        reader?.rejoining.follow()
        reader = nil
        try await eventually("the reader is released") { weakReader == nil && record("reader") == nil }
        for _ in 0..<100 {
            let reader = try open("reader", readOnly: true)
            for _ in 0..<4 { reader.rejoining.follow() }
            try reader.close()
        }
        #expect(record("reader") == nil)
        withExtendedLifetime(founder) {}
    }
}
