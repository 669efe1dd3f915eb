import Foundation

/// Measures times against bounds, and repeats the measurement if other work disturbed it.
///
/// Other programs, and other machines on the same processors, can only make a wait longer. So a trial whose bounds do not hold is
/// repeated, up to three trials in all, but only if the system itself reports a disturbance (see `MachineWitness`). On an otherwise
/// idle machine, the first trial counts. All other expectations of a trial count in each trial.
///
/// A machine may be busy all the time. Nothing was measured if all trials were disturbed and the delay of a thread that only sleeps
/// explains the excess. That is neither a pass nor a failure: ``NotMeasured``.
package final class TimedTrial {
    private struct Excess {
        let value: Double
        let bound: Double
        let text: String
    }

    private var excesses: [Excess] = []
    package var violations: [String] { excesses.map(\.text) }
    /// The factor by which late wake-ups add up, because a waiter is woken by a participant that had to be woken, too.
    private static let hands = 4.0

    private init() {}

    /// - parameter value: the measured time, in milliseconds, as is the bound.
    package func expect(_ what: String, _ value: Double, atMost bound: Double) {
        // NaN violates every bound.
        guard !(value <= bound) else { return }
        excesses.append(Excess(value: value, bound: bound, text: "\(what): \(value) ms, the bound is \(bound)"))
    }

    /// Whether the disturbance explains every violation.
    private func isExplained(by disturbance: Disturbance) -> Bool {
        excesses.allSatisfy { $0.value <= $0.bound + Self.hands * disturbance.longestOversleep }
    }

    /// All trials were disturbed, so that nothing was measured.
    package struct NotMeasured: Error, CustomStringConvertible {
        package let violations: [String]
        package let disturbance: Disturbance

        package var description: String {
            "not measured: \(violations) in the last trial, while \(disturbance). Repeat it on a machine that is less busy"
        }
    }

    /// - returns: the bounds that did not hold in the trial that counts; empty when all of them held.
    /// - throws: ``NotMeasured``, and the errors of `body`.
    package static func run(_ body: (TimedTrial) throws -> Void) throws -> [String] {
        try run(
            watching: {
                let witness = try MachineWitness()
                return witness.end
            },
            body
        )
    }

    /// - parameter watch: begins to watch the machine, and returns the function that ends the watch.
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

/// The other work on this machine while a test measured time.
package struct Disturbance: CustomStringConvertible {
    /// The processor time per second that was used by other programs, the system's own work, and other machines on the same processors
    /// ("steal"). nil where the system does not report it.
    package let coresUsedByOthers: Double?
    /// The longest delay of the wake-ups of a thread that only sleeps, in milliseconds.
    package let longestOversleep: Double

    package init(coresUsedByOthers: Double?, longestOversleep: Double) {
        self.coresUsedByOthers = coresUsedByOthers
        self.longestOversleep = longestOversleep
    }

    /// Whether the disturbance counts. The limits are small compared with the use of a second program, and large compared with an idle
    /// machine.
    package var isNoticeable: Bool { coresUsedByOthers ?? 0 >= 0.1 || longestOversleep >= 5 }

    package var description: String {
        let cores = coresUsedByOthers.map { String(format: "others used %.2f cores, ", $0) } ?? ""
        return cores + String(format: "a sleeper woke up to %.1f ms late", longestOversleep)
    }
}

/// Watches the machine from its creation to `end`: the processor times of the system, and the delays of a thread that only sleeps.
/// Children that were started meanwhile must have been reaped before `end`; otherwise, their work counts as that of other programs.
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

    /// The time that all processors spent on anything but idling and waiting: the first line of `/proc/stat` (proc(5)).
    private static func busySeconds() throws -> Double? {
        #if os(Linux)
            let line = try String(contentsOfFile: "/proc/stat", encoding: .utf8).prefix { $0 != "\n" }
            let ticks = line.split(separator: " ").dropFirst().compactMap { Double($0) }
            guard ticks.count >= 8 else { throw TestKitError("/proc/stat begins with \(line)") }
            // The fields are user, nice, system, idle, iowait, irq, softirq and steal. The fourth and the fifth are subtracted.
            let busy = ticks[..<8].reduce(0, +) - ticks[3] - ticks[4]
            return busy / Double(sysconf(Int32(_SC_CLK_TCK)))
        #else
            return nil
        #endif
    }

    /// The processor time of this process and of its reaped children. 0 where `busySeconds` is nil.
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
