import Foundation

/// The configuration of Litestream for one database and one replica, and the control socket.
struct LitestreamConfiguration {
    let databasePath: String
    let replica: ReplicaURL
    /// How often Litestream looks for commits and uploads them, in seconds.
    let interval: Double
    /// nil: there is no control socket.
    let socketPath: String?

    /// JSON, which is also YAML, so that no character of a path or a URL has a meaning.
    var text: String {
        get throws {
            let duration = "\(Int((interval * 1000).rounded(.up)))ms"
            let file = File(
                socket: socketPath.map { .init(enabled: true, path: $0) },
                logging: .init(level: "info", type: "json", stderr: true),
                dbs: [
                    .init(
                        path: databasePath,
                        monitorInterval: duration,
                        replica: .init(replica, syncInterval: duration)
                    )
                ]
            )
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            return String(decoding: try encoder.encode(file), as: UTF8.self)
        }
    }

    private struct File: Encodable {
        struct Socket: Encodable { let enabled: Bool, path: String }
        struct Logging: Encodable { let level: String, type: String, stderr: Bool }
        struct Database: Encodable {
            let path: String, monitorInterval: String, replica: ReplicaConfiguration
            enum CodingKeys: String, CodingKey { case path, monitorInterval = "monitor-interval", replica }
        }
        let socket: Socket?, logging: Logging, dbs: [Database]
    }
}
