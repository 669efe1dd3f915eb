/// When a file can be read, by the numbers of Apple's kernel (`sys/content_protection.h`, classes A to D). The higher, the more often.
package enum ProtectionClass: UInt32, Comparable, Sendable, CaseIterable {
    /// While the device is unlocked.
    case complete = 1
    /// Also while it is locked, if it was open before. New files can be written.
    case unlessOpen = 2
    /// From when the device was first unlocked after it was started.
    case untilFirstUnlock = 3
    case none = 4

    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}
