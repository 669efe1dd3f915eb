import Foundation
import GRDB
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore
@testable import RoundtableDelivery
@testable import RoundtableDerived
@testable import RoundtableFiles
@testable import RoundtableGate

/// The lines of events: one line each, with the path, the author, and what to do; and without a value of the user's.
@Suite struct EventTextTests {
    /// These values must be in no line.
    private static let secret = "hunter2"

    private struct Leak: Error, CustomStringConvertible {
        var description: String { EventTextTests.secret }
    }

    private static func line(_ event: any ReportedEvent) throws -> SharedDatabase.Event {
        let stamped = StampedEvent(date: Date(), event: event)
        return try #require(SharedDatabase.Event(stamped, path: "/x/db.sqlite", author: "app"))
    }

    private static var command: CommandFile {
        CommandFile(
            id: UUID(),
            kind: OutboxCommandKind(name: "add-entry", version: 2),
            sender: "widget",
            time: 1_000_000_000,
            payload: Data(secret.utf8)
        )
    }

    /// Errors whose descriptions hold values.
    private static let errors: [any Error] = [
        Leak(),
        OutboxRefusal(secret),
        DatabaseError(resultCode: .SQLITE_CONSTRAINT_TRIGGER, message: secret),
        DatabaseError(resultCode: .SQLITE_ERROR, message: "fts5: syntax error near \"\(secret)\""),
        DatabaseError(resultCode: .SQLITE_ABORT, message: secret),
        DatabaseError(
            resultCode: .SQLITE_BUSY,
            message: "locked",
            sql: "INSERT INTO t VALUES ('\(secret)')",
            arguments: [secret],
            publicStatementArguments: true
        ),
        DerivedTableError.notDerived(
            path: "/x",
            name: "sums",
            table: "item",
            after: secret,
            upTo: secret,
            reason: secret
        ),
        EncryptionError.keyUnavailable(path: "/x", underlying: Leak()),
        EncryptionError.saltUnavailable(path: "/x", store: "store", underlying: Leak()),
        EncryptionError.invalidKey(path: "/x", reason: secret),
        SnapshotFileError.encodingFailed(path: "/x/state", reason: secret),
        OutboxError.decidedBefore(path: "/x", id: UUID(), outcome: .setAside(.refused, error: secret)),
        CollectionError.undecodable(collection: "c", key: secret, part: .value, reason: secret),
        EncodingError.invalidValue(secret, .init(codingPath: [], debugDescription: secret)),
        NSError(domain: "domain", code: 5, userInfo: [NSLocalizedDescriptionKey: secret]),
    ]

