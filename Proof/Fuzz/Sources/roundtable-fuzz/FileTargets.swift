import Foundation

@testable import RoundtableFiles
@testable import RoundtableKernel

/// Bit flags at the start of an input: a mutator does not find the right checksum of a header by itself.
private struct Repairs: OptionSet {
    let rawValue: UInt8
    /// The file is written as a malicious program would: its header has the right checksum, whatever it says.
    static let header = Repairs(rawValue: 1)
    static let body = Repairs(rawValue: 2)
    /// The file is one of ours, with one bit flipped, cut off, or with a byte too many.
    static let damaging = Repairs(rawValue: 4)
}

/// One change of a whole file. The three ways are: a bit is flipped; the end is missing; a byte follows.
private func damaged(_ bytes: [UInt8], by choice: UInt32) -> [UInt8] {
    var bytes = bytes
    switch choice % 4 {
    case 0: bytes.append(UInt8(truncatingIfNeeded: choice >> 8))
    case 1: bytes.removeLast(1 + Int(choice >> 2) % bytes.count)
    default:
        let bit = Int(choice >> 2) % (bytes.count * 8)
        bytes[bit / 8] ^= 1 << UInt8(bit % 8)
    }
    return bytes
}

/// Snapshot files (rules V1, V5).
enum SnapshotTarget: FuzzTarget {
    static let name = "snapshot"

    private static func file(_ value: [UInt8], _ sequence: UInt64, _ writer: String) -> [UInt8] {
        SnapshotHeader(
            version: 3,
            sequence: sequence,
            token: sequence &* 0x9E37_79B9_7F4A_7C15,
            value: value,
            encoding: .json,
            writer: writer,
            time: 1_800_000_000_000_000_000
        ).bytes + value
    }

    static func seeds() throws -> [[UInt8]] {
        let path = FuzzFolder.file("seed")
        let snapshot = SnapshotFile<[String: Int]>(at: URL(fileURLWithPath: path), version: 3, as: "the app")
        var seeds: [[UInt8]] = []
        for value in [[:], ["a": 1], ["a": 2, "ö": -7]] {
            _ = try snapshot.write(value) as SnapshotInfo
            let bytes = Array(try Data(contentsOf: URL(fileURLWithPath: path)))
            for flags: UInt8 in 0..<8 { seeds.append([flags] + bytes) }
        }
        unlink(path)
        return seeds + [[0], [0] + [UInt8](repeating: 0, count: 128)]
    }

    static func run(_ input: [UInt8]) throws {
        var input = FuzzInput(input)
        let repairs = Repairs(rawValue: input.byte())
        if repairs.contains(.damaging) {
            let (choice, sequence) = (input.number(UInt32.self), input.number(UInt64.self))
            let length = Int(input.byte() % 64)
            let writer = String(decoding: input.bytes(length), as: UTF8.self)
            let whole = file(input.all(), sequence, writer)
            guard case .whole(let header, _) = SnapshotContents(whole, limit: .max) else {
                fatalError("a whole file is not read")
            }
            require(header.writer.utf8.elementsEqual(SnapshotHeader.cut(writer)), "the writer's name is another")
            guard case .damaged = SnapshotContents(damaged(whole, by: choice), limit: .max) else {
                fatalError("a damaged file is taken for a whole one")
            }
            return
        }
        var bytes = input.all()
        if bytes.count >= SnapshotHeader.size {
            if repairs.contains(.body) {
                bytes.put(UInt64(bytes.count - SnapshotHeader.size), at: 48)
                bytes.put(Checksum.fnv1a(bytes[SnapshotHeader.size...]), at: 56)
            }
            if repairs.contains(.header) { bytes.put(Checksum.fnv1a(bytes[..<120]), at: 120) }
        }
        _ = SnapshotHeader.mayBegin(bytes.prefix(SnapshotHeader.size))
        switch SnapshotContents(bytes, limit: 4096) {
        case .whole(let header, let value):
            require(value.elementsEqual(bytes[SnapshotHeader.size...]), "another value than the file's")
            require(Checksum.fnv1a(value) == header.checksum, "a value with another checksum")
            require(bytes.word(at: 120) == Checksum.fnv1a(bytes[..<120]), "a header with another checksum")
            // A name that is not UTF-8 is repaired, and can be too long then.
            var cut = header
            cut.writer = String(decoding: SnapshotHeader.cut(header.writer), as: UTF8.self)
            require(SnapshotHeader(header.bytes) == cut, "a header that is another one when it is written again")
            _ = SnapshotInfo(header).description
        case .damaged(let damage, let header):
            _ = "\(damage)" + (header.map { SnapshotInfo($0).description } ?? "")
        case .newerFormat(let header):
            require(header.format > SnapshotHeader.format, "format \(header.format) is not newer")
        case .absent: fatalError("bytes are taken for no file")
        }
        try FuzzFolder.put(bytes, as: "snapshot")
        let url = URL(fileURLWithPath: FuzzFolder.file("snapshot"))
        let reading = try SnapshotFile<[String: Int]>(at: url, version: 3, as: "the widget").read()
        _ = "\(reading)"
        if case .value(let value, let info) = reading {
            let decoded = try? JSONDecoder().decode(
                [String: Int].self,
                from: Data(bytes.dropFirst(SnapshotHeader.size))
            )
            require(info.version == 3 && value == decoded, "a value that the file does not have")
        }
    }
}

