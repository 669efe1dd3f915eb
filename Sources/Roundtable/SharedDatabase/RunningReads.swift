import RoundtableKernel

/// The reads of one participant that have begun and not ended, of which its slot shows the oldest (rule O2). Confined to
/// the lock of the `ReaderPool`.
struct RunningReads {
    private struct Running {
        let reader: ObjectIdentifier
        let read: OldestRead
        let site: CallSite?
    }

    /// As they began: the first is the oldest.
    private var running: [Running] = []
    /// The oldest of the snapshots'.
    private var snapshot: (read: OldestRead, site: CallSite?)?
    private var sign: ReadSign

    init(of seat: Seat, capacity: Int) {
        sign = ReadSign(of: seat)
        running.reserveCapacity(capacity)
    }

    /// Before the transaction begins: what it will see may be committed a little later.
    mutating func begin(_ reader: ReaderConnection, at site: CallSite?) {
        // Of a database that is not in WAL mode there is nothing to tell.
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

    private mutating func showOldest() {
        if let first = running.first, first.read.since < snapshot?.read.since ?? .max {
            sign.show(first.read, at: first.site)
        } else {
            sign.show(snapshot?.read, at: snapshot?.site)
        }
    }

    var askedToAdvance: Nanoseconds? { sign.askedToAdvance }
}
