import Foundation
import Roundtable

/// What Litestream would restore (`litestream restore -dry-run -json`).
struct RestorePlan: Decodable, Equatable {
    let maxTXID: String
    let files: [File]

    struct File: Decodable, Equatable {
        let size: Int
        /// The time of the last transaction in it, in whole seconds.
        let timestamp: String
    }

    enum CodingKeys: String, CodingKey {
        case maxTXID = "max_txid"
        case files
    }

    /// The number of bytes to fetch. They are compressed.
    var size: Int { files.reduce(0) { $0.addingSaturating(max(0, $1.size)) } }
}

/// The state that Litestream restored.
struct RestoredState: Equatable {
    let transaction: String
    let time: RestoreTime

    /// - parameter log: the log of `litestream restore`, on the level `debug`.
    /// - returns: nil when no LTX files were restored, but a backup of Litestream 0.3.
    init?(_ log: [LitestreamLogEntry]) {
        guard let fields = log.last(where: { $0.message == "restore plan" })?.fields,
            let transaction = fields["txid"], let time = fields["timestamp"].flatMap(RestoreTime.init)
        else { return nil }
        (self.transaction, self.time) = (transaction, time)
    }
}

/// The arguments of `litestream restore`.
struct RestoreRequest: Sendable {
    let url: ReplicaURL
    /// The moment to restore; nil for the newest state.
    let at: RestoreTime?
    /// The file that Litestream creates. It writes `output.tmp`, and renames that.
    let output: String

    /// Litestream takes the states *before* a time.
    func arguments(isPlan: Bool, at time: RestoreTime?) -> [String] {
        ["restore", "-config", LitestreamProgram.configurationPath, "-no-expand-env", "-json", "-o", output]
            + (isPlan ? ["-dry-run"] : []) + (time.map { ["-timestamp", $0.next.text] } ?? []) + [output]
    }

    func arguments(isPlan: Bool) -> [String] { arguments(isPlan: isPlan, at: at) }

    /// JSON is YAML, which is what Litestream reads.
    var configuration: String {
        get throws {
            struct Configuration: Encodable {
                struct Logging: Encodable {
                    let type = "json"
                    let level = "debug"
                    let stderr = true
                }
                struct Database: Encodable {
                    let path: String
                    let replica: ReplicaConfiguration
                }
                let logging = Logging()
                let dbs: [Database]
            }
            let database = Configuration.Database(path: output, replica: ReplicaConfiguration(url))
            let encoder = JSONEncoder()
            encoder.outputFormatting = .withoutEscapingSlashes
            return String(decoding: try encoder.encode(Configuration(dbs: [database])), as: UTF8.self)
        }
    }
}
