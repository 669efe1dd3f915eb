import Dispatch
import Foundation
import RoundtableKernel
import Testing

/// What is to run on a thread of its own also runs if the process can have no more threads.
@Suite struct DetachedThreadTests {
    @Test(arguments: [false, true]) func startOrQueue(hasNoThread: Bool) {
        let ended = DispatchSemaphore(value: 0)
        System.withFaults(hasNoThread ? [Fault(.thread, errno: EAGAIN)] : []) {
            #expect(DetachedThread.start {} == !hasNoThread)
            DetachedThread.startOrQueue { ended.signal() }
        }
        #expect(ended.wait(timeout: .now() + 60) == .success)
    }
}
