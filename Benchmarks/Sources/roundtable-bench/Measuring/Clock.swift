import Foundation

typealias Nanoseconds = UInt64

/// A clock that all processes of the machine share.
enum Clock {
    static var now: Nanoseconds {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    static func sleep(until end: Nanoseconds) {
        while true {
            let now = now
            guard now < end else { return }
            var pause = timespec(tv_sec: Int((end - now) / 1_000_000_000), tv_nsec: Int((end - now) % 1_000_000_000))
            nanosleep(&pause, nil)
        }
    }
}

extension Nanoseconds {
    init(seconds: Double) { self = UInt64(seconds * 1e9) }
    var milliseconds: Double { Double(self) / 1e6 }
    var microseconds: Double { Double(self) / 1e3 }
    var seconds: Double { Double(self) / 1e9 }
}
