import Foundation

/// How much of the machine other programs use meanwhile: figures from a busy machine are not worth much.
struct OtherLoad {
    private let busy: Double
    private let own: Double
    private let began: Nanoseconds

    /// nil where the system does not tell.
    init?() {
        guard let busy = Self.busySeconds else { return nil }
        self.busy = busy
        own = Self.ownSeconds
        began = Clock.now
    }

    /// In cores, since this was made. The system's own work for this program, such as writing its files, counts as others'.
    var cores: Double? {
        guard let busy = Self.busySeconds else { return nil }
        return max(0, busy - self.busy - (Self.ownSeconds - own)) / (Clock.now - began).seconds
    }

    /// What all processors spent on programs, the system and interrupts: the first line of `/proc/stat` (proc(5)).
    private static var busySeconds: Double? {
        #if os(Linux)
            guard let text = try? String(contentsOfFile: "/proc/stat", encoding: .utf8) else { return nil }
            let fields = text.prefix { $0 != "\n" }.split(separator: " ").dropFirst().compactMap { Double($0) }
            guard fields.count >= 8 else { return nil }
            // user, nice, system, idle, iowait, irq, softirq, steal
            let ticks = fields[0] + fields[1] + fields[2] + fields[5] + fields[6] + fields[7]
            return ticks / Double(sysconf(Int32(_SC_CLK_TCK)))
        #else
            return nil
        #endif
    }

    /// Of this process and of its children that have ended.
    private static var ownSeconds: Double {
        #if os(Linux)
            let kinds = [RUSAGE_SELF, RUSAGE_CHILDREN].map { Int32(truncatingIfNeeded: $0.rawValue) }
        #else
            let kinds = [RUSAGE_SELF, RUSAGE_CHILDREN]
        #endif
        var total = 0.0
        for who in kinds {
            var usage = rusage()
            getrusage(who, &usage)
            for time in [usage.ru_utime, usage.ru_stime] {
                total += Double(time.tv_sec) + Double(time.tv_usec) / 1e6
            }
        }
        return total
    }
}
