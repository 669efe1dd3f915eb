import RoundtableKernel

/// The running reads of one participant. Its slot shows the oldest of them (rule O2). Confined to the lock of the `ReaderPool`.
struct RunningReads {
    private struct Running {
        let reader: ObjectIdentifier
        let read: OldestRead
        let site: CallSite?
    }

    /// The running reads in the order in which they began. The first is the oldest.
    private var running: [Running] = []
    /// The oldest read of the participant's snapshots.
    private var snapshot: (read: OldestRead, site: CallSite?)?
    private var sign: ReadSign

    init(of seat: Seat, capacity: Int) {
        sign = ReadSign(of: seat)
        running.reserveCapacity(capacity)
    }

    /// Adds a read. Call it before its transaction begins: the read may see a later commit than the recorded one.
    mutating func begin(_ reader: ReaderConnection, at site: CallSite?) {
        // There is nothing to show for a database that is not in WAL mode.
        guard let mark = reader.walIndex?.mark else { return }
        let read = OldestRead(since: MonotonicClock.approximateNow, mark: mark)
        running.append(Running(reader: ObjectIdentifier(reader), read: read, site: site))
        if running.count == 1 { showOldest() }
    }

    mutating func end(_ reader: ReaderConnection) {
        let id = ObjectIdentifier(reader)
        guard let index = running.firstIndex(where: { $0.reader == id }) else { return }
        running.remove(at: index)
        if index == 0 { showOldest() }
    }

    mutating func show(snapshot: (read: OldestRead, site: CallSite?)?) {
        self.snapshot = snapshot
        showOldest()
    }

    /// Shows the oldest read, unless the participant's present slot shows it already.
    mutating func showOldest() {
        if let first = running.first, first.read.since < snapshot?.read.since ?? .max {
            sign.show(first.read, at: first.site)
        } else {
            sign.show(snapshot?.read, at: snapshot?.site)
        }
    }

    var askedToAdvance: Nanoseconds? { sign.askedToAdvance }
}
