import ArgumentParser
import Foundation
import Roundtable
import RoundtableTestSupport

/// What a process finds that opens the database after a power cut.
struct PowerCutInspection: Codable {
    /// What SQLite alone finds, in a copy.
    var observation: CrashStateChecker.Observation
    /// What participants find afterwards.
    var finding: CrashStateChecker.Finding?
    /// The commits that are there when the database is closed again.
    var commits: UInt64 = 0
}

/// A process that opens what a power cut has left.
struct PowerCutInspector: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "powercut-inspect",
        abstract: "What `powercut --filesystem ext4` starts after a cut.",
        shouldDisplay: false
    )

    @Option var folder: String
    /// A folder on another file system, for copies.
    @Option var notes: String
    @Option var report: String
    @Option var durability: String
    /// The number that is written to both snapshot files.
    @Option var value: UInt64

    func run() throws {
        guard let durability = CommitDurability(rawValue: durability) else {
            throw ValidationError("no such durability")
        }
        let folder = URL(fileURLWithPath: folder, isDirectory: true)
        let notes = URL(fileURLWithPath: notes, isDirectory: true)
        // SQLite changes files when it opens them, so one copy stays as the power cut has left it.
        let (left, copy) = (notes.appendingPathComponent("left"), notes.appendingPathComponent("copy"))
        for target in [left, copy] { try FileManager.default.copyItem(at: folder, to: target) }
        let commands = left.appendingPathComponent(CrashStateChecker.commandsFolder)
        let names = (try? FileManager.default.contentsOfDirectory(atPath: commands.path)) ?? []
        let waiting = CrashStateChecker.waiting(
            try names.map { [UInt8](try Data(contentsOf: commands.appendingPathComponent($0))) }
        )
        let observation = CrashStateChecker(durability: durability, folder: copy).observe(waiting: waiting)
        var inspection = PowerCutInspection(observation: observation)
        if observation.defect == nil {
            let after = ParticipantsAfterCut(folder: folder, notes: notes, durability: durability, seed: value)
            inspection.finding = after.finding()
        }
        if observation.defect == nil, inspection.finding == nil {
            let checker = CrashStateChecker(durability: durability, folder: folder)
            (inspection.commits, inspection.finding) = checker.useLibrary(waiting, writing: value, recordsHistory: true)
        }
        try JSONEncoder().encode(inspection).write(to: URL(fileURLWithPath: report))
    }
}
