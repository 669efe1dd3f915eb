#if os(Linux)
    import Foundation
    import Glibc
    import RoundtableTestSupport

    /// One round of the sweep: what happens at which call of which operation, and who else has the database open.
    struct SweepPoint: Hashable, Sendable {
        enum Company: String, CaseIterable, Sendable {
            case alone
            /// Another participant has the database open.
            case beside
        }

        /// The faults, without their errors.
        enum Kind: String, CaseIterable, Sendable {
            case killBefore = "kill-before"
            case killAfter = "kill-after"
            case killHalf = "kill-half"
            case short
            case once
            case forever
        }

        var operation: SweepOperation
        var company: Company
        var fault: SweepFault
        /// What the recording found at this number.
        var call: SweepCall

        /// All points at the recorded calls.
        static func all(_ operation: SweepOperation, _ company: Company, _ door: SweepDoor, _ calls: [SweepCall])
            -> [SweepPoint]
        {
            calls.enumerated().flatMap { number, call in
                actions(at: call, door).map {
                    SweepPoint(
                        operation: operation,
                        company: company,
                        fault: SweepFault(door, call: number, call.name, $0),
                        call: call
                    )
                }
            }
        }

        private static func actions(at call: SweepCall, _ door: SweepDoor) -> [SweepAction] {
            var actions: [SweepAction] = [.killBefore]
            // The door of the kernel layer sees a call only before it is made.
            if door == .calls { actions.append(.killAfter) }
            let isWrite = call.name == "write" || call.name == "pwrite"
            if isWrite, door == .calls { actions += [.killHalf, .short] }
            for code in ErrnoTable.errnos(of: call.name, at: door) {
                actions.append(.errnoOnce(code))
                // Every program repeats what a signal has interrupted, SQLite too: that would never end.
                if code != EINTR { actions.append(.errnoForever(code)) }
            }
            return actions
        }

        var kind: Kind {
            switch fault.action {
            case .killBefore: .killBefore
            case .killAfter: .killAfter
            case .killHalf: .killHalf
            case .short: .short
            case .errnoOnce: .once
            case .errnoForever: .forever
            }
        }

        // MARK: Names

        /// `operation.company.door.number.call.action`: what `--only` takes.
        var name: String {
            let action: String
            switch fault.action {
            case .errnoOnce(let code), .errnoForever(let code): action = "\(kind.rawValue)-\(ErrnoTable.names[code]!)"
            default: action = kind.rawValue
            }
            return
                "\(operation.rawValue).\(company.rawValue).\(fault.door.rawValue).\(fault.call).\(fault.name).\(action)"
        }

        /// nil when the text is no name of a point.
        init?(_ name: String) {
            let parts = name.split(separator: ".").map(String.init)
            guard parts.count == 6, let operation = SweepOperation(rawValue: parts[0]),
                let company = Company(rawValue: parts[1]), let door = SweepDoor(rawValue: parts[2]),
                let number = Int(parts[3]), let action = Self.action(parts[5])
            else { return nil }
            self.init(
                operation: operation,
                company: company,
                fault: SweepFault(door, call: number, parts[4], action),
                call: SweepCall(name: parts[4], role: "")
            )
        }

        private init(operation: SweepOperation, company: Company, fault: SweepFault, call: SweepCall) {
            self.operation = operation
            self.company = company
            self.fault = fault
            self.call = call
        }

        private static func action(_ text: String) -> SweepAction? {
            switch Kind(rawValue: text) {
            case .killBefore: return .killBefore
            case .killAfter: return .killAfter
            case .killHalf: return .killHalf
            case .short: return .short
            default: break
            }
            let parts = text.split(separator: "-").map(String.init)
            guard parts.count == 2, let code = ErrnoTable.names.first(where: { $0.value == parts[1] })?.key else {
                return nil
            }
            switch Kind(rawValue: parts[0]) {
            case .once: return .errnoOnce(code)
            case .forever: return .errnoForever(code)
            default: return nil
            }
        }
    }
#endif
