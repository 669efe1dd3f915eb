import Foundation

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The other work on this machine while a test measured time.
package struct Disturbance: CustomStringConvertible {
    /// The processor time per second that was used by other programs, the system's own work, and other machines on the same processors
    /// ("steal"). nil where the system does not report it.
    package let coresUsedByOthers: Double?
    /// The longest delay of the wake-ups of a thread that only sleeps, in milliseconds.
    package let longestOversleep: Double
    /// The longest time of the syncs of a thread that only overwrites one block of a file, in milliseconds. A disk that makes this
    /// thread wait holds up every process that writes, also one that writes to a page of a mapped file.
    package let longestSync: Double

    package init(coresUsedByOthers: Double?, longestOversleep: Double, longestSync: Double) {
        self.coresUsedByOthers = coresUsedByOthers
        self.longestOversleep = longestOversleep
        self.longestSync = longestSync
    }

    package var longestDelay: Double { max(longestOversleep, longestSync) }

    /// Whether the disturbance counts. The limits are small compared with the use of a second program, and large compared with an idle
    /// machine.
    package var isNoticeable: Bool { coresUsedByOthers ?? 0 >= 0.1 || longestOversleep >= 5 || longestSync >= 20 }

    package var description: String {
        let cores = coresUsedByOthers.map { String(format: "others used %.2f cores, ", $0) } ?? ""
        let delays = String(
            format: "a sleeper woke up to %.1f ms late, a sync took up to %.1f ms",
            longestOversleep,
            longestSync
        )
        return cores + delays
    }
}

/// Watches the machine from its creation to `end`: the processor times of the system, and the delays of two threads, of which one only
/// sleeps and one only syncs a block of a file in the temporary directory.
/// Children that were started meanwhile must have been reaped before `end`; otherwise, their work counts as that of other programs.
final class MachineWitness {
    private let began = ContinuousClock.now
    private let busy: Double?
    private let own = MachineWitness.ownSeconds
    private let sleeper: DelayedThread
    private let syncer: DelayedThread

    init() throws {
        busy = try Self.busySeconds()
        let block = try SyncedBlock()
        sleeper = DelayedThread {
            usleep(2000)
            return .milliseconds(2)
        }
        syncer = DelayedThread(every: 25_000) {
            try block.sync()
            return .zero
        }
    }

    func end() throws -> Disturbance {
        let (oversleep, sync) = (sleeper.end(), syncer.end())
        var cores: Double?
        if let busy, let now = try Self.busySeconds() {
            let elapsed = (ContinuousClock.now - began) / .seconds(1)
            cores = max(0, now - busy - (Self.ownSeconds - own)) / elapsed
        }
        return Disturbance(coresUsedByOthers: cores, longestOversleep: try oversleep.get(), longestSync: try sync.get())
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

/// A thread that repeats one step, and remembers by how much the longest step was late.
private final class DelayedThread: @unchecked Sendable {
    private let lock = NSLock()
    private var isOver = false
    private var longest = 0.0
    private var failure: (any Error)?
    private let hasEnded = DispatchSemaphore(value: 0)

    /// - parameters:
    ///   - pause: the time between two steps, in microseconds.
    ///   - step: takes a step, and returns the time that it should have taken. An error ends the thread.
    init(every pause: UInt32 = 0, _ step: @escaping @Sendable () throws -> Duration) {
        Thread.detachNewThread { [self] in
            defer { hasEnded.signal() }
            while !lock.withLock({ isOver }) {
                let began = ContinuousClock.now
                do {
                    let expected = try step()
                    let late = (ContinuousClock.now - began - expected) / .milliseconds(1)
                    lock.withLock { longest = max(longest, late) }
                } catch {
                    lock.withLock { failure = error }
                    return
                }
                if pause > 0 { usleep(pause) }
            }
        }
    }

    /// - returns: the longest delay, in milliseconds.
    func end() -> Result<Double, any Error> {
        lock.withLock { isOver = true }
        hasEnded.wait()
        return lock.withLock { failure.map { .failure($0) } ?? .success(longest) }
    }
}

/// A block of a file without a name, which is overwritten and synced.
private final class SyncedBlock: Sendable {
    private let file: FileHandle

    init() throws {
        let path = FileManager.default.temporaryDirectory.appendingPathComponent("roundtable-sync-\(UUID().uuidString)")
            .path
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw TestKitError("open(\(path)): \(String(cString: strerror(errno)))") }
        file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        unlink(path)
        try sync()
    }

    func sync() throws {
        try file.seek(toOffset: 0)
        try file.write(contentsOf: Data(repeating: 1, count: 4096))
        try file.synchronize()
    }
}
