import CRoundtableShims
import Testing

@testable import RoundtableKernel

/// The handler of SIGBUS, and what identifies a file.
@Suite struct GuardTests {
    /// Where no handler was installed before, the guard's raises a signal again that a process has sent, because no instruction does. A fault is
    /// left to its instruction.
    @Test func faultsAreDistinguishedFromSentSignals() {
        for fault in 1...5 as ClosedRange<Int32> { #expect(rt_guard_is_fault(fault) == 1) }
        // Linux: SI_USER, SI_QUEUE, SI_TKILL, SI_KERNEL. Apple's systems: SI_USER, SI_QUEUE.
        for sent in [0, -1, -6, 0x80, 0x10001, 0x10002] as [Int32] { #expect(rt_guard_is_fault(sent) == 0) }
    }

    /// `dev_t` is signed on Apple's systems.
    @Test func negativeDevices() {
        #expect(FileIdentity.number(ofDevice: Int32(-1)) == .max)
        #expect(FileIdentity.number(ofDevice: Int32(7)) == 7)
        #expect(FileIdentity.number(ofDevice: UInt64.max) == .max)
    }
}
