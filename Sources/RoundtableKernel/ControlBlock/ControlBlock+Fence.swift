import Synchronization

/// Another machine may have replaced this one as the writer (rule D6).
extension ControlBlock {
    private var fence: UnsafeMutablePointer<Atomic<UInt64>> { word(at: Layout.Header.fence) }

    /// Whether participants must look for the mark of a fenced database. Any value but 0 counts, because the mark decides.
    package var mayBeFenced: Bool { fence.pointee.load(ordering: .acquiring) != 0 }

    /// Called by the supervisor of Litestream, after it has written the mark.
    package func announceFence() { fence.pointee.store(1, ordering: .releasing) }
}
