#if os(Linux)
    import ArgumentParser
    import Foundation

    /// One process before the police. Started by `SharingFreezes`.
    struct SharingProgramCommand: ParsableCommand {
        static let configuration = CommandConfiguration(commandName: "sharing-program", shouldDisplay: false)

        @Argument var task: String

        func run() throws {
            try SharingProgram(JSONDecoder().decode(SharingProgram.Task.self, from: Data(task.utf8))).run()
        }
    }
#endif
