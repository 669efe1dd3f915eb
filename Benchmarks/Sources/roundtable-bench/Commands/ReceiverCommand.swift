import ArgumentParser
import Foundation

/// A process that receives events until its input ends; its main queue goes on serving after `run`. Started by `Signalling`.
struct ReceiverCommand: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "receiver", shouldDisplay: false)

    @Argument var kind: String
    @Argument var path: String
    @Argument var board: String

    func run() throws {
        guard let receiver = Receiver(rawValue: kind) else { throw ValidationError("no receiver is called '\(kind)'") }
        try receiver.start(path, Scoreboard(board))
        FileHandle.standardOutput.write(Data("ready\n".utf8))
        Thread.detachNewThread {
            while readLine() != nil {}
            Foundation.exit(0)
        }
    }
}
