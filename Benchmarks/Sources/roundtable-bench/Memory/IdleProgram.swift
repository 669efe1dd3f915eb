import Foundation
import RoundtableFiles

/// A process that has done its first work, and idles.
enum IdleProgram: String, CaseIterable {
    case nothing
    case files
    case grdbReadOnly
    case grdbReadWrite
    case readOnly
    case readWrite
    case observing

    var title: String {
        switch self {
        case .nothing: "Foundation alone"
        case .files: "RoundtableFiles: a snapshot file, an outbox"
        case .grdbReadOnly: "GRDB's DatabasePool, read-only"
        case .grdbReadWrite: "GRDB's DatabasePool, read-write"
        case .readOnly: "Roundtable, read-only"
        case .readWrite: "Roundtable, read-write"
        case .observing: "Roundtable, read-write and observing"
        }
    }

    private var program: FootprintProgram {
        switch self {
        case .nothing: .nothing
        case .files: .files
        case .grdbReadOnly, .grdbReadWrite: .grdb
        case .readOnly, .readWrite, .observing: .roundtable
        }
    }

    private var way: String {
        switch self {
        case .nothing, .files: "idle"
        case .grdbReadOnly, .readOnly: "read-only"
        case .grdbReadWrite, .readWrite: "read-write"
        case .observing: "observing"
        }
    }

    /// One more process, which is not measured. It creates the database, and has it open all the time, as an app does beside its widgets.
    private var owner: IdleProgram {
        switch self {
        case .nothing, .files: self
        case .grdbReadOnly, .grdbReadWrite: .grdbReadWrite
        case .readOnly, .readWrite, .observing: .readWrite
        }
    }

    func start(_ path: String, in folder: URL) throws -> ParticipantProcess {
        try ParticipantProcess(program.executable, ["stay", way, path], name: title, in: folder)
    }

    private struct Score: Codable {
        var points: Int
    }

    private static func writeSnapshot(beside path: String) throws {
        _ = try SnapshotFile<Score>(at: URL(fileURLWithPath: path + "-snapshot"), as: "app").write(Score(points: 42))
    }

    /// Starts so many, and measures them when all are ready.
    ///
    /// - returns: the sum.
    func measure(_ count: Int, in parent: URL) throws -> ProcessMemory {
        let folder = parent.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("shared.sqlite").path
        if self == .files { try Self.writeSnapshot(beside: path) }
        var processes = [try owner.start(path, in: folder)]
        defer {
            for process in processes { process.closeInput() }
            for process in processes { process.end() }
        }
        try processes[0].waitUntilReady()
        let idle = try (0..<count).map { _ in
            let process = try start(path, in: folder)
            processes.append(process)
            return process
        }
        for process in idle { try process.waitUntilReady() }
        return try idle.map { try ProcessMemory(of: $0.pid) }.reduce(ProcessMemory(), +)
    }
}
