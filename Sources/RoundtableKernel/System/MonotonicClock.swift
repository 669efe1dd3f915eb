#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A duration in nanoseconds, or a time in nanoseconds of the monotonic clock, which all processes of the machine share.
package typealias Nanoseconds = UInt64

package enum MonotonicClock {
    /// The present time. Linux: `CLOCK_MONOTONIC` in the first time namespace; Darwin: `CLOCK_UPTIME_RAW`, the clock behind
    /// `mach_absolute_time`.
    package static var now: Nanoseconds {
        #if canImport(Darwin)
            return clock_gettime_nsec_np(CLOCK_UPTIME_RAW)
        #else
            var time = timespec()
            clock_gettime(CLOCK_MONOTONIC, &time)
            return nanoseconds(time)
        #endif
    }

    /// The time of the same clock, up to a few ms late. It is several times as fast to read.
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
        /// - parameter time: a time of `CLOCK_MONOTONIC` in this process's time namespace.
        static func nanoseconds(_ time: timespec) -> Nanoseconds {
            let own = UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
            return own &- UInt64(bitPattern: TimeNamespace.own.monotonic)
        }
    #endif

    /// Blocks the calling thread for a duration. A signal may end the sleep early.
    package static func sleep(_ time: Nanoseconds) {
        var time = timespec(tv_sec: Int(time / 1_000_000_000), tv_nsec: Int(time % 1_000_000_000))
        nanosleep(&time, nil)
    }
}

extension Duration {
    package var inSeconds: Double { self / .seconds(1) }

    /// A duration of seconds. One that is no number is zero, and one that is too long is cut off at 30 million years.
    package init(inSeconds seconds: Double) {
        self = seconds.isNaN ? .zero : .seconds(min(max(seconds, -1e15), 1e15))
    }

    /// The duration in nanoseconds. A negative duration is 0, and one that is too long is the longest that fits.
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
