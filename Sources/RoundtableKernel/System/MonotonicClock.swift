#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Nanoseconds of a clock that all processes of the machine share, and that no one sets.
package typealias Nanoseconds = UInt64

package enum MonotonicClock {
    /// Linux: `CLOCK_MONOTONIC`, as the first time namespace has it; Darwin: `CLOCK_UPTIME_RAW`, the clock behind `mach_absolute_time`.
    package static var now: Nanoseconds {
        #if canImport(Darwin)
            return clock_gettime_nsec_np(CLOCK_UPTIME_RAW)
        #else
            var time = timespec()
            clock_gettime(CLOCK_MONOTONIC, &time)
            return nanoseconds(time)
        #endif
    }

    /// The same clock, a few ms late and several times as fast to read.
    package static var approximateNow: Nanoseconds {
        #if canImport(Darwin)
            return clock_gettime_nsec_np(CLOCK_UPTIME_RAW_APPROX)
        #else
            var time = timespec()
            clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
            return nanoseconds(time)
        #endif
    }

    #if !canImport(Darwin)
        /// - parameter time: of this process's own `CLOCK_MONOTONIC`.
        static func nanoseconds(_ time: timespec) -> Nanoseconds {
            let own = UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
            return own &- UInt64(bitPattern: TimeNamespace.own.monotonic)
        }
    #endif

    /// Blocks the calling thread. A signal may end it early.
    package static func sleep(_ time: Nanoseconds) {
        var time = timespec(tv_sec: Int(time / 1_000_000_000), tv_nsec: Int(time % 1_000_000_000))
        nanosleep(&time, nil)
    }
}

extension Duration {
    /// In nanoseconds; what is negative counts as 0, what is too long as the longest time that fits.
    package var nanoseconds: Nanoseconds {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (product, overflow) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
        return overflow ? .max : product.addingSaturating(UInt64(attoseconds / 1_000_000_000))
    }
}

extension UInt64 {
    package func addingSaturating(_ other: UInt64) -> UInt64 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? .max : sum
    }

    package func subtractingSaturating(_ other: UInt64) -> UInt64 {
        self > other ? self - other : 0
    }
}
