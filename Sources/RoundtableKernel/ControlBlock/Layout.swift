/// The layout of the control block. The tables in `docs/PROTOCOL.md` (B, P) specify which participant writes each field.
///
/// Version log:
/// - 1 (2026-11): first layout.
/// - 2 (2026-11): change ring and table dictionary; long-lived reads are shown in the slot.
/// - 3 (2026-11): the checkpointer; the slot shows any read, with its line of code.
/// - 4 (2026-11): the version is part of the file's name; a lock per slot, and whether the owner holds it; times in the clock of the first
///   time namespace; the folder whose commands the owner applies. Later in version 4: the lease of another program's checkpoints, the word of
///   fences, the stamps of files, whether the owner refuses its own writes, and questions with their answers. All of them were zeros before.
package enum Layout {
    package static let version: UInt32 = 4
    /// The ASCII text "RNDTABLE" as a little-endian word.
    package static let magic: UInt64 = 0x454C_4241_5444_4E52

    package static let headerSize = 4096
    package static let slotSize = 384
    package static let slotCount = 256
    static let tables = headerSize + slotSize * slotCount
    static let tableSize = 128
    static let tableCount = 256
    static let ring = tables + tableSize * tableCount
    static let recordSize = 128
    package static let recordCount = 1024
    package static let fileSize = ring + recordSize * recordCount

    /// Offsets in the header.
    package enum Header {
        static let magic = 0
        static let version = 8
        static let headerSize = 12
        static let slotSize = 16
        static let slotCount = 20
        static let fileSize = 24
        static let checksum = 32
        static let turn = 128
        static let nextTicket = 256
        static let waitingBits = 384
        static let nextIncarnation = 512
        /// The first of the four counters of the queue (``ControlBlock/Counter``).
        static let grants = 640
        static let queueCleared = 768
        static let lastRecord = 896
        static let news = 1024
        /// Added in version 4. Participants that do not know it never answer (rule P16).
        static let questions = 1028
        static let tablesInUse = 1152
        static let checkpointer = 1280
        static let checkpointLease = 1288
        static let checkpointPause = 1296
        /// Added in version 4. Participants that do not know it checkpoint as before, which does no harm (rule K13).
        static let externalCheckpoints = 1304
        /// Added in version 4. Participants that do not know it go on writing (rule D6).
        static let fence = 1312
        static let walSampleTime = 1408
        static let walSampleMark = 1416
        static let checkpointFailureTime = 1424
        static let checkpointFailureCode = 1432
        static let checkpointFailureOwner = 1440
        /// The first of the four counters of checkpoints.
        static let checkpoints = 1536
    }

    /// Offsets in a slot.
    package enum Slot {
        static let owner = 0
        static let description = 24
        static let ticket = 32
        static let wakeWord = 48
        static let answered = 52
        static let author = 96
        static let authorSize = 48
        static let callSite = 144
        static let callSiteSize = 96
        static let readCallSite = 256
    }

    /// Offsets in a slot of plain numbers.
    package enum SlotNumber: Int, CaseIterable {
        case startTime = 8
        case namespace = 16
        /// ns of the monotonic clock.
        case waitingSince = 40
        /// ns.
        case lingerUntil = 56
        /// ns; 0: not writing.
        case writingSince = 64
        case turnsTaken = 72
        /// ns.
        case longestWait = 80
        /// Seconds since 1970.
        case joinedAt = 88
        /// ns; 0: none.
        case oldestReadSince = 240
        /// The position in the WAL where that read began: frames (32 bits) and first salt (32 bits).
        case oldestReadFrames = 248
        /// ns; 0: never.
        case askedToAdvance = 352
        /// The inode of the folder whose commands the owner applies; 0: none.
        case commandsFolder = 360
        /// The stamp of the database file that the owner has open; 0: not known. Added in version 4, valid only with `companions`.
        case databaseStamp = 368
        /// The incarnation of the owner (32 bits), and the stamp of its `-wal` and `-shm` (32 bits; 0: not known). Participants that do not
        /// know it leave a former owner's, whose incarnation is another.
        case companionStamp = 376
    }

    /// Offsets in a record of the change ring.
    enum Record {
        static let sequence = 0
        static let state = 8
        /// The fields from here to the checksum are written once, before the sequence.
        static let counter = 16
        static let owner = 24
        static let time = 32
        static let tables = 40
        static let author = 72
        static let checksum = 120
    }

    static var tableWords: Int { tableCount / 64 }
    static var waitingWords: Int { slotCount / 64 }

    /// The first bytes of a control block. They are written once, before the file gets its name.
    static func seal() -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Header.checksum)
        func put(_ value: some FixedWidthInteger, at offset: Int) {
            withUnsafeBytes(of: value.littleEndian) { bytes.replaceSubrange(offset..<offset + $0.count, with: $0) }
        }
        put(magic, at: Header.magic)
        put(version, at: Header.version)
        put(UInt32(headerSize), at: Header.headerSize)
        put(UInt32(slotSize), at: Header.slotSize)
        put(UInt32(slotCount), at: Header.slotCount)
        put(UInt64(fileSize), at: Header.fileSize)
        let sum = Checksum.fnv1a(bytes)
        return bytes + withUnsafeBytes(of: sum.littleEndian) { Array($0) }
    }
}
