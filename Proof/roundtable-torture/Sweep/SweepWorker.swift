#if os(Linux)
    import Foundation
    import Glibc
    import RoundtableKernel
    import RoundtableTestSupport

    /// Runs points one after the other, with the processes of one fleet.
    final class SweepWorker {
        private let fleet: PeerFleet
        private let environment: [String: String]
        private let worlds: URL
        private let defect: SweepDefect?
        private var spare: Peer?
        private var inspector: Peer?
        private var templates: [SweepOperation: URL] = [:]
        private var rounds = 0

        /// The longest that a step may take: what takes longer is stuck.
        private let patience: Duration

        init(_ fleet: PeerFleet, defect: SweepDefect?, patience: Duration) throws {
            self.fleet = fleet
            self.defect = defect
            self.patience = patience
            worlds = fleet.folder.appendingPathComponent("worlds", isDirectory: true)
            try FileManager.default.createDirectory(at: worlds, withIntermediateDirectories: true)
            environment = try FaultLibrary.environment(fleet, concerning: worlds)
        }

        // MARK: Processes

        /// A new process, which was started during the round before.
        private func victim() throws -> Peer {
            let victim = try spare ?? fleet.spawn(environment: environment)
            spare = try fleet.spawn(environment: environment)
            return victim
        }

        private func currentInspector() throws -> Peer {
            if let inspector, inspector.process.isRunning { return inspector }
            let new = try fleet.spawn()
            inspector = new
            return new
        }

        private func replaceInspector() {
            inspector?.process.end()
            inspector = nil
        }

        // MARK: Folders

        /// A copy of what the operation starts from, at a new place.
        private func world(_ operation: SweepOperation) throws -> (folder: URL, progress: String) {
            rounds += 1
            let folder = worlds.appendingPathComponent("w\(rounds)", isDirectory: true)
            try FileManager.default.copyItem(at: try template(operation), to: folder)
            return (folder, fleet.folder.appendingPathComponent("acknowledged-\(rounds)").path)
        }

        private func template(_ operation: SweepOperation) throws -> URL {
            if let known = templates[operation] { return known }
            let folder = worlds.appendingPathComponent("template-\(operation.rawValue)", isDirectory: true)
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let peer = try fleet.spawn()
            defer { peer.process.end() }
            let progress = fleet.folder.appendingPathComponent("acknowledged-template").path
            try peer.call(.sweep(SweepStep(.prepare, operation, folder: folder.path, progress: progress)))
            // What belongs to this place alone is not copied.
            let database = folder.appendingPathComponent("shared.sqlite").path
            for path in [database + "-wal", database + "-shm", ControlBlock.path(forDatabaseAt: database)] {
                try? FileManager.default.removeItem(atPath: path)
            }
            templates[operation] = folder
            return folder
        }

        // MARK: Recording

        /// The calls of an operation that meets no fault.
        func record(_ operation: SweepOperation, _ company: SweepPoint.Company, _ door: SweepDoor) throws -> [SweepCall]
        {
            let (folder, progress) = try world(operation)
            defer { try? FileManager.default.removeItem(at: folder) }
            func step(_ kind: SweepStep.Kind) -> PeerCommand {
                .sweep(SweepStep(kind, operation, folder: folder.path, progress: progress))
            }
            let victim = try victim()
            defer { victim.process.end() }
            let inspector = try currentInspector()
            if company == .beside { try inspector.call(step(.join)) }
            try victim.call(step(.ready))
            let reply = try victim.call(step(.record(door)))
            if company == .beside { try inspector.call(step(.proceed)) }
            guard let calls = reply.sweep?.calls else { throw TestKitError("nothing was recorded: \(reply)") }
            return calls
        }

        // MARK: One point

        func run(_ point: SweepPoint) throws -> SweepResult {
            let (folder, progress) = try world(point.operation)
            defer {
                try? FileManager.default.removeItem(at: folder)
                try? FileManager.default.removeItem(atPath: progress)
            }
            func step(_ kind: SweepStep.Kind) -> PeerCommand {
                .sweep(SweepStep(kind, point.operation, folder: folder.path, progress: progress, defect: defect))
            }
            let victim = try victim()
            defer { victim.process.end() }
            if point.company == .beside { try currentInspector().call(step(.join)) }
            try victim.call(step(.ready))

            var result = operate(victim, step, point)
            if victim.process.isRunning, !point.fault.action.isKill, result.problems.isEmpty {
                result.problems += complaints("the victim does not recover", victim, step(.recover)).problems
            }
            if point.company == .beside {
                result.problems +=
                    complaints("the participant beside it", try currentInspector(), step(.proceed))
                    .problems
            }
            let acknowledged = ProgressFile.count(at: progress)
            let checked = complaints(
                "another process",
                try currentInspector(),
                step(.verify(acknowledged: acknowledged))
            )
            result.problems += checked.problems
            result.milliseconds = checked.milliseconds
            if !checked.problems.isEmpty { replaceInspector() }
            return result
        }

        private func operate(_ victim: Peer, _ step: (SweepStep.Kind) -> PeerCommand, _ point: SweepPoint)
            -> SweepResult
        {
            do {
                let reply = try victim.attempt(step(.run(point.fault)), within: patience)
                if reply.number ?? 0 == 0 { return SweepResult(outcome: .missed, error: reply.message) }
                if point.fault.action.isKill { return killedLater(victim) }
                guard reply.outcome == .done else {
                    let message = reply.message ?? ""
                    // An observer or a file that is no longer served must say so.
                    let isSilent = message.contains("silent:")
                    return SweepResult(outcome: .failed, problems: isSilent ? [message] : [], error: message)
                }
                return SweepResult(outcome: .absorbed)
            } catch {
                guard let exit = try? victim.process.waitForExit(within: .seconds(1)) else {
                    victim.process.end()
                    return SweepResult(outcome: .failed, problems: ["stuck: no answer within \(patience)"])
                }
                if exit == .signal(SIGKILL), point.fault.action.isKill { return SweepResult(outcome: .killed) }
                return SweepResult(
                    outcome: .failed,
                    problems: ["the process ended: \(exit)\n\(victim.process.errorText.prefix(2000))"]
                )
            }
        }

        /// A process that answered although its call was reached: either another thread answered while the system ended the process, or
        /// the call is a wait that had not returned when the operation ended, and the kill after it did not take place.
        private func killedLater(_ victim: Peer) -> SweepResult {
            if case .signal(SIGKILL)? = try? victim.process.waitForExit(within: .seconds(1)) {
                return SweepResult(outcome: .killed)
            }
            return SweepResult(outcome: .missed, error: "the call had not returned when the operation ended")
        }

        /// What a step complains about.
        private func complaints(_ who: String, _ peer: Peer, _ command: PeerCommand) -> (
            problems: [String], milliseconds: Double
        ) {
            do {
                let reply = try peer.attempt(command, within: patience)
                let milliseconds = reply.sweep?.milliseconds ?? 0
                guard reply.outcome == .done else { return (["\(who): \(reply.message ?? "")"], milliseconds) }
                return ((reply.sweep?.problems ?? []).map { "\(who): \($0)" }, milliseconds)
            } catch {
                peer.process.end()
                return (["stuck or ended: \(who): \(error)"], 0)
            }
        }
    }
#endif
