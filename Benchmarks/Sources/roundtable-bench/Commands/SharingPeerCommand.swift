import ArgumentParser
import Foundation

/// A process that shares. Started by `SharingCommand`.
struct SharingPeerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "sharing-peer", shouldDisplay: false)

    @Argument var task: String

    func run() throws {
        let result = try JSONDecoder().decode(SharingPeer.self, from: Data(task.utf8)).run()
        print(String(decoding: try JSONEncoder().encode(result), as: UTF8.self))
    }
}
