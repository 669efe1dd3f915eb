import Foundation
import RoundtableUnitSupport
import Testing

@testable import Roundtable
@testable import RoundtableCore

/// A raw key is overwritten as soon as SQLCipher's form of it is made (rule C6). This needs no SQLCipher.
@Suite struct KeyWipingTests {
    /// What the provider gives is the only reference to its bytes, so they are overwritten in place. A key that is refused is overwritten too.
    @Test(arguments: [DatabaseEncryption.Key.rawKeySize, DatabaseEncryption.Key.rawKeySize + 1]) func rawKey(size: Int)
        throws
    {
        let atTheEnd = Shared<[UInt8]?>(nil)
        let keying = Keying(path: "/nowhere", key: .rawKey { Self.key(size: size, atTheEnd) }, salt: Salt.random())
        if size == DatabaseEncryption.Key.rawKeySize {
            let secret = try keying.keyBytes()
            let text = secret.withBytes { String(decoding: $0, as: UTF8.self) }
            #expect(text.hasPrefix("x'0102030405"), "the provider was not asked")
        } else {
            #expect(throws: EncryptionError.self) { try keying.keyBytes() }
        }
        #expect(atTheEnd.value == [UInt8](repeating: 0, count: size), "the key lies in memory that was given back")
    }

    /// A key that notes its bytes when its memory is given back.
    private static func key(size: Int, _ atTheEnd: Shared<[UInt8]?>) -> Data {
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 16)
        for index in 0..<size { bytes[index] = UInt8(truncatingIfNeeded: index + 1) }
        return Data(
            bytesNoCopy: bytes.baseAddress!,
            count: size,
            deallocator: .custom { pointer, count in
                let memory = UnsafeRawBufferPointer(start: pointer, count: count)
                atTheEnd.change { $0 = Array(memory) }
                pointer.deallocate()
            }
        )
    }
}
