import ArgumentParser
import Foundation

/// One process of a `wal-size` trial. Started by `WALSizeTrial`.
struct WALSizeParticipantCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "wal-size-participant", shouldDisplay: false)

    @Argument var task: String

    func run() throws {
        let task = try JSONDecoder().decode(WALSizeTask.self, from: Data(self.task.utf8))
        let reports = GrowthReports()
        let contestant = try task.openContestant(reports)
        FileHandle.standardOutput.write(Data("ready\n".utf8))
        guard let line = readLine() else { return try contestant.close() }
        let schedule = try JSONDecoder().decode(Schedule.self, from: Data(line.utf8))
        let end = InputEnd()
        var result = task.run(contestant, schedule, until: { end.hasCome })
        result.reports = reports.all
        do { try contestant.close() } catch { result.fail(error) }
        FileHandle.standardOutput.write(try JSONEncoder().encode(result))
    }
}