    /// Each event that holds an error is written with each of these errors, and so is the dead letter, which holds the text of an error.
    @Test func noLineHoldsAValue() throws {
        let info = OutboxCommandInfo(Self.command, attempt: 1)
        var events: [any ReportedEvent] = [
            OutboxEvent.setAside(
                DeadLetter(Self.command, at: Date(), reason: .refused, error: Self.secret, attempts: 1)
            )
        ]
        for error in Self.errors {
            #expect(
                "\(error)".contains(Self.secret) || type(of: error) == NSError.self,
                "the test would show nothing: \(error)"
            )
            events += [
                OutboxEvent.attemptFailed(info, error: error, next: Date()), OutboxEvent.failed(error),
                DerivedTableEvent.failed(error), PublishingEvent.failed(path: "/x/state", error),
                ObservationEvent.interrupted(error),
                WorkerEvent.interrupted(worker: "the worker of queue 'mail'", error),
            ]
        }
        for event in events {
            let line = try Self.line(event).description
            #expect(!line.contains(Self.secret), "\(line)")
        }
    }

    /// Texts of Roundtable or of the system are written in full.
    @Test func errorsThatAreSaid() throws {
        let full = DatabaseError(resultCode: .SQLITE_FULL, message: "/x/db.sqlite: no room")
        #expect(LoggedText.of(full) == "/x/db.sqlite: no room (SQLite error 13)")
        let unique = DatabaseError(resultCode: .SQLITE_CONSTRAINT_UNIQUE, message: "UNIQUE constraint failed: t.x")
        #expect(LoggedText.of(unique) == "constraint failed (SQLite error 2067)")
        let readOnly = OutboxError.readOnly(path: "/x")
        #expect(LoggedText.of(readOnly) == readOnly.description)
        #expect(LoggedText.of(Leak()).contains("Leak"))
        let line = try Self.line(OutboxEvent.failed(full)).description
        #expect(line == "/x/db.sqlite, 'app': applying commands has failed, and is retried: no room (SQLite error 13)")
    }

    /// All events of all features: no case is forgotten, and each line is one line.
    @Test func allEvents() throws {
        let access = SuspensionReport.Access(kind: .write, callSite: "File.swift:12", duration: .milliseconds(500))
        var health = WALHealth(committedFrames: 9000, backfilledFrames: 0, size: 1 << 20)
        health.pins = [
            .init(
                holder: .init(pid: 7, name: "wid\u{1b}get", isParticipant: true, liveness: .alive),
                heldFrames: 8000,
                age: .seconds(12),
                callSite: "File.swift:3"
            )
        ]
        var failing = health
        failing.failure = .init(code: 13, reason: "database or disk is full", age: .seconds(1))
        let info = OutboxCommandInfo(Self.command, attempt: 1)
        let letter = DeadLetter(Self.command, at: Date(), reason: .refused, error: "no", attempts: 1)
        let cases: [(any ReportedEvent, SharedDatabase.Severity, String, String)] = [
            (SchemaEvent.becameNewer(unknownMigrations: ["v\n2"]), .warning, "schema", "Update this program"),
            (SchemaEvent.isKnownAgain, .notice, "schema", "no migration any more"),
            (CheckpointEvent(health), .warning, "checkpoint", "checkpoints are held up: "),
            (CheckpointEvent(health), .warning, "checkpoint", "End that read"),
            (CheckpointEvent(failing), .error, "checkpoint", "checkpoints fail: "),
            (CheckpointEvent(failing), .error, "checkpoint", "database or disk is full"),
            (
                DerivedTableEvent.progress(DerivedTableProgress(name: "sums", done: 5, total: 10, isComplete: false)),
                .info,
                "derived-tables",
                "5 of 10 rows"
            ),
            (DerivedTableEvent.rebuilding(["sums"]), .notice, "derived-tables", "'sums'"),
            (DerivedTableEvent.failed(Leak()), .error, "derived-tables", "building derived tables has failed"),
            (OutboxEvent.attemptFailed(info, error: Leak(), next: Date()), .warning, "outbox", "try 1 of 'add-entry'"),
            (OutboxEvent.setAside(letter), .error, "outbox", "db.outbox.deadLetters()"),
            (OutboxEvent.damagedFile(path: "/x/1", reason: "cut off"), .error, "outbox", "/x/1: cut off"),
            (OutboxEvent.waitsForNewerVersion(path: "/x/1"), .warning, "outbox", "newer version of Roundtable"),
            (OutboxEvent.otherDatabase(folder: "/o", database: "/2", owner: "app"), .warning, "outbox", "outboxFolder"),
            (OutboxEvent.otherFolder(database: "/1", folder: "/o", owner: "app"), .warning, "outbox", "outboxFolder"),
            (OutboxEvent.failed(Leak()), .error, "outbox", "is retried"),
            (PublishingEvent.failed(path: "/x/state", Leak()), .error, "publishing", "/x/state is not up to date"),
            (PublishingEvent.recovered(path: "/x/state"), .notice, "publishing", "up to date again"),
            (ObservationEvent.interrupted(Leak()), .error, "observation", "observers are not notified"),
            (ObservationEvent.resumed(after: .milliseconds(2500)), .notice, "observation", "after 2.5 s"),
            (CoordinationEvent.unavailable(reason: "full"), .warning, "coordination", "full"),
            (CoordinationEvent.restored, .notice, "coordination", "fair turns again"),
            (SuspensionEvent.rolledBack(access), .warning, "suspension", "File.swift:12"),
            (SuspensionEvent.interrupted(access), .warning, "suspension", "earlier commits are kept"),
            (SuspensionEvent.held(access), .error, "suspension", "0xDEAD10CC"),
            (DroppedEvents(count: 3), .warning, "dropped", "3 events left out"),
        ]
        for (reported, severity, category, text) in cases {
            let event = try Self.line(reported)
            #expect(event.severity == severity && event.category == category, "\(event)")
            #expect(
                event.description.hasPrefix("/x/db.sqlite, 'app': ") && event.description.contains(text),
                "\(event)"
            )
            #expect(event.description == event.description.withVisibleControls)
        }
    }

    @Test func severitiesAreOrdered() {
        #expect(SharedDatabase.Severity.allCases == [.info, .notice, .warning, .error])
        #expect(SharedDatabase.Severity.allCases.sorted() == SharedDatabase.Severity.allCases)
    }
}
