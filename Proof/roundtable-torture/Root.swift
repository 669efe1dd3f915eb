import ArgumentParser

/// The campaigns against the library: each runs real processes under faults, and reports what was lost, corrupt or stuck.
@main
struct Root: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "roundtable-torture",
        abstract: "Campaigns that try to make Roundtable lose, corrupt or hang.",
        subcommands: verbs
    )

    private static var verbs: [any ParsableCommand.Type] {
        var verbs: [any ParsableCommand.Type] = [
            Check.self, CheckRole.self, JobsVerb.self, JobsRole.self, FilesVerb.self, FilesRole.self,
            RolesVerb.self, RolesWorker.self,
            RandomCommand.self, SoakCommand.self,
            PowerCutCommand.self, PowerCutVictim.self,
            PowerCutInspector.self,
        ]
        #if os(Linux)
            verbs.insert(SweepVerb.self, at: 0)
        #endif
        return verbs
    }
}
