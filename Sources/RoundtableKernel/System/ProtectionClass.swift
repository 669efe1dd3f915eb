/// When a file can be read, with the numbers of Apple's kernel (`sys/content_protection.h`, classes A to D). A higher class allows more
/// access.
package enum ProtectionClass: UInt32, Comparable, Sendable, CaseIterable {
    /// The file can be read while the device is unlocked.
    case complete = 1
    /// The file can also be read while the device is locked, if it was opened before. New files can be written.
    case unlessOpen = 2
    /// The file can be read once the device has been unlocked after it was started.
    case untilFirstUnlock = 3
    case none = 4

    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}
