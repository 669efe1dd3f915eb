import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

@Suite struct CheckpointResultTests {
    @Test(arguments: [
        (0, 0, "the WAL is empty"),
        (1, 1, "the only frame is in the database file"),
        (3244, 3244, "all 3,244 frames are in the database file"),
        (162, 106, "56 of 162 frames are in the WAL only"),
        (1, 0, "1 of 1 frame is in the WAL only"),
    ])
    func inWords(frames: Int, backfilled: Int, text: String) {
        #expect("\(SharedDatabase.CheckpointResult(frames: frames, backfilledFrames: backfilled))" == text)
    }
}
