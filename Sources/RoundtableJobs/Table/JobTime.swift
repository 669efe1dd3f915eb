import Foundation
import RoundtableKernel

/// The times that the rules A use. All are in milliseconds.
package struct JobTime: Sendable {
    /// The boot-time clock, for leases (rule A6).
    package var boot: Int64
    package var bootID: String
    /// The wall clock since 1970, for due times (rule A3).
    package var wall: Int64

    package static var now: JobTime {
        JobTime(
            boot: Int64(clamping: BootClock.now / 1_000_000),
            bootID: BootClock.bootID,
            wall: Date().millisecondsSince1970
        )
    }
}

/// The source of the time. Tests have their own.
package typealias JobClock = @Sendable () -> JobTime

extension Date {
    /// The time that the tables store. Times that do not fit are the nearest that fit.
    var millisecondsSince1970: Int64 {
        let time = timeIntervalSince1970 * 1000
        return time.isNaN ? 0 : Int64(min(max(time, -1e15), 1e15).rounded())
    }

    package init(millisecondsSince1970 time: Int64) { self.init(timeIntervalSince1970: Double(time) / 1000) }
}

extension Duration {
    /// At least 1, at most 100 years.
    var milliseconds: Int64 { Int64(clamping: min(max(1, nanoseconds / 1_000_000), 3_155_760_000_000)) }
}
