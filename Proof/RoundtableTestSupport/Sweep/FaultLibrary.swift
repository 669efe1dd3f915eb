#if os(Linux)
    import Foundation
    import Glibc

    /// The preloaded library `faults.c`: compiled when a campaign begins, because it must not come near a product.
    package enum FaultLibrary {
        package static let folderVariable = "ROUNDTABLE_FAULT_FOLDER"

        /// Compiles the library in the folder of the fleet.
        ///
        /// - parameter concerned: the folder whose calls are intercepted.
        /// - returns: the environment of a peer that preloads it.
        package static func environment(_ fleet: PeerFleet, concerning concerned: URL) throws -> [String: String] {
            let library = try fleet.library("faults", PackageResources.faults_c)
            return ["LD_PRELOAD": library.path, folderVariable: concerned.path]
        }

        // MARK: In the process that has it

        private static func symbol<T>(_ name: String, _ type: T.Type) throws -> T {
            guard let address = dlsym(nil, name) else { throw TestKitError("the fault library is not preloaded") }
            return unsafeBitCast(address, to: type)
        }

        /// Counts the calls from 0 on, and does `action` at the call `number`; nil to record them.
        ///
        /// - parameter name: the call that reports an error.
        package static func arm(_ action: SweepAction?, at number: Int, of name: String) throws {
            typealias Arm = @convention(c) (Int32, Int32, Int32, UnsafePointer<CChar>) -> Void
            let function = try symbol("rt_faults_arm", Arm.self)
            func arm(_ code: Int32, _ errno: Int32 = 0, _ name: String = "") {
                name.withCString { function(code, Int32(number), errno, $0) }
            }
            switch action {
            case nil: arm(0)
            case .killBefore: arm(1)
            case .killAfter: arm(2)
            case .killHalf: arm(3)
            case .errnoOnce(let code): arm(4, code, name)
            case .errnoForever(let code): arm(5, code, name)
            case .short: arm(6, 0, name)
            }
        }

        /// Ends what `arm` began. Does nothing in a process without the library.
        ///
        /// - returns: how many calls were counted, and at how many of them the action was performed.
        @discardableResult
        package static func disarm() -> (counted: Int, taken: Int) {
            guard let disarm = try? symbol("rt_faults_disarm", (@convention(c) () -> Int32).self),
                let taken = try? symbol("rt_faults_taken", (@convention(c) () -> Int32).self)
            else { return (0, 0) }
            return (Int(disarm()), Int(taken()))
        }

        /// The recorded calls.
        package static func calls(_ count: Int) throws -> [SweepCall] {
            typealias Text = @convention(c) (Int32) -> UnsafePointer<CChar>
            let name = try symbol("rt_faults_call", Text.self)
            let role = try symbol("rt_faults_role", Text.self)
            return (0..<Int32(count)).map {
                SweepCall(name: String(cString: name($0)), role: String(cString: role($0)))
            }
        }
    }
#endif
