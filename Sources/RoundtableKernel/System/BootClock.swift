#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The time since the machine was booted, which goes on while the machine sleeps and which nobody can set. It is the same for all
/// processes of the machine, and begins again with each boot.
package enum BootClock {
    /// The present time. Linux: `CLOCK_BOOTTIME` in the first time namespace; Darwin: `CLOCK_MONOTONIC_RAW`, the clock behind
    /// `mach_continuous_time`.
    package static var now: Nanoseconds {
        #if canImport(Darwin)
            return clock_gettime_nsec_np(CLOCK_MONOTONIC_RAW)
        #else
            var time = timespec()
            clock_gettime(CLOCK_BOOTTIME, &time)
            let own = UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
            return own &- UInt64(bitPattern: TimeNamespace.own.boottime ?? 0)
        #endif
    }

    /// The system's identifier of this boot; empty where the system does not show it. It does not go through `System`, because the
    /// effect of an injected fault would last for the life of the process.
    package static let bootID: String = {
        #if canImport(Darwin)
            var bytes = [UInt8](repeating: 0, count: 64)
            var size = bytes.count
            guard sysctlbyname("kern.bootsessionuuid", &bytes, &size, nil, 0) == 0 else { return "" }
            return String(decoding: bytes[..<min(size, bytes.count)].prefix { $0 != 0 }, as: UTF8.self)
        #else
            let text = TimeNamespace.text(of: "/proc/sys/kernel/random/boot_id") ?? ""
            return String(text.prefix { $0 > " " })
        #endif
    }()
}
