import Foundation
import Roundtable
import RoundtableJobs
import Testing

/// Errors have two texts: the description, for developers of a program, and short sentences for the people who use it.
@Suite struct ErrorTextTests {
    private static let path = "/srv/app.sqlite"

    private static let errors: [any LocalizedError & CustomStringConvertible & Sendable] = [
        SharedDatabaseError.schemaTooNew(path: path, unknownMigrations: ["v2"]),
        SharedDatabaseError.networkFileSystem(path: path, name: "nfs"),
        SharedDatabaseError.readOnlyConfiguration(path: path),
        SharedDatabaseError.shuttingDown(path: path),
        DatabaseLocationError.noSuchFile(path: path),
        DatabaseLocationError.unavailable(path: path, .notCreated),
        DatabaseLocationError.unavailable(path: path, .schemaTooNew(unknownMigrations: ["v2"])),
        DatabaseLocationError.noWalIndex(path: path),
        EncryptionError.wrongKey(path: path),
        EncryptionError.missingSalt(path: path, store: "file"),
        EncryptionError.unknownHeader(path: path),
        ContentReplacementError.encrypted(path: path),
        RawHandleError.readOnly(path: path),
        RawHandleError.detached(path: path),
        DerivedTableError.building(path: path, name: "inbox", done: 1, total: 2),
        DerivedTableError.newerFormat(path: path, format: 2),
        DerivedTableError.notRegistered(path: path, name: "inbox"),
        HistoryError.notEnabled(path: path),
        OutboxError.file(path: path, .diskFull),
        OutboxError.full(path: path, count: 3, bytes: 4, limit: .count(3)),
        OutboxError.readOnly(path: path),
        SnapshotFileError.file(path: path, .protected),
        SnapshotFileError.foreignFile(path: path),
        CollectionError.undecodable(collection: path, key: "1", part: .value, reason: "no JSON"),
        JobError.unencodable(queue: path, reason: "no JSON"),
    ]

    @Test func textsForPeopleAreSentencesWithoutNames() throws {
        for error in Self.errors {
            #expect(error.description.contains(Self.path), "\(error)")
            let texts = [error.errorDescription, error.failureReason, error.recoverySuggestion].compactMap(\.self)
            #expect(error.errorDescription == texts.first && error.localizedDescription == texts.first)
            for text in texts {
                #expect(text.first?.isUppercase == true && text.hasSuffix(".") && text.count < 70, "\(text)")
                #expect(!text.contains { $0.isNumber || "/'`_()".contains($0) }, "\(text)")
            }
        }
    }

    @Test func whatPeopleCanDoIsSaid() {
        let full = OutboxError.file(path: Self.path, .diskFull)
        #expect(full.failureReason == "The disk is full." && full.recoverySuggestion == "Free space, and try again.")
        let locked = SnapshotFileError.file(path: Self.path, .protected)
        #expect(locked.failureReason == "The device is locked.")
        #expect(locked.recoverySuggestion == "Unlock the device, and try again.")
        for error: any LocalizedError in [
            SharedDatabaseError.schemaTooNew(path: Self.path, unknownMigrations: ["v2"]),
            DatabaseLocationError.unavailable(path: Self.path, .schemaTooNew(unknownMigrations: ["v2"])),
            DerivedTableError.newerFormat(path: Self.path, format: 2),
            HistoryError.newerFormat(path: Self.path, format: 2),
            OutboxError.newerFormat(path: Self.path, format: 2),
        ] {
            #expect(error.errorDescription == "The database was changed by a newer version of this program.")
            #expect(error.recoverySuggestion == "Update this program.")
        }
    }
}
