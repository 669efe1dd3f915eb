import Foundation
import GRDB
import RoundtableGate
import RoundtableKernel

extension SharedDatabase {
    /// How far the replacement of a database's content has come.
    public struct ReplacementProgress: Sendable, Equatable {
        public enum Phase: String, Sendable, Codable, CaseIterable {
            /// The source is copied to a temporary file.
            case copying
            /// The copy is checked, and migrated if it is old. This phase reports its beginning and its end.
            case checking
            /// The copy becomes the database's content, while all other writers wait.
            case replacing
        }

        public let phase: Phase
        /// How many pages of this phase are done.
        public let completedPages: Int
        public let totalPages: Int
    }

    /// Replaces the whole content of this database by that of another one, such as a backup, while all participants have it open
    /// (<doc:CopyingAndRestoring>).
    ///
    /// All participants, in this process and in others, continue: reads that run see the content that they began with, and later ones see
    /// the new one. Observers are notified that anything may have changed. Readers of the history start over.
    ///
    /// The source is copied to a temporary file, checked (`PRAGMA quick_check`), and migrated if its schema is older than this program's. Then
    /// SQLite copies it into the database within one turn and one commit. If that is interrupted, by a suspension, a full disk, or the death of
    /// the process, the database is what it was.
    ///
    /// The source is not changed. It may be in use, have a rollback journal or a `-wal` file, and come from another database of this program.
    /// Its page size and text encoding must be those of this database. Neither may be encrypted.
    ///
    /// The temporary file has the size of the source, and so has the WAL until a checkpoint has copied it. Other writers wait while the pages are
    /// written, and fail after their busy timeout as beside any long write.
    ///
    /// - Parameters:
    ///   - source: the file of the database that has the content.
    ///   - priority: how urgent the write is; nil, the default: as ``Options/priority`` says.
    ///   - whileSuspended: what the write does while the database is suspended; nil, the default: as ``Options/whileSuspended`` says.
    ///   - file: the file of the call, for errors of other processes and for `status`.
    ///   - line: the line of the call.
    ///   - progress: called after each step, on any thread. It must be quick.
    /// - throws: ``ContentReplacementError``; ``SharedDatabaseError/schemaTooNew(path:unknownMigrations:)`` if the source or the database is
    ///   newer than this program; `CancellationError`; `DatabaseError`, as other writes. In all cases, nothing was changed.
    public func replaceContent(
        with source: URL,
        priority: TurnPriority? = nil,
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        progress: @escaping @Sendable (ReplacementProgress) -> Void = { _ in }
    ) async throws {
        try checkMayReplace()
        let staged = try StagedContent(of: source, for: self, progress: progress)
        try await withTaskCancellationHandler {
            try await offThread { Result { try staged.prepare(self) } }.get()
            try await onWriter(waitingWrite(CallSite(file, line), whileSuspended, priority)) { db in
                try self.replace(db, with: staged)
            }
        } onCancel: {
            staged.cancel()
        }
        await offThread { for feature in self.features { feature.contentDidReplaceOther(in: self) } }
    }

    /// Replaces the whole content of this database by that of another one, and blocks the calling thread meanwhile. See the asynchronous
    /// form.
    ///
    /// - throws: as the asynchronous form, except for `CancellationError`.
    @_disfavoredOverload
    public func replaceContent(
        with source: URL,
        priority: TurnPriority? = nil,
        whileSuspended: WhileSuspended? = nil,
        file: StaticString = #fileID,
        line: UInt = #line,
        progress: @escaping @Sendable (ReplacementProgress) -> Void = { _ in }
    ) throws {
        try checkMayReplace()
        let staged = try StagedContent(of: source, for: self, progress: progress)
        try staged.prepare(self)
        let write = blockingWrite(CallSite(file, line), whileSuspended, priority)
        try onWriter(write, refuse: { throw $0 }) { db in try self.replace(db, with: staged) }
        for feature in features { feature.contentDidReplaceOther(in: self) }
    }

    private func checkMayReplace() throws {
        try checkOpen()
        guard role == .readWrite else {
            throw DatabaseError(
                resultCode: .SQLITE_READONLY,
                message: "\(path): is open for reading only, and its content cannot be replaced. Open it with open()"
            )
        }
    }

    /// Call it on the writer's queue, with the turn.
    private func replace(_ db: Database, with staged: StagedContent) throws {
        try staged.checkCancellation()
        try writer.detectOtherCommits(db)
        try writer.admitWrite()
        try staged.queue.inDatabase { source in
            try checkFormat(db, source, staged.source)
            try writer.replaceContent(db, with: source) { completed, total in
                try staged.checkCancellation()
                staged.report(.replacing, completed, of: total)
            }
        }
    }

    /// Checks what SQLite cannot change in a database in WAL mode.
    private func checkFormat(_ db: Database, _ source: Database, _ sourcePath: String) throws {
        func size(_ db: Database) throws -> Int { try Int.fetchOne(db, sql: "PRAGMA main.page_size") ?? 0 }
        func encoding(_ db: Database) throws -> String { try String.fetchOne(db, sql: "PRAGMA main.encoding") ?? "" }
        let (own, other) = (try size(db), try size(source))
        if own != other {
            throw ContentReplacementError.otherPageSize(
                path: path,
                pageSize: own,
                source: sourcePath,
                sourcePageSize: other
            )
        }
        let (ownText, otherText) = (try encoding(db), try encoding(source))
        if ownText != otherText {
            throw ContentReplacementError.otherEncoding(
                path: path,
                encoding: ownText,
                source: sourcePath,
                sourceEncoding: otherText
            )
        }
    }

    var schemaCompanions: [any SchemaCompanion] { features.compactMap(\.schemaCompanion) }
}
