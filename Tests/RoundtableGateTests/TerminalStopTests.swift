import Foundation
import RoundtableKernel
import Testing

@testable import RoundtableGate

@Suite struct TerminalStopTests {
    /// If the process can have no more threads, no signal is handled, and the caller does not wait.
    @Test func noThreadForTheSignals() {
        let result = System.withFaults([Fault(.thread, errno: EAGAIN)]) {
            TerminalStop.start(1_000_000, ProcessSuspension())
        }
        let error = #expect(throws: SystemError.self) { _ = try result.get() }
        #expect(error?.call == .thread)
    }
}
