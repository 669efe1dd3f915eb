#if os(Linux)
    import CRoundtableTestSupport
    import Foundation
    import Glibc
    import RoundtableKernel
    import Synchronization

    /// A device that locks, for the peers that preload `device.c`. Its protection classes are extended attributes of the files, which all
    /// processes see; a new file has class A.
    package final class Device {
        private let memory: UnsafeMutablePointer<Atomic<UInt32>>
        /// The environment of a peer on this device.
        package let environment: [String: String]

        /// - parameter isUnknown: whether the peers do not know that files have classes, as a library that does without rule B8.
        /// - throws: when the file system of the fleet has no extended attributes.
        package init(_ fleet: PeerFleet, isUnknown: Bool = false) throws {
            let file = fleet.folder.appendingPathComponent("device")
            let descriptor = open(file.path, O_RDWR | O_CREAT | O_CLOEXEC, 0o666)
            try check(descriptor, "open \(file.path)")
            defer { close(descriptor) }
            try check(ftruncate(descriptor, 4), "ftruncate \(file.path)")
            let address = mmap(nil, 4, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)!
            memory = address.bindMemory(to: Atomic<UInt32>.self, capacity: 1)
            environment = [
                "LD_PRELOAD": try fleet.library("device", PackageResources.device_c).path,
                "ROUNDTABLE_DEVICE": file.path, "ROUNDTABLE_DEVICE_FOLDER": fleet.databaseFolder.path,
                Self.variable: isUnknown ? "" : "1",
            ]
            // Fails where files have no extended attributes.
            try Self.classes.set(ProtectionClass.none, file.path)
        }

        deinit { munmap(memory, 4) }

        /// Locks or unlocks it. The peers follow within milliseconds.
        package func toggle() {
            memory.pointee.wrappingAdd(1, ordering: .sequentiallyConsistent)
            Futex.wake(memory, all: true)
        }

        // MARK: In the peer

        private static let variable = "ROUNDTABLE_DEVICE_CLASSES"
        private static let attribute = "user.roundtable.protection-class"

        package static let classes = ProtectionClasses(
            ofFile: { path in
                var value: UInt8 = 0
                let count = lgetxattr(path, attribute, &value, 1)
                // A new file has class A.
                if count != 1 { return errno == ENODATA ? .complete : nil }
                return ProtectionClass(rawValue: UInt32(value &- UInt8(ascii: "0")))
            },
            set: { value, path in
                var text = UInt8(ascii: "0") + UInt8(value.rawValue)
                guard lsetxattr(path, attribute, &text, 1, 0) == 0 else {
                    throw SystemError(call: .chmod, errno: errno, path: path)
                }
            }
        )

        /// Gives this process the classes of the device that it is on.
        package static func begin() {
            guard ProcessInfo.processInfo.environment[variable] == "1" else { return }
            ProtectionClasses.ofProcess.withLock { $0 = classes }
        }
    }
#endif
