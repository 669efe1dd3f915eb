import Foundation

/// One of the programs whose footprint is measured, as a product beside this program.
enum FootprintProgram: String, CaseIterable {
    case nothing, files, grdb, roundtable

    var title: String {
        switch self {
        case .nothing: "Foundation alone"
        case .files: "RoundtableFiles"
        case .grdb: "GRDB"
        case .roundtable: "Roundtable"
        }
    }

    var executable: URL {
        get throws {
            guard let program = Bundle.main.executableURL else {
                throw FootprintError("the path of this program is not known")
            }
            return program.resolvingSymlinksInPath().deletingLastPathComponent().appendingPathComponent(
                "footprint-\(rawValue)"
            )
        }
    }

    /// Runs it with the path of a snapshot file, or of a plain one, which it reads.
    ///
    /// - returns: the time from before it is started until it has ended.
    func time(reading file: String) throws -> Double {
        let began = Clock.now
        try run([file], environment: [:])
        return (Clock.now - began).seconds
    }

    /// The most memory that it has at a time, bytes.
    func residentMemory(reading file: String) throws -> Int {
        let output = try run([file], environment: ["FOOTPRINT_MEMORY": "1"])
        guard let bytes = Int(output.trimmingCharacters(in: .whitespacesAndNewlines)), bytes > 0 else {
            throw FootprintError("the system does not tell how much memory \(try executable.path) has had")
        }
        return bytes
    }

    @discardableResult
    private func run(_ arguments: [String], environment: [String: String]) throws -> String {
        let process = Process()
        process.executableURL = try executable
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let output = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw FootprintError("\(try executable.path) ended with status \(process.terminationStatus)")
        }
        return String(decoding: output, as: UTF8.self)
    }

    /// The size of the executable without symbols, bytes.
    func strippedSize(in folder: URL) throws -> Int {
        let stripped = folder.appendingPathComponent(rawValue)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["strip", "-o", stripped.path, try executable.path]
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw FootprintError("strip (of the binutils) has failed") }
        return try stripped.resourceValues(forKeys: [.fileSizeKey]).fileSize ?? 0
    }
}

struct FootprintError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
