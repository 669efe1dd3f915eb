/// The processes of the demo.
struct DemoCast: Equatable, Sendable {
    struct Player: Equatable, Sendable, Codable {
        enum Role: String, Codable, Sendable {
            case readWrite = "read_write"
            case readOnly = "read_only"
            /// The process never opens the database. It submits commands to the outbox, and reads a snapshot file.
            case outboxOnly = "outbox_only"

            /// The plural noun for the operations that the process repeats.
            var noun: String {
                switch self {
                case .readWrite: "commits"
                case .readOnly: "reads"
                case .outboxOnly: "commands"
                }
            }
        }
        let name: String
        let role: Role
    }

    static let maximumSize = 100
    /// The name of the process that applies the commands.
    static let owner = "app"

    private static let writers = [
        owner, "sync daemon", "share extension", "notifications", "keyboard", "intents", "indexer", "file provider",
        "mail import", "backup agent", "spell checker", "watch bridge",
    ]

    let players: [Player]

    var writerCount: Int { players.count { $0.role == .readWrite } }

    /// The first five processes are an app, a sync daemon, a share extension, a read-only widget and an interactive widget. All others
    /// write.
    init(size: Int) {
        var players: [Player] = []
        for number in 0..<size {
            switch number {
            case 3: players.append(Player(name: "widget", role: .readOnly))
            case 4: players.append(Player(name: "interactive widget", role: .outboxOnly))
            default:
                let index = number > 4 ? number - 2 : number
                let name = index < Self.writers.count ? Self.writers[index] : "worker \(index - Self.writers.count + 1)"
                players.append(Player(name: name, role: .readWrite))
            }
        }
        self.players = players
    }
}

/// [Jain's index](https://en.wikipedia.org/wiki/Fairness_measure): 1 when all values are equal, 1/n when all values but one are 0.
func jainIndex(_ values: [Int]) -> Double {
    let sum = values.reduce(0.0) { $0 + Double($1) }
    let squares = values.reduce(0.0) { $0 + Double($1) * Double($1) }
    return squares == 0 ? 0 : sum * sum / (Double(values.count) * squares)
}
