import RoundtableKernel
import RoundtableTestBasics
import Testing

@Suite struct LatchTests {
    /// Whichever comes first, the value or the task that waits for it, and however closely one follows the other.
    @Test(.timeLimit(.minutes(1))) func theFirstValueArrives() async {
        let early = Latch<Int>()
        early.set(1)
        early.set(2)
        #expect(await early.value == 1)
        for round in 0..<500 {
            let latch = Latch<Int>()
            async let value = latch.value
            if round % 2 == 0 { await Task.yield() }
            latch.set(round)
            latch.set(-1)
            #expect(await value == round)
        }
    }
}
