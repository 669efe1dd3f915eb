import Foundation
import RoundtableDelivery
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// The lines on standard error: which events they contain, how many there are, and how omitted events are reported. The test sets the clock.
@Suite struct LogRateLimitTests {
    private let start = ContinuousClock.now

    private func at(_ seconds: Int) -> ContinuousClock.Instant { start + .seconds(seconds) }

    @Test func someAtOnceAndThenOneAfterEachInterval() {
        var limit = LogRateLimit(burst: 3, interval: .seconds(60))
        #expect((0..<3).map { _ in limit.admit("a", at: at(0)) } == Array(repeating: .write(omitted: 0), count: 3))
        #expect(limit.admit("a", at: at(10)) == .leaveOut(summaryIn: .seconds(50)))
        #expect(limit.admit("a", at: at(20)) == .leaveOut(summaryIn: nil))
        #expect(limit.admit("b", at: at(20)) == .write(omitted: 0), "another key has its own limit")
        #expect(limit.admit("a", at: at(60)) == .write(omitted: 2))
        #expect(limit.admit("a", at: at(61)) == .leaveOut(summaryIn: .seconds(59)))
        // The limit fills again, up to the burst.
        #expect(
            (0..<3).map { _ in limit.admit("a", at: at(1000)) } == [.write(omitted: 1)]
                + Array(repeating: .write(omitted: 0), count: 2)
        )
        #expect(limit.admit("a", at: at(1000)) == .leaveOut(summaryIn: .seconds(60)))
    }

    @Test func aSummaryIfNoLineFollows() {
        var limit = LogRateLimit(burst: 1, interval: .seconds(60))
        #expect(limit.summary("a", at: at(0)) == nil)
        _ = limit.admit("a", at: at(0))
        for second in 1...5 { _ = limit.admit("a", at: at(second)) }
        #expect(limit.summary("a", at: at(59)) == nil, "no line is allowed yet")
        #expect(limit.summary("a", at: at(60)) == 5)
        #expect(limit.summary("a", at: at(120)) == nil, "it was reported")
    }

    /// A flood of a day, in all categories, writes few lines.
    @Test func aFlood() {
        var limit = LogRateLimit()
        var lines = 0
        for second in 0..<86_400 {
            for _ in 0..<3 { if case .write = limit.admit("a", at: at(second)) { lines += 1 } }
        }
        #expect((1440...1460).contains(lines), "\(lines)")
    }

    /// A process that opens many databases does not remember each forever.
    @Test func keysAreForgotten() {
        var limit = LogRateLimit()
        for number in 0..<50_000 { _ = limit.admit("\(number)", at: at(number)) }
        #expect(limit.count <= 1000)
    }

    // MARK: Lines

    /// A log with a clock that stands still until a test moves it.
    private final class World: Sendable {
        let now = Shared(ContinuousClock.now)
        let lines = Shared<[String]>([])
        let later = Shared<[@Sendable () -> Void]>([])

        var log: LineLog {
            LineLog(LogRateLimit(burst: 2), now: { self.now.value }) { time, body in
                self.later.change { $0.append(body) }
            } write: { line in
                self.lines.change { $0.append(line) }
            }
        }
    }

    private func event(_ event: any ReportedEvent, path: String = "/x/db.sqlite") throws -> SharedDatabase.Event {
        let stamped = StampedEvent(date: Date(timeIntervalSince1970: 1_800_000_000), event: event)
        return try #require(SharedDatabase.Event(stamped, path: path, author: "app"))
    }

    @Test func oneLineForEachWarningAndError() throws {
        let world = World()
        let log = world.log
        log.note(try event(CoordinationEvent.unavailable(reason: "a\nb")))
        log.note(try event(CoordinationEvent.restored))
        log.note(try event(PublishingEvent.failed(path: "/x/state", CancellationError())))
        #expect(world.lines.value.count == 2, "\(world.lines.value)")
        #expect(
            world.lines.value[0].hasPrefix(
                "2027-01-15T08:00:00Z roundtable warning coordination: /x/db.sqlite, 'app': writes without fair"
            )
        )
        #expect(
            world.lines.value[1].contains(
                "roundtable error publishing: /x/db.sqlite, 'app': the snapshot file /x/state"
            )
        )
        #expect(!world.lines.value.joined().contains("\n"))
    }

    @Test func whatIsLeftOutIsCounted() throws {
        let world = World()
        let log = world.log
        for number in 1...5 { log.note(try event(SchemaEvent.becameNewer(unknownMigrations: ["v\(number)"]))) }
        #expect(world.lines.value.count == 2 && world.later.value.count == 1)
        log.note(try event(SchemaEvent.becameNewer(unknownMigrations: []), path: "/x/other.sqlite"))
        #expect(world.lines.value.count == 3, "each database has its own limit")
        world.now.change { $0 += .seconds(61) }
        for body in world.later.value { body() }
        #expect(world.lines.value.count == 4)
        #expect(world.lines.value[3].hasSuffix("schema: /x/db.sqlite: 3 lines like this left out"))
        for body in world.later.value { body() }
        #expect(world.lines.value.count == 4, "it is reported once")
        world.now.change { $0 += .seconds(61) }
        log.note(try event(SchemaEvent.becameNewer(unknownMigrations: ["v6"])))
        log.note(try event(SchemaEvent.becameNewer(unknownMigrations: ["v7"])))
        world.now.change { $0 += .seconds(61) }
        log.note(try event(SchemaEvent.becameNewer(unknownMigrations: ["v8"])))
        #expect(
            world.lines.value.last?.hasSuffix("until then (1 line like this left out)") == true,
            "\(world.lines.value)"
        )
    }

    @Test func longLinesAreCut() throws {
        let world = World()
        let log = world.log
        let long = try event(SchemaEvent.becameNewer(unknownMigrations: (0..<10_000).map { "migration \($0)" }))
        for _ in 0..<3 { log.note(long) }
        #expect(world.lines.value[0].count < 2100 && world.lines.value[0].hasSuffix(" …"))
        // The number of lines that were left out is not cut off.
        world.now.change { $0 += .seconds(61) }
        log.note(long)
        #expect(world.lines.value.last?.hasSuffix(" … (1 line like this left out)") == true, "\(world.lines.value[2])")
    }

    /// Warnings, such as each failed attempt of a command, leave room for the error that follows.
    @Test func warningsHideNoError() throws {
        let world = World()
        let log = world.log
        for _ in 0..<50 { log.note(try event(OutboxEvent.waitsForNewerVersion(path: "/x/c"))) }
        for _ in 0..<50 { log.note(try event(OutboxEvent.failed(CancellationError()))) }
        #expect(world.lines.value.filter { $0.contains(" error ") }.count == 2, "\(world.lines.value)")
        world.now.change { $0 += .seconds(61) }
        for body in world.later.value { body() }
        #expect(world.lines.value.suffix(2).map { $0.contains(" error ") } == [false, true], "\(world.lines.value)")
    }

    @Test func pathsAreOneLine() throws {
        let world = World()
        let log = world.log
        for _ in 0..<3 { log.note(try event(CoordinationEvent.unavailable(reason: "a"), path: "/x/a\n\u{1B}b")) }
        world.now.change { $0 += .seconds(61) }
        for body in world.later.value { body() }
        #expect(world.lines.value.last?.hasSuffix("/x/a··b: 1 line like this left out") == true, "\(world.lines.value)")
    }

    #if os(Linux)
        /// A reader of standard error that has exited does not end the process.
        @Test func standardErrorIsClosed() async {
            await #expect(processExitsWith: .exitCode(7)) {
                var ends: [Int32] = [0, 0]
                #expect(pipe(&ends) == 0)
                signal(SIGPIPE, SIG_DFL)
                dup2(ends[1], STDERR_FILENO)
                close(ends[0])
                close(ends[1])
                for _ in 0..<3 { StandardError.write("a line\n") }
                var pending = sigset_t()
                sigpending(&pending)
                exit(sigismember(&pending, SIGPIPE) == 0 ? 7 : 8)
            }
        }
    #endif
}
