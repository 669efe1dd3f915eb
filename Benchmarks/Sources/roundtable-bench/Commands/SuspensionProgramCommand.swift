#if os(Linux)
    import ArgumentParser
    import Foundation

    /// One process before the police. Started by `SuspensionTrial`.
    struct SuspensionProgramCommand: ParsableCommand {
        static let configuration = CommandConfiguration(commandName: "suspension-program", shouldDisplay: false)

        @Argument var task: String

        func run() throws {
            try SuspensionProgram(JSONDecoder().decode(SuspensionTask.self, from: Data(task.utf8))).run()
        }
    }
#endif
