import Foundation
import RoundtableModels

/// Walks the writer queue through worlds that are too large for a test of a debug build, and prints their sizes.
///
/// Usage: `roundtable-walk [--participants N] [--rounds N] [--deaths N] [--freezes N] [--patience N] [--deadlines N] [--seed N] [--unfolded]
/// [--no-lingering] [--break NAME]`. The exit code is 1 when the walk finds a violation.
@main struct Walk {
    static func main() {
        var numbers = [
            "--participants": 3, "--rounds": 1, "--deaths": 0, "--freezes": 0, "--patience": 0, "--deadlines": 0,
            "--seed": 0,
        ]
        var flags: Set<String> = []
        var broken: TurnModel.Break?
        var arguments = CommandLine.arguments.dropFirst()
        while let name = arguments.popFirst() {
            if numbers[name] != nil, let number = arguments.popFirst().flatMap({ Int($0) }) {
                numbers[name] = number
            } else if name == "--break", let found = arguments.popFirst().flatMap({ TurnModel.Break(rawValue: $0) }) {
                broken = found
            } else if ["--unfolded", "--no-lingering"].contains(name) {
                flags.insert(name)
            } else {
                FileHandle.standardError.write(Data("roundtable-walk: unknown argument \(name)\n".utf8))
                exit(2)
            }
        }
        let budget = TurnModel.Budget(
            deaths: numbers["--deaths"]!,
            freezes: numbers["--freezes"]!,
            patience: numbers["--patience"]!,
            deadlines: numbers["--deadlines"]!
        )
        let world = TurnModel(
            participants: numbers["--participants"]!,
            rounds: numbers["--rounds"]!,
            budget: budget,
            lingering: !flags.contains("--no-lingering"),
            broken: broken
        )
        var walk = TurnWalk(
            seed: UInt64(numbers["--seed"]!),
            folds: !flags.contains("--unfolded"),
            bounds: budget != TurnModel.Budget()
        )
        let began = ContinuousClock.now
        func report(_ walk: TurnWalk, _ state: String) {
            print(
                "\(state): \(walk.stateCount) states, \(walk.transitionCount) transitions, depth \(walk.depth),",
                "\(walk.byteCount >> 20) MiB of fingerprints, \(ContinuousClock.now - began)"
            )
            fflush(nil)
        }
        do {
            try walk.run(from: world) { report($0, "so far") }
            report(walk, "to the end")
        } catch {
            report(walk, "violation")
            print(error)
            exit(1)
        }
    }
}
