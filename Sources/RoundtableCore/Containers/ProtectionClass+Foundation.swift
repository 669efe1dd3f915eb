#if canImport(Darwin)
    import Foundation
    import RoundtableKernel

    extension ProtectionClass {
        /// Converts a type of Foundation; nil for an unknown type. RoundtableFiles has the same: the kernel knows no Foundation of Apple's.
        init?(_ type: FileProtectionType) {
            let classes: [String: ProtectionClass] = [
                FileProtectionType.complete.rawValue: .complete,
                FileProtectionType.completeUnlessOpen.rawValue: .unlessOpen,
                FileProtectionType.completeUntilFirstUserAuthentication.rawValue: .untilFirstUnlock,
                FileProtectionType.none.rawValue: .none,
            ]
            guard let value = classes[type.rawValue] else { return nil }
            self = value
        }
    }
#endif
