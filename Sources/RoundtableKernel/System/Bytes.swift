/// Appends bytes and little-endian integers to an array.
package struct ByteWriter {
    package private(set) var bytes: [UInt8] = []

    package init() {}

    package mutating func append(_ more: [UInt8]) { bytes += more }
    package mutating func append(_ value: some FixedWidthInteger) {
        withUnsafeBytes(of: value.littleEndian) { bytes += $0 }
    }
}

/// Reads bytes and little-endian integers. The caller must check that enough bytes are left.
package struct ByteReader {
    private let source: [UInt8]
    private var position: Int

    package init(_ source: [UInt8], at position: Int = 0) {
        (self.source, self.position) = (source, position)
    }

    package mutating func bytes(_ count: Int) -> [UInt8] {
        defer { position += count }
        return Array(source[position..<position + count])
    }

    package mutating func integer<Value: FixedWidthInteger>(_ type: Value.Type) -> Value {
        defer { position += MemoryLayout<Value>.size }
        return source.withUnsafeBytes {
            Value(littleEndian: $0.loadUnaligned(fromByteOffset: position, as: Value.self))
        }
    }
}
