import Foundation

/// Measures times against bounds, anew when the machine was busy with something else meanwhile.
///
/// Other programs, and other machines on the same processors, can only add to a wait. So a trial whose bounds do not hold
/// is repeated, three in all, but only when the system itself tells of a disturbance (see `MachineWitness`): on a machine
/// that was ours alone, the first trial counts. Whatever else a trial expects counts in each of them.
///
/// A machine may be busy all the time. If all trials were disturbed, and what is beyond the bounds is no more than what a mere sleeper lost explains,
/// nothing was measured, which is neither a pass nor a failure: ``NotMeasured``.
package final class TimedTrial {
    private struct Excess {
        let value: Double
        let bound: Double
        let text: String
    }

    private var excesses: [Excess] = []
    package var violations: [String] { excesses.map(\.text) }
    /// Who waits for a turn is woken after the one before, who had to be woken, too.
    private static let hands = 4.0

    private init() {}

    /// - parameter value: in milliseconds, as the bound.
    package func expect(_ what: String, _ value: Double, atMost bound: Double) {
        // Not a number is no time.
        guard !(value <= bound) else { return }
        excesses.append(Excess(value: value, bound: bound, text: "\(what): \(value) ms, the bound is \(bound)"))
    }

    /// Whether the machine explains all that is beyond the bounds.
    private func isExplained(by disturbance: Disturbance) -> Bool {
        excesses.allSatisfy { $0.value <= $0.bound + Self.hands * disturbance.longestOversleep }
    }

    /// The machine was never quiet enough.
    package struct NotMeasured: Error, CustomStringConvertible {
        package let violations: [String]
        package let disturbance: Disturbance

        package var description: String {
            "not measured: \(violations) in the last trial, while \(disturbance). Repeat it on a machine that is less busy"
        }
    }

    /// - returns: the bounds that did not hold in the trial that counts; none when all is well.
    /// - throws: ``NotMeasured``; what `body` throws.
    package static func run(_ body: (TimedTrial) throws -> Void) throws -> [String] {
        try run(
            watching: {
                let witness = try MachineWitness()
                return witness.end
            },
            body
        )
    }

    /// - parameter watch: begins to watch the machine, and answers what ends it.
    package static func run(
        attempts: Int = 3,
        watching watch: () throws -> () -> Disturbance,
        _ body: (TimedTrial) throws -> Void
    ) throws -> [String] {
        precondition(attempts > 0)
        for attempt in 1... {
            let trial = TimedTrial()
            let end = try watch()
            try body(trial)
            let disturbance = end()
            guard !trial.violations.isEmpty else { return [] }
            print("trial \(attempt) of \(attempts): \(trial.violations); \(disturbance)")
            if !disturbance.isNoticeable { return trial.violations }
            guard attempt == attempts else { continue }
            guard trial.isExplained(by: disturbance) else { return trial.violations }
            throw NotMeasured(violations: trial.violations, disturbance: disturbance)
        }
        return []
    }
}

/// What others did on this machine while a test measured time.
package struct Disturbance: CustomStringConvertible {
    /// How much processor time others used per second: other programs, the system's own work, and other machines on the
    /// same processors ("steal"). nil where the system does not tell.
    package let coresUsedByOthers: Double?
    /// By how much a thread that only sleeps woke too late, at worst, in milliseconds.
    package let longestOversleep: Double

    package init(coresUsedByOthers: Double?, longestOversleep: Double) {
        self.coresUsedByOthers = coresUsedByOthers
        self.longestOversleep = longestOversleep
    }

    /// Small beside what a second program takes, and large beside what an idle machine shows.
    package var isNoticeable: Bool { coresUsedByOthers ?? 0 >= 0.1 || longestOversleep >= 5 }

    package var description: String {
        let cores = coresUsedByOthers.map { String(format: "others used %.2f cores, ", $0) } ?? ""
        return cores + String(format: "a sleeper woke up to %.1f ms late", longestOversleep)
    }
}

/// Watches the machine from when it is made to `end`: the processors' books, and a thread that wants nothing but to wake
/// on time. Children that were started meanwhile must have been waited for at the end; else their work counts as others'.
private final class MachineWitness: @unchecked Sendable {
    private let began = ContinuousClock.now
    private let busy: Double?
    private let own = MachineWitness.ownSeconds
    private let lock = NSLock()
    private var isOver = false
    private var longest = 0.0
    private let hasEnded = DispatchSemaphore(value: 0)

    init() throws {
        busy = try Self.busySeconds()
        Thread.detachNewThread { [self] in
            while !lock.withLock({ isOver }) {
                let slept = ContinuousClock.now
                usleep(2000)
                let late = (ContinuousClock.now - slept) / .milliseconds(1) - 2
                lock.withLock { longest = max(longest, late) }
            }
            hasEnded.signal()
        }
    }

    func end() -> Disturbance {
        lock.withLock { isOver = true }
        hasEnded.wait()
        var cores: Double?
        if let busy, let now = try? Self.busySeconds() {
            let elapsed = (ContinuousClock.now - began) / .seconds(1)
            cores = max(0, now - busy - (Self.ownSeconds - own)) / elapsed
        }
        return Disturbance(coresUsedByOthers: cores, longestOversleep: longest)
    }

    /// What all processors spent on anything but idling and waiting: the first line of `/proc/stat` (proc(5)).
    private static func busySeconds() throws -> Double? {
        #if os(Linux)
            let line = try String(contentsOfFile: "/proc/stat", encoding: .utf8).prefix { $0 != "\n" }
            let ticks = line.split(separator: " ").dropFirst().compactMap { Double($0) }
            guard ticks.count >= 8 else { throw TestKitError("/proc/stat begins with \(line)") }
            // All of user, nice, system, idle, iowait, irq, softirq, steal but the fourth and fifth.
            let busy = ticks[..<8].reduce(0, +) - ticks[3] - ticks[4]
            return busy / Double(sysconf(Int32(_SC_CLK_TCK)))
        #else
            return nil
        #endif
    }

    /// Of this process, and of its children that were waited for. 0 where `busySeconds` tells nothing.
    private static var ownSeconds: Double {
        #if os(Linux)
            [RUSAGE_SELF, RUSAGE_CHILDREN].reduce(0) { sum, who in
                var usage = rusage()
                getrusage(Int32(truncatingIfNeeded: who.rawValue), &usage)
                return [usage.ru_utime, usage.ru_stime].reduce(sum) {
                    $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1e6
                }
            }
        #else
            0
        #endif
    }
}
