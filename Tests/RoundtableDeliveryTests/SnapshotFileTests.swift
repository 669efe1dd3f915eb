import Foundation
import RoundtableKernel
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableFiles

/// What a snapshot file answers, whatever lies there (rules V1–V5).
@Suite struct SnapshotFileTests {
    struct State: Codable, Sendable, Equatable {
        var name: String
        var scores: [Int]
    }

    let folder: TemporaryFolder
    let url: URL
    let state = State(name: "Arthur", scores: [1, 2, 3])

    init() throws {
        folder = try TemporaryFolder()
        url = folder.file("état.snapshot")
    }

    func file(
        version: Int = 3,
        accepting: ClosedRange<Int>? = nil,
        as writer: String = "app",
        _ change: (inout SnapshotFileOptions) -> Void = { _ in }
    ) -> SnapshotFile<State> {
        var options = SnapshotFileOptions()
        change(&options)
        return SnapshotFile(at: url, version: version, accepting: accepting, as: writer, options: options)
    }

    var contents: [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: folder.url.path).sorted()) ?? []
    }

    func bytes() throws -> [UInt8] { [UInt8](try Data(contentsOf: url)) }
    func put(_ bytes: [UInt8]) throws { try Data(bytes).write(to: url) }

    // MARK: Values

    @Test func aValueIsWrittenAndRead() async throws {
        let file = file()
        #expect(try file.read() == .absent)
        let info = try await file.write(state)
        guard case .value(state, info) = try file.read() else {
            Issue.record("\(try file.read())")
            return
        }
        #expect(info.version == 3 && info.sequence == 1 && info.writer == "app")
        #expect(abs(info.date.timeIntervalSinceNow) < 60)
        #expect(try bytes().count == 128 + info.byteCount)
        #expect(contents == [url.lastPathComponent])
        // Two that write alternately.
        let other = self.file(as: "widget")
        #expect(try onThisThread { try other.write(state) }.sequence == 2)
        #expect(try onThisThread { try file.write(state) }.sequence == 3)
        #expect(try file.read().info?.writer == "app")
        #expect(contents == [url.lastPathComponent])
    }

    /// The form that blocks.
    private func onThisThread<T>(_ body: () throws -> T) rethrows -> T { try body() }

    @Test func theFormatIsThatOfTheProtocol() throws {
        try file(as: "app").write(state)
        let bytes = try bytes()
        func number(_ offset: Int, _ size: Int) -> UInt64 {
            bytes[offset..<offset + size].reversed().reduce(0) { $0 << 8 | UInt64($1) }
        }
        #expect(Array(bytes[0..<8]) == Array("RTSNAP\r\n".utf8))
        #expect(number(8, 4) == 1 && number(12, 4) == 128)
        #expect(number(16, 8) == 3 && number(24, 8) == 1 && number(32, 8) != 0)
        #expect(abs(Double(number(40, 8)) / 1e9 - Date().timeIntervalSince1970) < 60)
        #expect(number(48, 8) == UInt64(bytes.count - 128))
        #expect(number(56, 8) == Checksum.fnv1a(bytes[128...]))
        #expect(number(64, 4) == 1 && number(68, 4) == 3)
        #expect(Array(bytes[72..<120]) == Array("app".utf8) + [UInt8](repeating: 0, count: 45))
        #expect(number(120, 8) == Checksum.fnv1a(bytes[..<120]))
        #expect(String(decoding: bytes[128...], as: UTF8.self) == #"{"name":"Arthur","scores":[1,2,3]}"#)
    }

    /// A writer's sequence with its token never stands for two values, even if the file is removed or damaged meanwhile.
    @Test func aSequenceIsNotGivenTwice() throws {
        let file = file()
        for sequence in 1...3 { #expect(try file.write(state).sequence == UInt64(sequence)) }
        try FileManager.default.removeItem(at: url)
        #expect(try file.write(state).sequence == 4)
        try put(Array("RTS".utf8))
        #expect(try file.write(state).sequence == 5)
        // A writer that does not know the sequence begins again.
        try put([])
        #expect(try self.file().write(state).sequence == 1)
    }

    @Test func theLastSequenceOfAll() throws {
        let header = SnapshotHeader(
            version: 3,
            sequence: .max,
            token: 1,
            value: Array("{}".utf8),
            encoding: .json,
            writer: "x"
        )
        try put(header.bytes + Array("{}".utf8))
        #expect(try file().write(state).sequence == 1)
    }

    @Test func versions() throws {
        try file(version: 3).write(state)
        guard case .tooNew(let info) = try file(version: 2).read() else {
            Issue.record("not too new")
            return
        }
        #expect(info.version == 3)
        guard case .tooOld = try file(version: 4).read() else {
            Issue.record("not too old")
            return
        }
        #expect(try file(version: 5, accepting: 3...5).read().value == state)
        #expect(try file(version: 2, accepting: 0...3).read().value == state)
        // Newer formats keep this header: no bit of their values is believed.
        var bytes = try bytes()
        bytes[8] = 2
        bytes[12] = 200
        let sum = Checksum.fnv1a(bytes[..<120])
        withUnsafeBytes(of: sum.littleEndian) { bytes.replaceSubrange(120..<128, with: $0) }
        try put(bytes)
        guard case .tooNew(let newer) = try file(version: 3).read() else {
            Issue.record("not too new")
            return
        }
        #expect(newer.writer == "app" && newer.version == 3)
    }

    @Test func encodings() throws {
        let list = SnapshotFile<State>(at: url, as: "app", encoding: .propertyList)
        try list.write(state)
        #expect(try list.read().value == state)
        #expect(try bytes()[64] == 2)
        let own = SnapshotFile<State>(
            at: url,
            version: 2,
            accepting: 1...2,
            as: "app",
            encoding: .custom(
                encode: { Data($0.name.utf8) },
                decode: { data, version in State(name: String(decoding: data, as: UTF8.self), scores: [version]) }
            )
        )
        try own.write(state)
        #expect(try own.read().value == State(name: "Arthur", scores: [2]))
        #expect(try bytes()[64] == 0)
        guard case .damaged(.undecodable) = try file(version: 2).read() else {
            Issue.record("JSON? \(try file().read())")
            return
        }
        let unable = SnapshotFile<Double>(at: url, as: "app")
        #expect {
            try unable.write(.nan)
        } throws: { error in
            guard case .encodingFailed(url.path, _) = error as? SnapshotFileError else { return false }
            return true
        }
        #expect(try own.read().value?.name == "Arthur")
    }

    @Test(arguments: ["", "é", String(repeating: "x", count: 48), String(repeating: "🗂️", count: 20)])
    func namesAreCutAtACharacter(name: String) throws {
        try file(as: name).write(state)
        let stored = try #require(try file().read().info?.writer)
        #expect(name.hasPrefix(stored) && stored.utf8.count <= 48)
        #expect(stored == name || stored.utf8.count > 48 - 7)
    }

    @Test func theSizeIsLimited() throws {
        let size = try file().write(state).byteCount
        let error = #expect(throws: SnapshotFileError.self) { try file { $0.maximumSize = size - 1 }.write(state) }
        #expect(error == .tooLarge(path: url.path, byteCount: size, limit: size - 1))
        #expect(error?.description.contains("maximumSize") == true)
        #expect(try file { $0.maximumSize = size }.read().value == state)
        #expect(try file { $0.maximumSize = size - 1 }.read() == .damaged(.tooLarge(limit: size - 1)))
        for limit in [0, -1, .max] { _ = try file { $0.maximumSize = limit }.read() }
        #expect(try file { $0.maximumSize = .max }.read().value == state)
    }

    // MARK: Damage

    @Test func everyLength() throws {
        try file().write(state)
        let whole = try bytes()
        for length in 0..<whole.count {
            try put(Array(whole[..<length]))
            let reading = try file().read()
            guard case .damaged(let damage) = reading else {
                Issue.record("of \(length) bytes: \(reading)")
                continue
            }
            #expect((damage == .empty) == (length == 0))
            if length >= 128 {
                #expect(damage == .truncated(byteCount: length, expected: UInt64(whole.count)))
            }
        }
        try put(whole + [0])
        #expect(try file().read() == .damaged(.trailingBytes(count: 1)))
        try put(whole)
        #expect(try file().read().value == state)
    }

    @Test func everyBit() throws {
        try file().write(state)
        let whole = try bytes()
        for bit in 0..<whole.count * 8 {
            var bytes = whole
            bytes[bit / 8] ^= 1 << (bit % 8)
            try put(bytes)
            let reading = try file(accepting: 0...1000).read()
            guard case .damaged = reading else {
                Issue.record("bit \(bit): \(reading)")
                continue
            }
        }
    }

    @Test func foreignFiles() throws {
        let long = [UInt8](repeating: 0, count: 5 << 20)
        for bytes in [Array("SQLite format 3\0".utf8), [0], long, Array(#"{"name":"x"}"#.utf8)] {
            try put(bytes)
            #expect(try file().read() == .damaged(.foreign))
        }
        // What converts line ends.
        try put([])
        try file().write(state)
        var bytes = try bytes()
        bytes.remove(at: 6)
        try put(bytes)
        #expect(try file().read() == .damaged(.foreign))
    }

    /// What was a snapshot file is replaced, whatever has become of it; nothing else is.
    @Test func whatIsReplaced() throws {
        try file().write(state)
        let whole = try bytes()
        for length in 0..<whole.count {
            try put(Array(whole[..<length]))
            try file { $0.durability = .process }.write(state)
        }
        for bit in 0..<64 {
            var bytes = whole
            bytes[bit / 8] ^= 1 << (bit % 8)
            try put(bytes)
            try file { $0.durability = .process }.write(state)
        }
        try put([UInt8](repeating: 0, count: 5000))
        try file().write(state)
        for text in ["x", "RTCMND\r\n", "SQLite format 3\0", #"{"name":"x"}"#] {
            try put(Array(text.utf8))
            #expect(throws: SnapshotFileError.foreignFile(path: url.path)) { try file().write(state) }
            #expect(try bytes() == Array(text.utf8))
        }
        #expect(contents == [url.lastPathComponent])
    }

    /// A length is never believed beyond the file.
    @Test(arguments: [UInt64.max, UInt64.max - 127, 1 << 63, 1 << 40] as [UInt64])
    func aHugeLength(length: UInt64) throws {
        var header = SnapshotHeader(
            version: 3,
            sequence: 1,
            token: 1,
            value: [1],
            encoding: .json,
            writer: "x"
        )
        header.length = length
        header.version = .max
        try put(header.bytes + [1])
        guard case .tooNew(let info) = try file().read() else {
            Issue.record("not too new")
            return
        }
        #expect(info.version == .max && info.byteCount > 0)
        header.version = 3
        try put(header.bytes + [1])
        guard case .damaged(.truncated(byteCount: 129, _)) = try file().read() else {
            Issue.record("\(try file().read())")
            return
        }
    }

    // MARK: What is reported and kept

    @Test func whatReadingsSay() throws {
        let file = SnapshotFile<Int>(at: url, version: 2, accepting: 1...2, as: "app")
        #expect("\(try file.read())" == "absent")
        let info = try file.write(17)
        #expect("\(info)".hasPrefix("version 2, number 1, written by app at 20"))
        #expect("\(info)".hasSuffix("Z, 2 bytes"))
        #expect("\(try file.read())" == "17 (\(info))")
        #expect("\(try SnapshotFile<Int>(at: url, version: 1, as: "widget").read())" == "too new: \(info)")
        try put([])
        #expect("\(try file.read())" == "damaged: it is empty")
    }

    @Test func permissionsStay() throws {
        try file().write(state)
        for mode in [0o600, 0o640, 0o666] {
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: url.path)
            try file().write(state)
            let attributes = try FileManager.default.attributesOfItem(atPath: url.path)
            #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == mode)
        }
    }

    /// Only what was expected is replaced.
    @Test func anotherValueIsNotReplaced() throws {
        let store = file().store
        let absent = store.look()
        #expect(absent.mark == .absent)
        let first = try #require(try store.write([1], .json, replacing: absent))
        #expect(try store.write([2], .json, replacing: absent) == nil)
        #expect(store.mark() == .whole(first))
        try put(Array("RTSNAP".utf8))
        let damaged = store.look()
        try put(Array("RTSNAP\r\n".utf8))
        #expect(try store.write([2], .json, replacing: damaged) == nil)
        #expect(try store.write([2], .json, replacing: store.look()) != nil)
        #expect(contents == [url.lastPathComponent])
    }

    /// A look from before a writer confirmed the file as it is, is too old to replace the file, although the file is the same.
    @Test func whatWasKeptIsNotReplaced() throws {
        let store = file().store
        _ = try store.write([1], .json)
        let (early, look) = (store.look(), store.look())
        #expect(try store.keep(look))
        #expect(try store.write([2], .json, replacing: early) == nil)
        #expect(try !store.keep(early))
        #expect(try store.write([2], .json, replacing: store.look()) != nil)
    }
}
