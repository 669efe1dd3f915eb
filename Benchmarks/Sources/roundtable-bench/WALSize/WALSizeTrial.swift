import Foundation

/// Writers that never pause, readers that always read, and one who looks at the WAL.
struct WALSizeTrial {
    let side: Side
    let plan: WALSizePlan
    let folder: URL

    func run() throws -> WALSizeFindings {
        let folder = self.folder.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = try plan.workload.createDatabase(in: folder, name: side.rawValue)

        var processes: [(task: WALSizeTask, process: ParticipantProcess)] = []
        defer { for (_, process) in processes { process.end() } }
        for var task in plan.tasks(side) {
            task.path = path
            let json = String(decoding: try JSONEncoder().encode(task), as: UTF8.self)
            let arguments = [WALSizeParticipantCommand.configuration.commandName ?? "", json]
            processes.append((task, try ParticipantProcess(arguments, name: "\(side) \(task.name)", in: folder)))
        }
        for (_, process) in processes { try process.waitUntilReady() }
        let frozen = plan.freeze.flatMap { freeze in
            processes.last.map { FrozenReader($0.process, freeze) }
        }
        let workers = frozen == nil ? processes[...] : processes.dropLast()

        let start = Clock.now + 50_000_000
        for (_, process) in workers { try process.start(Schedule(start: start, end: .max)) }
        let (samples, wasTooLarge) = try watch(path, from: start, frozen)
        let end = Clock.now
        for (_, process) in workers { process.closeInput() }
        // Whoever is last checkpoints a WAL that may have grown to gigabytes.
        let results = try workers.map { try $0.process.result(WALSizeResult.self, within: 600) }

        let commits = zip(workers, results).filter { $0.0.task.role == .writer }.map { ($0.task.author, $1.commits) }
        try plan.workload.audit(path, side, commits: Dictionary(uniqueKeysWithValues: commits), rows: 1)
        return WALSizeFindings(
            side: side,
            plan: plan,
            start: start,
            seconds: (end - start).seconds,
            samples: samples,
            results: results,
            frozen: frozen,
            wasTooLarge: wasTooLarge
        )
    }

    private func watch(
        _ path: String,
        from start: Nanoseconds,
        _ frozen: FrozenReader?
    ) throws -> (samples: [WALSample], wasTooLarge: Bool) {
        let onlooker = WALOnlooker(path: path, start: start)
        var samples: [WALSample] = []
        let end = start + Nanoseconds(seconds: plan.seconds)
        var next = start
        while next < end {
            try Interruption.sleep(until: next)
            // Looks that came too late are left out, so that no two come at once.
            next = max(next + WALSizePlan.period, Clock.now)
            let (sample, status) = try onlooker.look()
            samples.append(sample)
            frozen?.note(status, frames: sample.frames)
            try frozen?.step(start: start)
            if sample.bytes > plan.limit { return (samples, true) }
        }
        return (samples, false)
    }
}
