import RoundtableKernel
import Synchronization

/// The first page of a mapped wal-index (<https://www.sqlite.org/walformat.html#the_wal_index_file_format>). It can be read from
/// any thread, as long as this process has a connection open that maps it and is in WAL mode.
package struct WalIndexView: @unchecked Sendable {
    // @unchecked: a constant pointer to memory that is only read, each word atomically.
    let page: UnsafeMutableRawPointer

    private func word(_ offset: Int) -> UInt32 {
        (page + offset).assumingMemoryBound(to: Atomic<UInt32>.self).pointee.load(ordering: .acquiring)
    }

    /// The number of commits to the database, by any process (field `iChange`). Each commit increments it, and a recovery of the
    /// wal-index sets it back.
    var commitCounter: UInt32 { word(8) }

    /// nil while the header is being written.
    var header: WalIndex.Header? { WalIndex.header(page) }

    /// The end of the last committed transaction. Each read needs it, so it does not wait: while the header is being written, it
    /// is the value of the first copy.
    var mark: WalMark {
        for _ in 0..<3 {
            // SQLite writes the copies in the opposite order.
            let mark = WalMark(frames: word(16), salt: word(32))
            if mark.frames == word(48 + 16), mark.salt == word(48 + 32) { return mark }
        }
        return WalMark(frames: word(16), salt: word(32))
    }

    /// How many committed frames there are, and how many of them are in the database file. nil while the header is being written.
    var frames: WalIndex.Frames? {
        let committed = word(16)
        guard committed == word(48 + 16) else { return nil }
        let backfilled = word(96)
        guard backfilled <= committed else { return nil }
        return WalIndex.Frames(committed: Int(committed), backfilled: Int(backfilled))
    }

    static let readMarkCount = 5

    /// How far into the WAL the readers may read that hold the lock of this mark. Readers that read the database file alone hold
    /// mark 0. An unused mark is the largest number.
    func readMark(_ index: Int) -> UInt32 { word(100 + 4 * index) }

    /// The state of the WAL at one moment.
    package struct State: Equatable {
        var frames: WalIndex.Frames
        package var end: WalMark
        var readMarks: [UInt32]

        /// How many of these frames a checkpoint cannot copy while a reader holds the lock of this mark.
        ///
        /// A reader that holds mark 0 reads the database file alone, so nothing may be copied there.
        func framesHeld(byReadMark index: Int) -> Int {
            index == 0 ? frames.uncopied : min(frames.uncopied, max(0, frames.committed - Int(readMarks[index])))
        }
    }

    /// nil while the header is being written, or when a process has died writing it.
    var state: State? {
        for _ in 0..<100 {
            guard let header, let frames, Int(header.mark.frames) == frames.committed else { continue }
            return State(frames: frames, end: header.mark, readMarks: (0..<Self.readMarkCount).map(readMark))
        }
        return nil
    }
}

extension WalIndex {
    /// nil when there is no wal-index. The preconditions of `frames` apply.
    var view: WalIndexView? { page.map(WalIndexView.init) }
}
