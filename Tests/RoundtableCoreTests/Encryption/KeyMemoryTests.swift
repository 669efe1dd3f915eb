#if os(Linux)
    import RoundtableUnitSupport
    import Foundation
    import GRDB
    import Glibc
    import Testing

    import enum RoundtableTestSupport.SQLCipherRequirement

    @testable import Roundtable
    @testable import RoundtableCore

    /// No key stays in memory that Roundtable has (SQLCipher keeps its own, locked and protected).
    @Suite(.serialized, .enabled(if: SQLCipherRequirement.isMet, "\(SQLCipherRequirement.reason)"))
    struct KeyMemoryTests {
        /// A byte of the key: this test never holds all of them in one place.
        private static func byte(_ index: Int) -> UInt8 { UInt8(truncatingIfNeeded: index &* 37 &+ 11) }

        @Test func noConnectionKeepsOne() throws {
            let world = try EncryptedWorld()
            let encryption = DatabaseEncryption(key: .rawKey { Data((0..<32).map(Self.byte)) })
            #expect(try copies() == 0)
            let db = try world.open(encryption)
            try db.read { _ in }
            let snapshots = try (1...5).map { _ in try db.makeSnapshot() }
            #expect(try copies() == 0)
            for snapshot in snapshots { try snapshot.close() }
            try db.close()
            #expect(try copies() == 0)
        }

        /// The number of copies of the key's hexadecimal digits in the writable memory of this process.
        private func copies() throws -> Int {
            let digits = Array("0123456789abcdef".utf8)
            func digit(_ index: Int) -> UInt8 {
                let byte = Self.byte(index / 2)
                return digits[Int(index.isMultiple(of: 2) ? byte >> 4 : byte & 15)]
            }
            let memory = Glibc.open("/proc/self/mem", O_RDONLY)
            try #require(memory >= 0, "errno \(errno)")
            defer { Glibc.close(memory) }
            let page = 1 << 20
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: page, alignment: 16)
            defer { buffer.deallocate() }
            var count = 0
            for line in try String(contentsOfFile: "/proc/self/maps", encoding: .utf8).split(separator: "\n")
            where line.contains(" rw") {
                let ends = line.prefix { $0 != " " }.split(separator: "-").compactMap { UInt($0, radix: 16) }
                try #require(ends.count == 2, "\(line)")
                var position = ends[0]
                while position + 64 <= ends[1] {
                    let length = pread(memory, buffer.baseAddress, min(page, Int(ends[1] - position)), off_t(position))
                    // Memory that cannot be read is not Roundtable's.
                    if length < 64 { break }
                    var start = 0
                    while start + 64 <= length {
                        if buffer[start] == digit(0), (1..<64).allSatisfy({ buffer[start + $0] == digit($0) }) {
                            count += 1
                        }
                        start += 1
                    }
                    position += UInt(length - 63)
                }
            }
            return count
        }
    }
#endif
