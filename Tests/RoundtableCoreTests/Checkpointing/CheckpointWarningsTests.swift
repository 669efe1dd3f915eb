import Foundation
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

@Suite struct CheckpointWarningsTests {
    private func pin(_ pid: Int32, since: UInt64?, held: Int = 10) -> WALHealth.Pin {
        .init(
            holder: .init(pid: pid, name: "p\(pid)", isParticipant: since != nil, liveness: .alive),
            heldFrames: held,
            since: since
        )
    }

    private func health(_ frames: Int, _ pins: WALHealth.Pin...) -> WALHealth {
        WALHealth(committedFrames: frames, backfilledFrames: 0, size: 0, pins: pins)
    }

    /// One read is reported once, however often it is found; another read of the same process is reported again.
    @Test func oncePerPin() {
        let warnings = CheckpointWarnings(.none)
        #expect(warnings.isNews(health(3000, pin(1, since: 5))))
        for frames in 3000..<3010 { #expect(!warnings.isNews(health(frames, pin(1, since: 5)))) }
        #expect(warnings.isNews(health(3010, pin(1, since: 6))))
        #expect(!warnings.isNews(health(3010, pin(1, since: 6))))
        #expect(warnings.isNews(health(3020, pin(2, since: nil))))
        #expect(!warnings.isNews(health(3030, pin(2, since: nil))))
    }

    /// Each way of failing is reported once, as long as it lasts.
    @Test func failures() {
        let warnings = CheckpointWarnings(.none)
        func health(_ code: Int32?) -> WALHealth {
            var health = self.health(3000)
            health.failure = code.map { .init(code: $0, reason: "", age: .zero) }
            return health
        }
        #expect(warnings.isNews(health(nil)))
        #expect(warnings.isNews(health(13)))
        #expect(!warnings.isNews(health(13)))
        #expect(warnings.isNews(health(10)))
        #expect(!warnings.isNews(health(nil)))
        for code: Int32 in [13, 10, 13] { #expect(!warnings.isNews(health(code))) }
        warnings.recovered()
        #expect(warnings.isNews(health(13)))
    }

    /// Short reads behind the read that is most in the way are no news; once that read has ended, the next one is news.
    @Test func theOneThatHoldsMost() {
        let warnings = CheckpointWarnings(.none)
        #expect(warnings.isNews(health(3000, pin(1, since: 5, held: 2000), pin(2, since: 9))))
        for since in 10..<20 {
            #expect(!warnings.isNews(health(3000, pin(1, since: 5, held: 2000), pin(2, since: UInt64(since)))))
        }
        #expect(warnings.isNews(health(3000, pin(2, since: 19))))
        // The first read has come back in front of the other read.
        #expect(warnings.isNews(health(3000, pin(1, since: 5, held: 2000), pin(2, since: 19))))
    }

    /// Each doubling of the WAL is news. When the WAL was restarted meanwhile, the doubling counts from the restart.
    @Test func eachDoubling() {
        let warnings = CheckpointWarnings(.none)
        let reported = [3000, 5999, 6000, 11_999, 12_000, 3500, 6999, 7000].map {
            warnings.isNews(health($0, pin(1, since: 5)))
        }
        #expect(reported == [true, false, true, false, true, false, false, true])
    }

    /// The warnings also work when no process can be named.
    @Test func withoutPins() {
        let warnings = CheckpointWarnings(.none)
        #expect([3000, 3001, 6000].map { warnings.isNews(health($0)) } == [true, false, true])
    }

    /// A checkpoint that fails is another event than one that is held up.
    @Test func newsIsReported() {
        let reported = Shared<[CheckpointEvent]>([])
        let reporter = EventReporter(path: "/db", author: "app") { event in
            reported.change { $0 += (event as? CheckpointEvent).map { [$0] } ?? [] }
        }
        let warnings = CheckpointWarnings(reporter)
        for frames in [10, 15, 20, 40] { warnings.heldUp(health(frames)) }
        #expect(reported.value == [10, 20, 40].map { .heldUp(health($0)) })
        var failing = health(40)
        let failure = WALHealth.Failure(code: 13, reason: "database or disk is full", age: .zero)
        failing.failure = failure
        warnings.heldUp(failing)
        #expect(reported.value.last == .failed(failure, failing) && reported.value.count == 4)
    }
}