/// The files of commands (rules X2, X3).
enum CommandTarget: FuzzTarget {
    static let name = "command"

    private static func command(_ payload: [UInt8], name: String, sender: String, version: Int) -> CommandFile {
        CommandFile(
            id: UUID(uuidString: "6F1A7C52-3D1B-4C5E-9A55-0C7D1F0B2E11")!,
            kind: OutboxCommandKind(name: name, version: version),
            sender: sender,
            time: 1_800_000_000_000_000_000,
            payload: Data(payload)
        )
    }

    static func seeds() throws -> [[UInt8]] {
        let commands = [
            command([], name: "n", sender: "s", version: 0),
            command([1, 2, 3], name: "add", sender: "app", version: 7),
            command(Array("{\"text\":\"ö\"}".utf8), name: "add-entry", sender: "das Widget", version: .max),
        ]
        return commands.flatMap { command in (0..<8).map { [$0] + command.bytes } } + [[0]]
    }

    static func run(_ input: [UInt8]) throws {
        var input = FuzzInput(input)
        let repairs = Repairs(rawValue: input.byte())
        if repairs.contains(.damaging) {
            let choice = input.number(UInt32.self)
            let version = Int(input.number(UInt64.self) >> 1)
            let lengths = (Int(input.byte()), Int(input.byte()))
            let name = String(decoding: input.bytes(lengths.0), as: UTF8.self)
            let sender = String(decoding: input.bytes(lengths.1), as: UTF8.self)
            let command = command(input.all(), name: name, sender: sender, version: version)
            require(CommandFile.content(of: command.bytes) == .command(command), "a whole command is not read")
            guard case .damaged = CommandFile.content(of: damaged(command.bytes, by: choice)) else {
                fatalError("a damaged command is taken for a whole one")
            }
            return
        }
        var bytes = input.all()
        if bytes.count >= CommandFile.headerSize {
            if repairs.contains(.body) {
                bytes.put(Checksum.fnv1a(bytes[CommandFile.headerSize...]), at: 64)
                let names = (bytes.word(at: 48) & 0xFFFF_FFFF) + (bytes.word(at: 48) >> 32)
                bytes.put(UInt64(bytes.count - CommandFile.headerSize) &- names, at: 56)
            }
            if repairs.contains(.header) { bytes.put(Checksum.fnv1a(bytes[..<120]), at: 120) }
        }
        let content = CommandFile.content(of: bytes)
        if case .command(let command) = content {
            require(command.bytes == bytes, "another command than the file's")
            _ = command.date.nanosecondsSince1970
        }
        try FuzzFolder.put(bytes, as: "command")
        let folder = try OpenFolder(at: FuzzFolder.path)
        require(
            try CommandFile.read("command", in: folder, notOf: nil) == content,
            "the file is read otherwise than its bytes"
        )
    }
}

