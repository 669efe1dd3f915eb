import Foundation

/// How a snapshot file is written and read.
public struct SnapshotFileOptions: Sendable {
    /// The failures that a written value survives. The default is `machine`: each write syncs twice.
    ///
    /// With `process`, writing is about a hundred times as fast. Use it for values that can be published again: after a power cut, the file
    /// may hold an older value, or be empty or damaged, which readers detect.
    public var durability = CommitDurability.machine

    /// The largest size of an encoded value, in bytes; at least 1. Larger values are neither written nor read.
    ///
    /// The default is 4 MiB, because a widget may use about 30 MB of memory. While a value is read, its bytes, the decoder's data and the
    /// value itself are in memory together; for JSON, that is several times the size of the value. Larger data should be read from the
    /// database instead.
    public var maximumSize = 4 << 20

    /// Whether the file, its folder and the folder above that may be symbolic links. They may not in an outbox, where other users could put
    /// them (rule G5a).
    package var followsLinks = true

    #if canImport(Darwin)
        /// The protection class of the file, on devices that lock. A file gets its class before it gets its name.
        ///
        /// If nil, the default, the file gets the class of the file that it replaces. A new file gets the class of the app's entitlement,
        /// or `.completeUntilFirstUserAuthentication`, which is the right one if a widget on the lock screen reads the file.
        public var fileProtection: FileProtectionType?

        /// Whether each access is announced to `NSFileCoordinator`, and waits for other announced accesses.
        ///
        /// Processes that use `SnapshotFile` do not need it, because a file is replaced whole and a reader never finds half of it. It is
        /// off by default: a coordinated access waits for all others, and a process that is suspended while it coordinates blocks all
        /// others. Turn it on where another program presents or moves the file: in iCloud's containers, in folders that the user sees in
        /// the Files app, or where a file presenter of your own is to be notified. Then reading may block.
        public var isCoordinated = false
    #endif

    public init() {}
}
