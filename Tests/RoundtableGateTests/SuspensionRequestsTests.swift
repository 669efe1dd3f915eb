import RoundtableTestBasics
import Testing

@testable import RoundtableGate

/// Which requests close a gate (rule F1): all combinations.
@Suite struct SuspensionRequestsTests {
    @Test func whatClosesTheGate() {
        var counts = [0, 0]
        for bits in 0..<64 {
            func has(_ bit: Int) -> Bool { bits >> bit & 1 == 1 }
            var requests = SuspensionRequests()
            requests.own.isSuspended = has(0)
            requests.process.isSuspended = has(1)
            if has(2) { requests.own.protections = [1: .init(name: "own", isBacked: true)] }
            if has(3) { requests.process.protections = [1: .init(name: "process", isBacked: true)] }
            requests.isStopping = has(4)
            requests.isExpired = has(5)

            let isProtected = has(2) || has(3)
            let isClosed: Bool =
                if has(4) || has(5) {
                    true
                } else if has(0) {
                    // A protected access of the process does not open a database that is suspended by itself.
                    !has(2)
                } else {
                    has(1) && !isProtected
                }
            #expect(requests.isClosed == isClosed, "\(requests)")
            counts[isClosed ? 1 : 0] += 1
        }
        #expect(counts == [11, 53])
    }
}