/// The names of commands' files (rule X1).
enum CommandNameTarget: FuzzTarget {
    static let name = "command-name"

    static func seeds() throws -> [[UInt8]] {
        let names = [
            CommandFileName(sender: "app", epoch: 1, stream: 0xABCD, number: 1),
            CommandFileName(sender: "ö%/.", epoch: 8_999_999_999, stream: .max, number: 999_999_999_999),
        ]
        return names.map { Array($0!.description.utf8) } + [Array("app.0000000001".utf8)]
    }

    static func run(_ input: [UInt8]) throws {
        if let name = CommandFileName(String(decoding: input, as: UTF8.self)) {
            require(name.description.utf8.elementsEqual(input), "the name is another one")
            require(name.epoch < 9_000_000_000, "epoch \(name.epoch) is none")
            require(name.description.hasPrefix(name.encodedSender + "."), "the sender is not that of the name")
            _ = name.sender
        }
        var input = FuzzInput(input)
        let (epoch, stream, number) = (input.number(UInt64.self), input.number(UInt32.self), input.number(UInt64.self))
        let sender = String(decoding: input.all(), as: UTF8.self)
        func named(_ number: UInt64) -> CommandFileName? {
            CommandFileName(
                sender: sender,
                epoch: epoch % 10_000_000_000,
                stream: stream,
                number: number % 1_000_000_000_000
            )
        }
        guard let one = named(number), let other = named(number &+ 1) else { return }
        require(one.sender == sender && one.epoch == epoch % 10_000_000_000, "'\(one)' says otherwise")
        require(
            (one < other) == (number % 1_000_000_000_000 < (number &+ 1) % 1_000_000_000_000),
            "'\(one)' and '\(other)' are in the wrong order"
        )
    }
}

/// The files of answers (rule X10).
enum AnswerTarget: FuzzTarget {
    static let name = "answer"

    private static let outcomes: [OutboxOutcome] = [
        .applied, .setAside(.failed, error: "disk full"), .dropped, .setAside(.unknown, error: ""),
        .setAside(.undecodable, error: "ö"), .setAside(.refused, error: "no"),
    ]

    static func seeds() throws -> [[UInt8]] {
        outcomes.flatMap { outcome in [0, 1, 4].map { [$0] + OutboxAnswer.bytes(outcome) } } + [[0]]
    }

    static func run(_ input: [UInt8]) throws {
        var input = FuzzInput(input)
        let repairs = Repairs(rawValue: input.byte())
        if repairs.contains(.damaging) {
            let choice = input.number(UInt32.self)
            var outcome = outcomes[Int(input.byte()) % outcomes.count]
            if case .setAside(let reason, _) = outcome {
                outcome = .setAside(reason, error: String(decoding: input.all().prefix(1000), as: UTF8.self))
            }
            let bytes = OutboxAnswer.bytes(outcome)
            require(OutboxAnswer.outcome(in: bytes) == outcome, "a whole answer is not read")
            require(OutboxAnswer.outcome(in: damaged(bytes, by: choice)) == nil, "a damaged answer is taken for whole")
            return
        }
        var bytes = input.all()
        if repairs.contains(.header), bytes.count >= 32 {
            bytes.put(UInt64(bytes.count - 32), at: 16)
            bytes.put(Checksum.fnv1a(bytes[..<24] + bytes[32...]), at: 24)
        }
        guard let outcome = OutboxAnswer.outcome(in: bytes) else { return }
        require(OutboxAnswer.outcome(in: OutboxAnswer.bytes(outcome)) == outcome, "the answer is another one")
    }
}
