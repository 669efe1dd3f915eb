import RoundtableCore
import RoundtableFiles
import RoundtableKernel

/// The files of commands that are decided and committed. They can be removed once the WAL is on the disk, and are kept for a moment, so
/// that one sync serves many of them (rule X5). It knows neither clocks nor files.
struct DecidedFiles {
    /// The number and the bytes of decided commands at which their files are removed. Until then, they count against the limits of senders.
    static let maximumCount = 1000
    static let maximumBytes = 4 << 20
    /// The time after which files are removed in any case. A process that has submitted a command may be about to ask for its outcome, and
    /// is not to wait for the sync.
    static let time: Nanoseconds = 10_000_000

    private(set) var names: Set<CommandFileName> = []
    private var bytes = 0
    /// When the files are to be removed; nil when there are none.
    private(set) var removalTime: Nanoseconds?

    var isEmpty: Bool { names.isEmpty }

    func contains(_ name: CommandFileName) -> Bool { names.contains(name) }

    /// Whether the files have been kept for long enough.
    func isRemovalDue(at now: Nanoseconds) -> Bool { removalTime.map { $0 <= now } ?? false }

    /// Whether the files are to be removed between two batches.
    func isRemovalNeeded(at now: Nanoseconds) -> Bool {
        names.count >= Self.maximumCount || bytes >= Self.maximumBytes || isRemovalDue(at: now)
    }

    /// - parameter isOwn: whether the command was submitted under the owner's own name. No process asks for its outcome, and `perform`
    ///   submits the next one as long as the file exists.
    mutating func insert(_ name: CommandFileName, bytes: Int, isOwn: Bool, at now: Nanoseconds) {
        names.insert(name)
        self.bytes += bytes
        removalTime = min(removalTime ?? .max, isOwn ? now : now.addingSaturating(Self.time))
    }

    /// A file was removed. The number of bytes and the time stay until all are.
    mutating func remove(_ name: CommandFileName) { names.remove(name) }

    mutating func removeAll() { self = DecidedFiles() }
}
