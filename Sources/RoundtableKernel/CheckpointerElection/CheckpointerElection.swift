import Synchronization

/// The election of the checkpointer (rules K of `docs/PROTOCOL.md`). It is advice: SQLite's CKPT lock excludes concurrent
/// checkpoints.
extension Participant {
    /// The duration of a checkpointer's lease, in ns. A checkpointer that does not renew it may be dead or frozen.
    package static let checkpointLease: Nanoseconds = 250_000_000

    private var checkpointer: UnsafeMutablePointer<Atomic<UInt64>> { block.word(at: Layout.Header.checkpointer) }
    private var lease: UnsafeMutablePointer<Atomic<UInt64>> { block.word(at: Layout.Header.checkpointLease) }

    /// Acquires or renews the checkpointer's lease (rule K2).
    ///
    /// - returns: false while another participant holds the lease, or when this participant has lost its slot.
    package func takeCheckpointing(at now: Nanoseconds) -> Bool {
        guard isSeated else { return false }
        while true {
            let current = checkpointer.pointee.load(ordering: .acquiring)
            if current == ownerWord || current == 0 || isLeaseOver(at: now) {
                let swapped = checkpointer.pointee
                    .compareExchange(expected: current, desired: ownerWord, ordering: .acquiringAndReleasing)
                    .exchanged
                guard swapped else { continue }
                lease.pointee.store(now &+ Self.checkpointLease, ordering: .releasing)
                return true
            }
            return false
        }
    }

    /// Whether a checkpointer holds the lease.
    package func isCheckpointing(at now: Nanoseconds) -> Bool {
        block.isIntact && checkpointer.pointee.load(ordering: .relaxed) != 0 && !isLeaseOver(at: now)
    }

    /// Releases the lease, so that another participant may become the checkpointer.
    package func giveCheckpointingUp() {
        guard block.isIntact else { return }
        _ = checkpointer.pointee.compareExchange(expected: ownerWord, desired: 0, ordering: .acquiringAndReleasing)
    }

    private func isLeaseOver(at now: Nanoseconds) -> Bool {
        let end = lease.pointee.load(ordering: .acquiring)
        // A lease that ends later than any lease can is garbage (rule G2).
        return end <= now || end - now > Self.checkpointLease
    }
}

extension ControlBlock {
    /// The longest pause after attempts that were held up (rule K7), in ns.
    package static let longestCheckpointPause: Nanoseconds = 250_000_000

    private var pause: UnsafeMutablePointer<Atomic<UInt64>> { word(at: Layout.Header.checkpointPause) }

    /// How long to wait before the next checkpoint is worth while, in ns; 0: no time.
    package func checkpointPause(at now: Nanoseconds) -> Nanoseconds {
        let end = pause.pointee.load(ordering: .relaxed)
        guard end > now, end - now <= Self.longestCheckpointPause else { return 0 }
        return end - now
    }

    package func setCheckpointPause(until end: Nanoseconds) { pause.pointee.store(end, ordering: .relaxed) }

    /// The end of the WAL at one time. Two samples show how fast the WAL grows (rule K9).
    package struct WalSample: Equatable, Sendable {
        /// ns of the monotonic clock.
        package var time: Nanoseconds
        package var mark: WalMark

        package init(time: Nanoseconds, mark: WalMark) {
            self.time = time
            self.mark = mark
        }
    }

    /// The last sample; nil if there is none or if it is being changed.
    package var walSample: WalSample? {
        let time = word(at: Layout.Header.walSampleTime).pointee.load(ordering: .acquiring)
        guard time != 0 else { return nil }
        let mark = word(at: Layout.Header.walSampleMark).pointee.load(ordering: .acquiring)
        guard word(at: Layout.Header.walSampleTime).pointee.load(ordering: .relaxed) == time else { return nil }
        return WalSample(time: time, mark: WalMark(word: mark))
    }

    /// Stores the sample. Called by the checkpointer.
    package func setWalSample(_ sample: WalSample) {
        word(at: Layout.Header.walSampleTime).pointee.store(0, ordering: .releasing)
        word(at: Layout.Header.walSampleMark).pointee.store(sample.mark.word, ordering: .releasing)
        word(at: Layout.Header.walSampleTime).pointee.store(max(1, sample.time), ordering: .releasing)
    }

    /// A failure of SQLite in the last attempt at a checkpoint (rule K12).
    package struct CheckpointFailure: Equatable, Sendable {
        /// ns of the monotonic clock.
        package var time: Nanoseconds
        /// SQLite's extended result code.
        package var code: Int32
        /// The participant that tried; nil if it had no slot.
        package var owner: OwnerWord?

        package init(time: Nanoseconds, code: Int32, owner: OwnerWord?) {
            self.time = time
            self.code = code
            self.owner = owner
        }
    }

    /// The failure of the last attempt; nil if it did not fail or if the value is being changed.
    package var checkpointFailure: CheckpointFailure? {
        let time = word(at: Layout.Header.checkpointFailureTime).pointee.load(ordering: .acquiring)
        guard time != 0 else { return nil }
        let code = word(at: Layout.Header.checkpointFailureCode).pointee.load(ordering: .acquiring)
        let owner = word(at: Layout.Header.checkpointFailureOwner).pointee.load(ordering: .acquiring)
        guard word(at: Layout.Header.checkpointFailureTime).pointee.load(ordering: .relaxed) == time else { return nil }
        return CheckpointFailure(time: time, code: Int32(truncatingIfNeeded: code), owner: OwnerWord(rawValue: owner))
    }

    /// Stores the failure, or clears it if nil. Called by the participant that checkpoints.
    package func setCheckpointFailure(_ failure: CheckpointFailure?) {
        let time = word(at: Layout.Header.checkpointFailureTime)
        if failure == nil, time.pointee.load(ordering: .relaxed) == 0 { return }
        time.pointee.store(0, ordering: .releasing)
        guard let failure else { return }
        let code = UInt64(UInt32(bitPattern: failure.code))
        word(at: Layout.Header.checkpointFailureCode).pointee.store(code, ordering: .releasing)
        word(at: Layout.Header.checkpointFailureOwner).pointee.store(failure.owner?.rawValue ?? 0, ordering: .releasing)
        time.pointee.store(max(1, failure.time), ordering: .releasing)
    }
}
