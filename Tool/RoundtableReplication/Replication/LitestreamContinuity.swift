import Foundation
import RoundtableKernel

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Whether Litestream can be trusted to see every commit when it starts (rule Y6).
///
/// At its start, Litestream looks whether the WAL still has the last frame that it has uploaded. If it has, and the WAL was begun anew since,
/// Litestream takes the frames of the new run for all that it has missed: those which followed its frame in the old run are lost to the
/// replica, with no message (observed with 0.5.17; <https://github.com/benbjohnson/litestream/pull/761> says that not all cases are
/// recognised). If the frame is not there, it uploads the whole database.
enum LitestreamContinuity {
    /// The two salts of a run of the WAL, which tell it from the runs before (<https://www.sqlite.org/walformat.html>).
    struct Salts: Equatable {
        let first: UInt32
        let second: UInt32
    }

    /// Where Litestream has ended.
    struct Position: Equatable {
        let salts: Salts
        /// The offset in the WAL after the last frame that was uploaded.
        let end: Int64

        init(salts: Salts, end: Int64) {
            self.salts = salts
            self.end = end
        }

        /// - parameter header: the header of an LTX file, of 100 bytes (<https://github.com/superfly/ltx>).
        init?(header: [UInt8]) {
            guard header.count >= 72, header.starts(with: Array("LTX1".utf8)) else { return nil }
            let (offset, size) = (header.bigEndian(UInt64.self, at: 48), header.bigEndian(UInt64.self, at: 56))
            guard let end = Int64(exactly: offset.addingSaturating(size)) else { return nil }
            salts = Salts(
                first: header.bigEndian(UInt32.self, at: 64),
                second: header.bigEndian(UInt32.self, at: 68)
            )
            self.end = end
        }

        /// The position after the newest file of Litestream's folder beside the database; nil when there is none, or it is not understood.
        init?(besideDatabaseAt path: String) {
            let (folder, name) = ((path as NSString).deletingLastPathComponent, (path as NSString).lastPathComponent)
            let level = "\(folder)/.\(name)-litestream/ltx/0"
            // The names begin with the number of the transaction, in 16 digits.
            guard let newest = try? System.names(inFolder: level)?.filter({ $0.hasSuffix(".ltx") }).max(),
                let header = bytes(ofFileAt: "\(level)/\(newest)", at: 0, count: 100)
            else { return nil }
            self.init(header: header)
        }
    }

    /// What matters of a WAL.
    struct WAL: Equatable {
        /// The salts of its header.
        let salts: Salts
        /// The salts of the frame that ends where Litestream has ended; nil when the file is shorter.
        let remembered: Salts?
        /// Whether all of it is in the database file, so that the next commit may begin it anew.
        let isCopied: Bool
    }

    static func seesEveryCommit(after position: Position, in wal: WAL) -> Bool {
        guard wal.remembered == position.salts else { return true }
        return wal.salts == position.salts && !wal.isCopied
    }

    /// - parameter isCopied: asked if there is a WAL, and Litestream has a position in it.
    /// - returns: false, too, if it is not known where Litestream has ended: it then takes the position from the replica.
    static func seesEveryCommit(ofDatabaseAt path: String, isCopied: () -> Bool) -> Bool {
        guard let header = bytes(ofFileAt: path + "-wal", at: 0, count: 32) else { return true }
        guard let position = Position(besideDatabaseAt: path) else { return false }
        let frameSize = Int64(header.bigEndian(UInt32.self, at: 8)) + 24
        let frame = bytes(ofFileAt: path + "-wal", at: position.end - frameSize, count: 24)
        let wal = WAL(
            salts: Salts(in: header, at: 16),
            remembered: frame.map { Salts(in: $0, at: 8) },
            isCopied: isCopied()
        )
        return seesEveryCommit(after: position, in: wal)
    }

    /// nil when the file has not so many bytes there. No lock of SQLite is on the WAL's file, so it may be opened and closed.
    private static func bytes(ofFileAt path: String, at offset: Int64, count: Int) -> [UInt8]? {
        guard offset >= 0 else { return nil }
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard file != -1 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: count)
        return pread(file, &bytes, count, off_t(offset)) == count ? bytes : nil
    }
}

extension LitestreamContinuity.Salts {
    fileprivate init(in bytes: [UInt8], at offset: Int) {
        self.init(
            first: bytes.bigEndian(UInt32.self, at: offset),
            second: bytes.bigEndian(UInt32.self, at: offset + 4)
        )
    }
}

extension [UInt8] {
    fileprivate func bigEndian<Number: FixedWidthInteger>(_ type: Number.Type, at offset: Int) -> Number {
        self[offset..<offset + Number.bitWidth / 8].reduce(0) { $0 << 8 | Number($1) }
    }
}
