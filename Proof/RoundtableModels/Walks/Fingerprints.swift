/// A set of 64-bit fingerprints of states, in which each takes 8 bytes (hash compaction).
///
/// Two different states have the same fingerprint with probability 2⁻⁶⁴, and the second one would be left out then: among n states, this happens
/// with a probability below n² / 2⁶⁵. A walk with another seed has other fingerprints.
struct Fingerprints {
    private var places: [UInt64]
    private(set) var count = 0

    init(capacity: Int = 1 << 12) { places = [UInt64](repeating: 0, count: capacity) }

    var byteCount: Int { places.count * MemoryLayout<UInt64>.size }

    /// - returns: whether the fingerprint was not in the set before.
    mutating func insert(_ fingerprint: UInt64) -> Bool {
        // A place that holds zero is empty.
        let fingerprint = fingerprint == 0 ? 1 : fingerprint
        if count * 4 > places.count * 3 { grow() }
        guard place(fingerprint) else { return false }
        count += 1
        return true
    }

    func contains(_ fingerprint: UInt64) -> Bool {
        let fingerprint = fingerprint == 0 ? 1 : fingerprint
        let mask = places.count - 1
        var index = Int(truncatingIfNeeded: fingerprint) & mask
        while places[index] != 0 {
            if places[index] == fingerprint { return true }
            index = (index + 1) & mask
        }
        return false
    }

    private mutating func place(_ fingerprint: UInt64) -> Bool {
        let mask = places.count - 1
        var index = Int(truncatingIfNeeded: fingerprint) & mask
        while places[index] != 0 {
            if places[index] == fingerprint { return false }
            index = (index + 1) & mask
        }
        places[index] = fingerprint
        return true
    }

    private mutating func grow() {
        let old = places
        places = [UInt64](repeating: 0, count: old.count * 2)
        for fingerprint in old where fingerprint != 0 { _ = place(fingerprint) }
    }
}

/// A fingerprint of a sequence of small numbers: each word is multiplied into both halves of a 128-bit product, which are folded.
struct Fingerprint {
    private var state: UInt64
    private var length: UInt64 = 0

    init(seed: UInt64) { state = seed ^ 0x9E37_79B9_7F4A_7C15 }

    mutating func combine(_ word: UInt64) {
        let product = (state ^ word).multipliedFullWidth(by: 0xD6E8_FEB8_6659_FD93)
        state = (product.high ^ product.low) &+ 0x9E37_79B9_7F4A_7C15 ^ word << 32 ^ word >> 32
        length += 1
    }

    var value: UInt64 {
        var value = state ^ length
        value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
        return value ^ value >> 31
    }
}
