/// The bytes that SQLite locks (<https://www.sqlite.org/lockingv3.html>, <https://www.sqlite.org/walformat.html#wal_locks>).
enum SQLiteBytes {
    static let pending: UInt64 = 0x4000_0000
    static let reserved = pending + 1
    static let shared: ClosedRange<UInt64> = (pending + 2)...(pending + 511)

    /// This byte and the following ones are in the `-shm` file.
    static let write: UInt64 = 120
    static let checkpoint: UInt64 = 121
    static let recover: UInt64 = 122
    static let readMarks: ClosedRange<UInt64> = 123...127
    static let deadmanSwitch: UInt64 = 128

    static let walIndexSuffix = "-shm"
    /// The name of the library that locks these bytes.
    static let library = "SQLite"

    /// The names of the locks that overlap a range, such as `WRITE, CKPT`; nil when there are none.
    static func names(in bytes: ClosedRange<UInt64>, ofWalIndex isWalIndex: Bool) -> String? {
        var named: [(String, ClosedRange<UInt64>)] = [
            ("PENDING", pending...pending), ("RESERVED", reserved...reserved), ("SHARED", shared),
        ]
        if isWalIndex {
            named = [("WRITE", write...write), ("CKPT", checkpoint...checkpoint), ("RECOVER", recover...recover)]
            named += readMarks.map { ("READ\($0 - readMarks.lowerBound)", $0...$0) }
            named.append(("DMS", deadmanSwitch...deadmanSwitch))
        }
        let names = named.filter { $0.1.overlaps(bytes) }.map(\.0)
        return names.isEmpty ? nil : names.joined(separator: ", ")
    }
}
