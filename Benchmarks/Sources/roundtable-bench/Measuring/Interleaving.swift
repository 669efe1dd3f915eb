/// Measures several sides in turns: A B C, B C A, C A B … A machine that gets slower or faster meanwhile does so for all
/// alike, and each round gives one ratio.
enum Interleaving {
    /// - returns: for each side, what `measure` returned, round by round.
    static func run<Key: Hashable, Measurement>(
        _ sides: [Key],
        rounds: Int,
        _ measure: (Key) async throws -> Measurement
    ) async throws -> [Key: [Measurement]] {
        var measurements: [Key: [Measurement]] = [:]
        for round in 0..<rounds {
            for step in sides.indices {
                let side = sides[(round + step) % sides.count]
                measurements[side, default: []].append(try await measure(side))
            }
        }
        return measurements
    }

    /// The same in several settings, one after the other in each round.
    static func run<Setting: Hashable, Key: Hashable, Measurement>(
        _ settings: [Setting],
        _ sides: [Key],
        rounds: Int,
        _ measure: (Setting, Key) async throws -> Measurement
    ) async throws -> [Setting: [Key: [Measurement]]] {
        var measurements: [Setting: [Key: [Measurement]]] = [:]
        for round in 0..<rounds {
            for setting in settings {
                for step in sides.indices {
                    let side = sides[(round + step) % sides.count]
                    measurements[setting, default: [:]][side, default: []].append(try await measure(setting, side))
                }
            }
        }
        return measurements
    }
}

/// A slice of a loop that does one thing over and over.
struct LoopSlice {
    /// What each operation took.
    private(set) var times: [Nanoseconds] = []
    private(set) var elapsed: Nanoseconds = 0

    var operationsPerSecond: Double { Double(times.count) / elapsed.seconds }

    static func measuring(for duration: Nanoseconds, _ operation: () throws -> Void) rethrows -> LoopSlice {
        var slice = LoopSlice()
        let start = Clock.now
        var last = start
        while last - start < duration {
            try operation()
            let now = Clock.now
            slice.times.append(now - last)
            last = now
        }
        slice.elapsed = last - start
        return slice
    }

    /// The same operation in so many tasks at once.
    static func measuring(
        for duration: Nanoseconds,
        tasks: Int,
        _ operation: @escaping @Sendable () async throws -> Void
    ) async throws -> LoopSlice {
        let start = Clock.now
        return try await withThrowingTaskGroup(of: [Nanoseconds].self) { group in
            for _ in 0..<tasks {
                group.addTask {
                    var times: [Nanoseconds] = []
                    var last = start
                    while last - start < duration {
                        try await operation()
                        let now = Clock.now
                        times.append(now - last)
                        last = now
                    }
                    return times
                }
            }
            var slice = LoopSlice()
            for try await times in group { slice.times += times }
            slice.elapsed = Clock.now - start
            return slice
        }
    }
}
