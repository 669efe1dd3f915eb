import Foundation

/// How a snapshot file is written and read.
public struct SnapshotFileOptions: Sendable {
    /// What a value that was written survives.
    public enum Durability: String, Sendable, CaseIterable, Codable {
        /// The death of the process, at any moment. After a power cut, the file may hold an older value, or be empty or damaged, which a reader is told.
        /// About a hundred times as fast as `full`: for what can be published again.
        case process
        /// A power cut, too: two syncs each time.
        case full
    }

    /// What a value that was written survives. `full`, unless you say otherwise.
    public var durability = Durability.full

    /// The most bytes that an encoded value may have: larger ones are not written, and not read. At least 1.
    ///
    /// 4 MiB, because a widget may use about 30 MB of memory: while a value is read, its bytes, what the decoder makes of them, and the value
    /// itself are there together, which for JSON is several times its size. What is larger than that is better asked of the database.
    public var maximumSize = 4 << 20

    #if canImport(Darwin)
        /// When the file can be read, on devices that lock. It has the class before it has its name.
        ///
        /// nil, the default: the class of the file that is replaced. A new file has that of the app's entitlement, or
        /// `.completeUntilFirstUserAuthentication`, which is the right one where a widget on the lock screen reads it.
        public var fileProtection: FileProtectionType?

        /// Whether each access is announced to `NSFileCoordinator`, and waits for others that have announced theirs.
        ///
        /// Not needed between processes that use `SnapshotFile`: a file is replaced whole, and nobody ever finds half of it. So it is off: a
        /// coordinated access waits for whoever has announced one, and a process that is suspended while it coordinates keeps all
        /// others waiting. Turn it on where somebody else presents the file, or moves it: in iCloud's containers, in folders that the
        /// user sees in the Files app, where a file presenter of your own wants to be told. Then reading may block.
        public var isCoordinated = false
    #endif

    public init() {}
}
