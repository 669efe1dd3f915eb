import Foundation
import RoundtableKernel
import Testing

@testable import RoundtableCore
@testable import RoundtableFiles

/// The bytes of `docs/protocol-vectors.json`, which were computed from the text of `docs/PROTOCOL-FILES.md` and not by this code. The
/// code reads and writes exactly them (rules V1, X1, X2, X10, C2).
@Suite struct ProtocolVectorTests {
    let vectors: Vectors

    init() throws {
        let root = URL(fileURLWithPath: #filePath).appendingPathComponent("../../..").standardizedFileURL
        let data = try Data(contentsOf: root.appendingPathComponent("docs/protocol-vectors.json"))
        vectors = try JSONDecoder().decode(Vectors.self, from: data)
    }

    @Test func aSnapshotFile() throws {
        let vector = vectors.snapshot
        let file = try bytes(vector.bytes)
        let header = try #require(SnapshotHeader(file))
        #expect(header.format == 1 && header.version == vector.version && header.sequence == vector.sequence)
        #expect(try header.token == word(vector.token) && header.time == word(vector.time))
        #expect(header.encoding == .json && vector.encoding == 1 && header.writer == vector.writer)
        let value = Array(vector.value.utf8)
        #expect(header.length == UInt64(value.count) && header.checksum == Checksum.fnv1a(value))
        let written = SnapshotHeader(
            version: vector.version,
            sequence: vector.sequence,
            token: try word(vector.token),
            value: value,
            encoding: .json,
            writer: vector.writer,
            time: try word(vector.time)
        )
        #expect(written.bytes + value == file)
    }

    @Test func aCommand() throws {
        let vector = vectors.command
        let file = try bytes(vector.bytes)
        let command = CommandFile(
            id: try #require(UUID(uuidString: vector.id)),
            kind: OutboxCommandKind(name: vector.name, version: vector.version),
            sender: vector.sender,
            time: try word(vector.time),
            payload: Data(vector.payload.utf8)
        )
        #expect(command.bytes == file)
        #expect(CommandFile.content(of: file) == .command(command))
    }

    @Test func theNameOfACommand() throws {
        let vector = vectors.command
        let name = try #require(CommandFileName(vector.fileName))
        #expect(name.sender == vector.sender && name.epoch == vector.epoch)
        let made = CommandFileName(sender: vector.sender, epoch: vector.epoch, stream: 0x00C0_FFEE, number: 42)
        #expect(made?.description == vector.fileName)
    }

    @Test func answers() throws {
        for vector in vectors.answers {
            let outcome: OutboxOutcome =
                vector.outcome == "refused" ? .setAside(.refused, error: vector.reason) : .applied
            #expect(try OutboxAnswer.bytes(outcome) == bytes(vector.bytes))
            #expect(try OutboxAnswer.outcome(in: bytes(vector.bytes)) == outcome)
        }
    }

    @Test func aSalt() throws {
        let file = try bytes(vectors.salt.bytes)
        let salt = try FileSaltStore.salt(ofFileWith: file)
        #expect(try Array(salt.bytes) == bytes(vectors.salt.salt))
        #expect(FileSaltStore.file(salt) == file)
    }

    // MARK: Bytes

    private func word(_ digits: String) throws -> UInt64 { try #require(UInt64(digits, radix: 16)) }

    private func bytes(_ digits: String) throws -> [UInt8] {
        let characters = Array(digits)
        try #require(characters.count % 2 == 0)
        return try stride(from: 0, to: characters.count, by: 2).map {
            try #require(UInt8(String(characters[$0..<$0 + 2]), radix: 16))
        }
    }
}

extension ProtocolVectorTests {
    /// What `docs/protocol-vectors.json` has of files.
    struct Vectors: Decodable {
        struct Snapshot: Decodable {
            let bytes, token, time, writer, value: String
            let version, sequence: UInt64
            let encoding: UInt32
        }
        struct Command: Decodable {
            let bytes, fileName, id, name, sender, time, payload: String
            let version: Int
            let epoch: UInt64
        }
        struct Answer: Decodable { let bytes, outcome, reason: String }
        struct Salt: Decodable { let bytes, salt: String }

        let snapshot: Snapshot
        let command: Command
        let answers: [Answer]
        let salt: Salt
    }
}
