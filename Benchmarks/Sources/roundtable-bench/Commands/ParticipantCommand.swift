import ArgumentParser
import Foundation

/// One process of a contention trial. Opens its database, says so, waits for the times to begin and end at, writes, and
/// tells what happened. Started by `ParticipantProcess`.
struct ParticipantCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "participant", shouldDisplay: false)

    @Argument var task: String

    func run() throws {
        let task = try JSONDecoder().decode(ParticipantTask.self, from: Data(self.task.utf8))
        let contestants = try task.openContestants()
        FileHandle.standardOutput.write(Data("ready\n".utf8))
        // No line: the parent wants no more of us, or is gone.
        guard let line = readLine() else { return try contestants.forEach { try $0.close() } }
        let schedule = try JSONDecoder().decode(Schedule.self, from: Data(line.utf8))
        var result = task.run(contestants, schedule)
        do { try contestants.forEach { try $0.close() } } catch { result.fail(error) }
        FileHandle.standardOutput.write(try JSONEncoder().encode(result))
    }
}
