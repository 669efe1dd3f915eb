import Synchronization

/// When a file can be read, with the numbers of Apple's kernel (`sys/content_protection.h`). The cases are in the order of access: a later class
/// allows more of it.
package enum ProtectionClass: UInt32, Comparable, Sendable, CaseIterable {
    /// Class A: the file can be read while the device is unlocked.
    case complete = 1
    /// Class B: the file can also be read while the device is locked, if it was opened before. New files can be written.
    case unlessOpen = 2
    /// Class CX, since iOS 17: the file can be read from the first unlocking until the device has been locked for a while.
    case untilInactive = 7
    /// Class C: the file can be read once the device has been unlocked after it was started.
    case untilFirstUnlock = 3
    /// Class D.
    case none = 4

    /// The strictest class of a file that is mapped. An access to a page of a stricter class faults once the device is locked (rule B8).
    package static let strictestMapped = untilFirstUnlock

    /// Converts the name of a `FileProtectionType` of Foundation, which the kernel does not use; nil for an unknown one.
    package init?(named name: String) {
        switch name {
        case "NSFileProtectionComplete": self = .complete
        case "NSFileProtectionCompleteUnlessOpen": self = .unlessOpen
        case "NSFileProtectionCompleteWhenUserInactive": self = .untilInactive
        case "NSFileProtectionCompleteUntilFirstUserAuthentication": self = .untilFirstUnlock
        case "NSFileProtectionNone": self = .none
        default: return nil
        }
    }

    package static func < (left: Self, right: Self) -> Bool {
        left != right && allCases.first { $0 == left || $0 == right } == left
    }
}

/// The classes of files, where the system has them: on devices that lock.
package struct ProtectionClasses: Sendable {
    /// The class of a file; nil if there is no file, or no such class. It does not open the file.
    package var ofFile: @Sendable (_ path: String) -> ProtectionClass?
    /// Sets the class of a file, which is not opened.
    package var set: @Sendable (_ value: ProtectionClass, _ path: String) throws -> Void

    package init(
        ofFile: @escaping @Sendable (_ path: String) -> ProtectionClass?,
        set: @escaping @Sendable (_ value: ProtectionClass, _ path: String) throws -> Void
    ) {
        (self.ofFile, self.set) = (ofFile, set)
    }

    /// Those that a test puts in the place of the system's, in its own thread.
    @TaskLocal package static var ofTest: ProtectionClasses?
    /// Those that a process has that a test starts.
    package static let ofProcess = Mutex<ProtectionClasses?>(nil)

    /// nil where there are none.
    package static var present: ProtectionClasses? {
        if let classes = ofTest ?? ofProcess.withLock({ $0 }) { return classes }
        #if canImport(Darwin) && !os(macOS) && !targetEnvironment(macCatalyst) && !targetEnvironment(simulator)
            return ProtectionClasses(
                ofFile: System.protectionClass(ofFileAt:),
                set: System.setProtectionClass(_:ofFileAt:)
            )
        #else
            return nil
        #endif
    }

    /// Makes a file readable that is mapped, if its class is stricter than a mapped file's may be (rule B8).
    ///
    /// - parameter other: a file of which the mapped one is a companion. It is readable whenever that one is.
    package func relax(_ path: String, mappedWith other: String? = nil) throws {
        guard let current = ofFile(path) else { return }
        let goal = max(current, other.flatMap(ofFile) ?? .strictestMapped, .strictestMapped)
        if current != goal { try set(goal, path) }
    }
}
