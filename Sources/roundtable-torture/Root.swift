import ArgumentParser

/// The campaigns against the library: each runs real processes under faults, and reports what was lost, corrupt or stuck.
@main
struct Root: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "roundtable-torture",
        abstract: "Campaigns that try to make Roundtable lose, corrupt or hang.",
        subcommands: [PowerCutCommand.self, PowerCutVictim.self, RandomCommand.self, SoakCommand.self]
    )

    private static var verbs: [any ParsableCommand.Type] {
        #if os(Linux)
            [SweepVerb.self]
        #else
            []
        #endif
    }
}
