import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import RoundtableCore

/// How long a participant pauses after attempts at a checkpoint that failed (rule K7).
@Suite struct CheckpointPausesTests {
    /// Each pause after the first ones is twice as long as the one before, until it has reached its limit, and a success ends them.
    @Test(arguments: [CheckpointPauses.Obstacle.readers, .others, .failure, .connection])
    func pausesGrow(obstacle: CheckpointPauses.Obstacle) {
        var pauses = CheckpointPauses()
        var lengths: [Nanoseconds] = []
        for _ in 1...40 {
            pauses.lengthen(at: 0, obstacle, nil)
            lengths.append(pauses.own)
        }
        let first = CheckpointPauses.backoff.shortest
        #expect(Array(lengths.prefix(7)) == [first, first, first, 2 * first, 4 * first, 8 * first, 16 * first])
        #expect(lengths.last == CheckpointPauses.backoff.longest)
        #expect(lengths == lengths.sorted())
        #expect(pauses.isHeldUp)
        pauses.end(nil)
        #expect(!pauses.isHeldUp)
        #expect(pauses.own == first)
    }

    /// Other participants cause a pause only after as many failures as the obstacle allows, and the participant's own connection causes none.
    @Test func whichObstaclesPause() {
        for (obstacle, grace) in [
            (CheckpointPauses.Obstacle.readers, 2), (.failure, 2), (.others, 8), (.connection, nil),
        ] {
            var pauses = CheckpointPauses()
            for attempt in 1...20 {
                pauses.lengthen(at: 1000, obstacle, nil)
                #expect(pauses.isOwn(at: 1000, nil))
                #expect(
                    pauses.isShared(at: 1000, nil) == grace.map { attempt > $0 } ?? false,
                    "\(obstacle), \(attempt)"
                )
            }
        }
    }

    /// A pause ends by itself, and never lasts longer than other participants may be kept waiting.
    @Test func pausesEnd() {
        var pauses = CheckpointPauses()
        for _ in 1...40 { pauses.lengthen(at: 1000, .readers, nil) }
        #expect(pauses.isOwn(at: 1000 + ControlBlock.longestCheckpointPause - 1, nil))
        #expect(!pauses.isOwn(at: 1000 + ControlBlock.longestCheckpointPause, nil))
    }
}
